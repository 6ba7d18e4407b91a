package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"offstage/tasks"
)

// The operations of the commit-failure counter. They name what was to be stored.
const (
	OpCreate   = "task_create"
	OpBegin    = "task_begin"
	OpComplete = "task_completion"
	OpRetry    = "task_retry"
	OpRelease  = "task_release"
	OpEvent    = "task_event"
	OpRestore  = "task_restore"
)

// The reasons of the commit-failure counter.
const (
	ReasonUnavailable = "unavailable" // no connection, or Redis says it cannot serve now
	ReasonTimeout     = "timeout"
	ReasonOOM         = "oom"
	ReasonReadOnly    = "readonly"
	ReasonScript      = "script" // a script of ours failed: a defect
	ReasonOther       = "other"
)

// OpError is a script that Redis did not run to its end. It unwraps to the client's error and, when trying again may
// help, to tasks.ErrUnavailable.
type OpError struct {
	Op     string
	Reason string
	Err    error
}

func (e *OpError) Error() string { return fmt.Sprintf("%s: redis: %v", e.Op, e.Err) }

// Unwrap gives the cause and what it means.
func (e *OpError) Unwrap() []error {
	if e.Reason == ReasonScript {
		return []error{e.Err}
	}
	return []error{tasks.ErrUnavailable, e.Err}
}

func opError(op string, err error) *OpError { return &OpError{op, reasonOf(err), err} }

// reasonOf sorts an error of go-redis. The prefixes are Redis' error codes.
func reasonOf(err error) string {
	netErr, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), isNet && netErr.Timeout(), errors.Is(err, redis.ErrPoolTimeout):
		return ReasonTimeout
	case isNet, !isRedisError(err):
		return ReasonUnavailable
	case redis.HasErrorPrefix(err, "OOM"):
		return ReasonOOM
	case redis.HasErrorPrefix(err, "READONLY"):
		return ReasonReadOnly
	}
	for _, code := range []string{"MISCONF", "NOREPLICAS", "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN",
		"max number of clients"} {
		if redis.HasErrorPrefix(err, code) {
			return ReasonUnavailable
		}
	}
	if strings.Contains(err.Error(), "script") {
		return scriptReason(err.Error())
	}
	return ReasonOther
}

// scriptReason looks into an error that a command inside a script met: Redis puts the command's own code into it.
func scriptReason(text string) string {
	switch {
	case strings.Contains(text, "OOM "):
		return ReasonOOM
	case strings.Contains(text, "READONLY "):
		return ReasonReadOnly
	case strings.Contains(text, "MISCONF "), strings.Contains(text, "NOREPLICAS "):
		return ReasonUnavailable
	case strings.Contains(text, "NOPERM"), strings.Contains(text, "ACL"), strings.Contains(text, "user executing the script"):
		return ReasonOther
	}
	return ReasonScript
}

func isRedisError(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}
