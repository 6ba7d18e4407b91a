package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"

	"offstage/internal/strictjson"
	"offstage/tasks"
)

const (
	// bodyRoom is what a body may have beside a payload.
	bodyRoom = 64 << 10
	// maxBatch is how many specs a batch may have, and batchRoom what each may take on average.
	maxBatch  = 1000
	batchRoom = 16 << 10
)

// readBody reads a JSON body of at most limit bytes. It is nil when there is none; what it returns is valid JSON that
// every reader understands the same way.
func readBody(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	if r.ContentLength > int64(limit) {
		return nil, tooLarge(limit)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, errSlow.because("the body did not arrive in time")
	}
	if err != nil {
		return nil, &tasks.InvalidError{Field: "body", Reason: "was cut off: " + err.Error()}
	}
	if len(body) == 0 {
		return nil, nil
	}
	if err := wantJSON(r); err != nil {
		return nil, err
	}
	return body, strictjson.Check(body)
}

// needBody is readBody for calls that make no sense without one. The type is looked at first: a form or a file that
// was sent by mistake is not read.
func needBody(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	if err := wantJSON(r); err != nil {
		return nil, err
	}
	body, err := readBody(w, r, limit)
	if err == nil && body == nil {
		err = &tasks.InvalidError{Field: "body", Reason: "is empty"}
	}
	return body, err
}

// wantJSON refuses every other Content-Type: the ones that a web page may send without asking are among them.
func wantJSON(r *http.Request) error {
	given := r.Header.Get("Content-Type")
	kind, args, err := mime.ParseMediaType(given)
	charset, hasCharset := args["charset"]
	if err != nil || kind != "application/json" || hasCharset && !strings.EqualFold(charset, "utf-8") {
		return errMediaType.because(fmt.Sprintf("Content-Type is %q, want application/json", given))
	}
	return nil
}

func tooLarge(limit int) error {
	return &tasks.InvalidError{Field: "body", Reason: "is too large", Sentinel: tasks.ErrTooLarge,
		Hint: fmt.Sprintf("at most %d bytes", limit)}
}

// decode reads body into v. The names of fields are taken by the letter, which encoding/json would not do; only in the
// members free, keys are the sender's choice.
func decode(body []byte, v any, free ...string) error {
	if err := strictjson.FieldNames(body, free...); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*tasks.InvalidError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := e.Field
		if field == "" {
			field = "body"
		}
		return &tasks.InvalidError{Field: field, Reason: fmt.Sprintf("is a JSON %s, not a %s", e.Value, e.Type)}
	}
	// encoding/json has no type for this one.
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if field, uerr := strconv.Unquote(quoted); uerr == nil {
			return &tasks.InvalidError{Field: field, Reason: "is not a known field"}
		}
	}
	return &tasks.InvalidError{Field: "body", Reason: err.Error()}
}

// optionalBody decodes a small body into v, when there is one.
func optionalBody(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := readBody(w, r, bodyRoom)
	if err != nil || body == nil {
		return err
	}
	return decode(body, v)
}
