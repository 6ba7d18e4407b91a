package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// The backoff of a task that does not say otherwise.
const (
	backoffBase = time.Second
	backoffMax  = 10 * time.Minute
)

// decide says how an attempt ended. cause is why its context ended, nil when it did not. A handler that returns nil
// has done its work, whatever happened to its context; a cancelled task is cancelled all the same, by end.lua.
func decide(a *bridge.Attempt, r result, cause error, l tasks.Limits, now time.Time) bridge.End {
	value, encodeErr := encode(r.value, l.MaxResultBytes)
	if r.err == nil && encodeErr != nil {
		r.err = tasks.Permanent(encodeErr)
	}
	end := bridge.End{Outcome: bridge.Completed, Result: value}
	switch {
	case r.err == nil:
		return end
	case errors.Is(cause, tasks.ErrCancelled):
		end.Outcome = bridge.Cancelled
		return end
	case errors.Is(cause, tasks.ErrDraining):
		return bridge.End{Outcome: bridge.Release}
	}
	end.Error = describe(r.err, cause)
	end.Failures = appendFailure(a.Task, end.Error, now)
	end.Outcome = bridge.Failed
	if !end.Error.Retryable || a.Tries >= a.Task.MaxRetries {
		return end
	}
	end.Delay = delay(r.err, a.Task.Backoff, a.Tries)
	if d := a.Task.Deadline; !d.IsZero() && now.Add(end.Delay).After(d.Time) {
		end.Error = &tasks.Error{Kind: tasks.KindExpired, Message: "its deadline comes before the next attempt; the last one: " + end.Error.Message}
		return end
	}
	end.Outcome = bridge.Retry
	return end
}

// describe gives an error its kind and a message fit for a record.
func describe(err, cause error) *tasks.Error {
	e := &tasks.Error{Kind: tasks.KindError, Message: message(err), Retryable: true}
	_, panicked := errors.AsType[*panicError](err)
	_, unknown := errors.AsType[*unknownTypeError](err)
	switch {
	case panicked, errors.Is(err, errGoexit):
		e.Kind = tasks.KindPanic
	case tasks.IsRejected(err):
		e.Kind, e.Retryable = tasks.KindRejected, false
	case tasks.IsPermanent(err):
		e.Retryable = false
	case unknown:
		e.Kind = tasks.KindRejected
	case errors.Is(cause, tasks.ErrTimeout):
		e.Kind = tasks.KindTimeout
	case errors.Is(cause, tasks.ErrExpired):
		e.Kind, e.Retryable = tasks.KindExpired, false
	}
	if errors.Is(err, errAbandoned) {
		e.Retryable = false // a second body must not start beside the first
	}
	return e
}

// message is err's text, clean and bounded. An Error method may panic.
func message(err error) (s string) {
	defer func() {
		if recover() != nil {
			s = fmt.Sprintf("an error of type %T that cannot be printed", err)
		}
	}()
	if s = tasks.CleanMessage(err.Error()); s == "" {
		s = fmt.Sprintf("an error of type %T without a text", err)
	}
	return s
}

// encode gives a handler's value the form of a result; nil stays nil.
func encode(v any, limit int) (b json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("result of type %T: its encoding panicked: %v", v, p)
		}
	}()
	if v == nil {
		return nil, nil
	}
	b, err = json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("result cannot be encoded: %w", err)
	}
	if len(b) > limit {
		return nil, fmt.Errorf("result is %d bytes, at most %d are stored (task.max_result)", len(b), limit)
	}
	return b, nil
}

func appendFailure(t *tasks.Task, e *tasks.Error, now time.Time) []tasks.Failure {
	list := append(slices.Clip(t.Errors), tasks.Failure{Attempt: t.Attempt, Kind: e.Kind, Message: e.Message, At: tasks.At(now)})
	return list[max(0, len(list)-tasks.MaxFailures):]
}

// delay is the time until the next attempt: what the handler asked for, or exponential with full jitter, so that tasks
// that fail together do not come back together.
func delay(err error, b *tasks.Backoff, tries int) time.Duration {
	if d, ok := tasks.RetryDelay(err); ok {
		return min(d, tasks.MaxDuration)
	}
	base, most := backoffBase, backoffMax
	if b != nil && b.Base > 0 {
		base = time.Duration(b.Base)
	}
	if b != nil && b.Max > 0 {
		most = time.Duration(b.Max)
	}
	ceiling := math.Min(float64(base)*math.Pow(2, float64(tries)), float64(max(most, base)))
	return time.Duration(rand.Float64() * ceiling) //nolint:gosec // jitter
}

// causeOf is why ctx ended; nil while it has not.
func causeOf(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
