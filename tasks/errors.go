package tasks

import (
	"errors"
	"fmt"
)

// The ways an operation is refused. Compare with errors.Is; the pointer types below carry the data.
var (
	// ErrNotFound: there is no such task, or it belongs to somebody else.
	ErrNotFound = errors.New("no such task")
	// ErrNotOwner: the task belongs to somebody else. It never leaves the process as itself: on the wire it is
	// ErrNotFound.
	ErrNotOwner = errors.New("not the owner of the task")
	// ErrTerminated: the task has ended; see [TerminatedError].
	ErrTerminated = errors.New("task has ended")
	// ErrNotTerminated: the task has not ended yet, and the operation needs that.
	ErrNotTerminated = errors.New("task has not ended")
	// ErrNoInbox: the task's type takes no messages.
	ErrNoInbox = errors.New("task takes no messages")
	// ErrDuplicateName: another task of the owner that has not ended has the name.
	ErrDuplicateName = errors.New("name is in use")
	// ErrReservedName: the name is one of parent, self, all and broadcast.
	ErrReservedName = errors.New("name is reserved")
	// ErrParentCancelled: the parent was cancelled, so nothing new starts under it.
	ErrParentCancelled = errors.New("parent was cancelled")
	// ErrIdempotencyMismatch: the idempotency key was used before with other content.
	ErrIdempotencyMismatch = errors.New("idempotency key was used with another request")
	// ErrInvalid: the input is not acceptable; see [InvalidError].
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge: the input is over a size limit; see [InvalidError].
	ErrTooLarge = errors.New("too large")
	// ErrUnavailable: Redis cannot be reached or refuses writes. Nothing was changed, or the same call may be made
	// again without harm.
	ErrUnavailable = errors.New("redis unavailable")
	// ErrForbiddenParameter: the caller may not use that parameter.
	ErrForbiddenParameter = errors.New("parameter not allowed")
)

// InvalidError names the field that is not acceptable, why, and what would be. It unwraps to [ErrInvalid], or to the
// sentinel given in Sentinel.
type InvalidError struct {
	Field  string // JSON name, like "max_retries" or "metadata.team"
	Reason string
	Hint   string // the way out; may be empty
	// Sentinel is ErrInvalid when nil; ErrTooLarge and ErrReservedName are the others in use.
	Sentinel error
}

func (e *InvalidError) Error() string {
	s := fmt.Sprintf("%s: %s", e.Field, e.Reason)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap gives the sentinel.
func (e *InvalidError) Unwrap() error {
	if e.Sentinel != nil {
		return e.Sentinel
	}
	return ErrInvalid
}

// TerminatedError says how the task ended. It unwraps to [ErrTerminated].
type TerminatedError struct{ Status Status }

func (e *TerminatedError) Error() string { return "task has ended: " + string(e.Status) }

// Unwrap gives ErrTerminated.
func (e *TerminatedError) Unwrap() error { return ErrTerminated }

// Code is how one condition looks on the wire.
type Code struct {
	Err    error
	Status int    // HTTP
	Code   string // the problem's "code" member
}

// Codes maps every condition to its wire form. The first entry whose Err matches wins; two entries may share a code
// (a foreign task looks absent), and then the first is what a client gets back.
func Codes() []Code {
	return []Code{
		{ErrNotFound, 404, "not_found"},
		{ErrNotOwner, 404, "not_found"},
		{ErrTerminated, 409, "terminated"},
		{ErrNotTerminated, 409, "not_terminated"},
		{ErrNoInbox, 409, "no_inbox"},
		{ErrDuplicateName, 409, "duplicate_name"},
		{ErrReservedName, 422, "reserved_name"},
		{ErrParentCancelled, 409, "parent_cancelled"},
		{ErrIdempotencyMismatch, 422, "idempotency_mismatch"},
		{ErrTooLarge, 413, "too_large"},
		{ErrInvalid, 400, "invalid"},
		{ErrUnavailable, 503, "unavailable"},
		{ErrForbiddenParameter, 403, "forbidden_parameter"},
	}
}
