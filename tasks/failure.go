package tasks

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind classifies why a task failed. The zero value is not a kind.
type Kind string

// The kinds of failure.
const (
	KindError    Kind = "error"    // the handler returned an error
	KindPanic    Kind = "panic"    // the handler panicked or called runtime.Goexit
	KindTimeout  Kind = "timeout"  // the attempt ran longer than its timeout
	KindExpired  Kind = "expired"  // the task's deadline passed
	KindOrphaned Kind = "orphaned" // its workers died too often (see max_interruptions)
	KindRejected Kind = "rejected" // no worker may run it: unknown type, malformed payload, not allowed
	KindLost     Kind = "lost"     // its message vanished from Redis before it could run
)

// Error is how a task failed.
type Error struct {
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
	// Retryable says whether another attempt might have helped.
	Retryable bool `json:"retryable"`
}

// Failure is one failed attempt.
type Failure struct {
	Attempt int    `json:"attempt"`
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
	At      Time   `json:"at"`
}

// MaxFailures is how many failed attempts a record keeps.
const MaxFailures = 10

// MaxMessageBytes bounds an error message on a record.
const MaxMessageBytes = 4096

// The causes a handler finds with context.Cause when its context ends.
var (
	ErrCancelled = errors.New("task cancelled")
	ErrTimeout   = errors.New("task timed out")
	ErrExpired   = errors.New("task deadline passed")
	ErrDraining  = errors.New("worker is draining")
	ErrLeaseLost = errors.New("worker lost the lease of the task")
)

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks err so that the task fails at once, whatever retries are left. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err or anything it wraps was marked by [Permanent].
func IsPermanent(err error) bool {
	_, ok := errors.AsType[*permanentError](err)
	return ok
}

type retryAfterError struct {
	err   error
	after time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// RetryAfter marks err so that the next attempt, if any is left, starts after d instead of the backoff's delay. A
// negative d counts as zero. RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, max(d, 0)}
}

// RetryDelay returns the delay asked for with [RetryAfter].
func RetryDelay(err error) (time.Duration, bool) {
	if e, ok := errors.AsType[*retryAfterError](err); ok {
		return e.after, true
	}
	return 0, false
}

type rejectedError struct{ err error }

func (e *rejectedError) Error() string { return e.err.Error() }
func (e *rejectedError) Unwrap() error { return e.err }

// Rejected marks err as the refusal of a task that can never run as it is (malformed payload, command not allowed):
// the task fails at once with [KindRejected]. Rejected(nil) is nil.
func Rejected(err error) error {
	if err == nil {
		return nil
	}
	return &rejectedError{err}
}

// IsRejected reports whether err or anything it wraps was marked by [Rejected].
func IsRejected(err error) bool {
	_, ok := errors.AsType[*rejectedError](err)
	return ok
}

// CleanMessage makes s fit for a record: valid UTF-8, no control characters but newline and tab, at most
// MaxMessageBytes with the cut marked.
func CleanMessage(s string) string {
	const room = 2 * MaxMessageBytes // cleaning may grow a bad byte to three
	over := len(s) > room
	if over {
		s = s[:room]
	}
	s = strings.Map(func(r rune) rune {
		if (r < ' ' && r != '\n' && r != '\t') || (r >= 0x7f && r < 0xa0) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
	if !over && len(s) <= MaxMessageBytes {
		return s
	}
	// A run of bad bytes shrinks to one character, so there may be less left than fits.
	cut := min(len(s), MaxMessageBytes-len(cutMark))
	for cut < len(s) && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + cutMark
}

// cutMark stands where a message was cut.
const cutMark = " …(cut)"
