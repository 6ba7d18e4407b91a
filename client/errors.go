package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"offstage/tasks"
)

var (
	// ErrUnreachable: no offstage daemon answered. Whether the request had an effect is not known.
	ErrUnreachable = errors.New("server unreachable")
	// ErrUnauthorized: the daemon wants a token, or does not know the one it got.
	ErrUnauthorized = errors.New("not authorized")
)

// Error is a refusal by the server. It unwraps to the sentinel of package tasks that its code stands for (to a
// *tasks.TerminatedError when the server said how the task ended), to [ErrUnauthorized], to [ErrUnreachable] when a
// proxy answered in place of the daemon, or to nothing.
type Error struct {
	Status    int    // HTTP
	Code      string // the problem's code; empty when the answer was no problem document
	Field     string // the JSON name of the parameter that is at fault; may be empty
	Detail    string
	Hint      string  // the way out; may be empty
	Faults    []Fault // every fault, when there is more than one
	RequestID string  // names the request in the daemon's log; may be empty
	// RetryAfter is how long the server asks to wait before the request is made again; zero when it did not say.
	RetryAfter time.Duration

	sentinel error
}

// Fault is one thing that is not acceptable in a request.
type Fault struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
}

// Error reads "field: detail (hint)", one line for each fault.
func (e *Error) Error() string {
	if len(e.Faults) > 0 {
		lines := make([]string, len(e.Faults))
		for i, f := range e.Faults {
			lines[i] = f.text()
		}
		return strings.Join(lines, "\n")
	}
	f := Fault{Field: e.Field, Detail: e.Detail, Hint: e.Hint}
	if f.Detail == "" {
		f.Detail = fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return f.text()
}

// text leaves out what the detail has in it already.
func (f Fault) text() string {
	s := cmp.Or(f.Detail, "is not acceptable")
	if f.Field != "" && !strings.HasPrefix(s, f.Field+":") {
		s = f.Field + ": " + s
	}
	if f.Hint != "" && !strings.Contains(s, f.Hint) {
		s += " (" + f.Hint + ")"
	}
	return s
}

// Unwrap gives the sentinel; nil when the code is not known.
func (e *Error) Unwrap() error { return e.sentinel }

// UnreachableError says which server did not answer, and why. errors.Is finds [ErrUnreachable] in it, and the network's
// own error.
type UnreachableError struct {
	Server string
	Err    error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("offstage at %s: %s (is the daemon running? start it with 'offstage serve', or set --server)",
		e.Server, networkReason(e.Err))
}

// Is reports whether target is ErrUnreachable.
func (e *UnreachableError) Is(target error) bool { return target == ErrUnreachable }

// Unwrap gives the network's error.
func (e *UnreachableError) Unwrap() error { return e.Err }

// networkReason is the part of a network error that a person can use.
func networkReason(err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return "no such host: " + dns.Name
	}
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		return no.Error()
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed before the answer was complete"
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

// sentinelOf is what code stands for; nil when it is not known.
func sentinelOf(code string) error {
	for _, c := range tasks.Codes() {
		if c.Code == code {
			return c.Err
		}
	}
	return nil
}
