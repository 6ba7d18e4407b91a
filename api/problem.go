package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"offstage/tasks"
)

// Problem is an error on the wire: RFC 9457, with the members that offstage adds. Code says which condition it is;
// [tasks.Codes] and the codes of openapi.yaml list them.
type Problem struct {
	Type   string `json:"type"` // "urn:offstage:problem:" and the code
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   string `json:"code"`
	// Field is the field, parameter or header that is not acceptable; Hint is what would be.
	Field string `json:"field,omitempty"`
	Hint  string `json:"hint,omitempty"`
	// Errors lists every fault when there is more than one; the first is also in Field, Detail and Hint.
	Errors []Fault `json:"errors,omitempty"`
	// TaskStatus is how the task ended, for code "terminated".
	TaskStatus tasks.Status `json:"task_status,omitempty"`
	RequestID  string       `json:"request_id,omitempty"`
}

// Fault is one thing that is not acceptable in a request.
type Fault struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// condition is an error of HTTP itself, which no sentinel of package tasks stands for.
type condition struct {
	status      int
	code, title string
}

// The conditions beside those of tasks.Codes.
var (
	errRoute     = condition{http.StatusNotFound, "route_not_found", "no such route"}
	errMethod    = condition{http.StatusMethodNotAllowed, "method_not_allowed", "method not allowed"}
	errMediaType = condition{http.StatusUnsupportedMediaType, "unsupported_media_type", "body is not JSON"}
	errSlow      = condition{http.StatusRequestTimeout, "request_timeout", "request took too long to arrive"}
	errAccept    = condition{http.StatusNotAcceptable, "not_acceptable", "no such representation"}
	errForeign   = condition{http.StatusForbidden, "foreign_host", "request comes from elsewhere"}
	errReadOnly  = condition{http.StatusForbidden, "read_only", "monitoring is read-only"}
	errQueue     = condition{http.StatusNotFound, "not_found", "no such queue"}
	errInternal  = condition{http.StatusInternalServerError, "internal", "internal error"}
)

func (c condition) problem(detail string) Problem {
	return Problem{Type: typeURI(c.code), Title: c.title, Status: c.status, Detail: detail, Code: c.code}
}

// refusal is a condition as an error.
type refusal struct{ Problem }

func (e *refusal) Error() string { return e.Title + ": " + e.Detail }

func (c condition) because(detail string) error { return &refusal{c.problem(detail)} }

func typeURI(code string) string { return "urn:offstage:problem:" + code }

// problemOf translates err; false means that it is no condition a client could act on.
func problemOf(err error) (Problem, bool) {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.Problem, true
	}
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, tasks.ErrUnavailable) {
		err = errors.Join(tasks.ErrUnavailable, err)
	}
	for _, c := range tasks.Codes() {
		if !errors.Is(err, c.Err) {
			continue
		}
		p := Problem{Type: typeURI(c.Code), Title: c.Err.Error(), Status: c.Status, Detail: err.Error(), Code: c.Code}
		if errors.Is(c.Err, tasks.ErrNotOwner) { // must look exactly like an absent task
			p.Title = tasks.ErrNotFound.Error()
		}
		if p.Status == http.StatusNotFound {
			p.Detail = ""
		}
		if e, ok := errors.AsType[*tasks.TerminatedError](err); ok {
			p.TaskStatus = e.Status
		}
		p.addFaults(err, c.Err)
		return p, true
	}
	return errInternal.problem("see the daemon's log for this request_id"), false
}

// addFaults fills in the fields that err names, those that made the problem what it is first.
func (p *Problem) addFaults(err, sentinel error) {
	for _, e := range invalids(err) {
		f := Fault{Field: cmp.Or(e.Field, `""`), Detail: e.Reason, Hint: e.Hint} // a key may be empty
		if errors.Is(e, sentinel) && p.Field == "" {
			p.Field, p.Hint = f.Field, f.Hint
			p.Detail = f.Field + ": " + f.Detail
			p.Errors = append([]Fault{f}, p.Errors...)
			continue
		}
		p.Errors = append(p.Errors, f)
	}
	if len(p.Errors) == 1 {
		p.Errors = nil
	}
}

// invalids collects every *tasks.InvalidError in err's tree.
func invalids(err error) []*tasks.InvalidError {
	switch e := err.(type) { //nolint:errorlint // errors.As finds one, this is after all of them
	case *tasks.InvalidError:
		return []*tasks.InvalidError{e}
	case interface{ Unwrap() error }:
		return invalids(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all []*tasks.InvalidError
		for _, inner := range e.Unwrap() {
			all = append(all, invalids(inner)...)
		}
		return all
	}
	return nil
}

// fail answers with err. What no client can act on is logged; for the rest the client is the one who is told. When
// the client went away, the connection is cut: returning without an answer would make net/http send a 200.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	p, known := problemOf(err)
	if !known {
		s.log.ErrorContext(r.Context(), "Request failed", "request_id", requestID(r), "route", r.Pattern, "err", err)
	}
	writeProblem(w, r, p)
}

func writeProblem(w http.ResponseWriter, r *http.Request, p Problem) {
	p.RequestID = requestID(r)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	h.Del("ETag")
	_ = writeBody(w, p.Status, "application/problem+json", p) // strings and numbers always encode
}

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	return writeBody(w, status, "application/json", v)
}

// writeBody encodes before it writes, so that an error can still become a problem. A write that fails is the
// client's going away, which is no error of ours.
func writeBody(w http.ResponseWriter, status int, contentType string, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes())
	return nil
}
