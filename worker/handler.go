package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"offstage/tasks"
)

// Handler is a task's body. What it returns beside a nil error becomes the task's result, encoded as JSON; a result
// beside an error is kept too. Its context ends, with a cause, when the task is cancelled (tasks.ErrCancelled), runs out
// of time (tasks.ErrTimeout, tasks.ErrExpired), the worker drains (tasks.ErrDraining) or has lost the task
// (tasks.ErrLeaseLost); it should return soon then. The slot is held until it returns.
type Handler func(ctx context.Context, job *Job) (any, error)

// Middleware wraps a handler.
type Middleware func(Handler) Handler

// Handle registers fn for tasks of a type; their payload is decoded into A. A payload that cannot be fails the task at
// once as rejected. Like [Worker.HandleRaw] otherwise.
func Handle[A, R any](w *Worker, typ string, fn func(ctx context.Context, job *Job, args A) (R, error)) {
	w.HandleRaw(typ, func(ctx context.Context, job *Job) (any, error) {
		var args A
		if len(job.Payload) > 0 {
			if err := json.Unmarshal(job.Payload, &args); err != nil {
				return nil, tasks.Rejected(fmt.Errorf("payload does not fit %s: %w", typ, err))
			}
		}
		return fn(ctx, job, args)
	})
}

// HandleRaw registers h for tasks of a type. It panics when the type has a handler already or the worker runs: both are
// mistakes of the program.
func (w *Worker) HandleRaw(typ string, h Handler) {
	if w.started.Load() {
		panic("worker: handler registered while the worker runs: " + typ)
	}
	if _, dup := w.handlers[typ]; dup || typ == "" || h == nil {
		panic(fmt.Sprintf("worker: no or a second handler for type %q", typ))
	}
	w.handlers[typ] = h
}

// Use wraps every handler in m; the first one used is outermost. Call it before Run.
func (w *Worker) Use(m ...Middleware) { w.middleware = append(w.middleware, m...) }

// Types lists the types that have a handler.
func (w *Worker) Types() []string {
	var types []string
	for typ := range w.handlers {
		types = append(types, typ)
	}
	return types
}

// handler finds the handler of a type, wrapped. A type without one fails, and is tried again, for another worker of the
// queue may know it.
func (w *Worker) handler(typ string) Handler {
	h, ok := w.handlers[typ]
	if !ok {
		h = func(context.Context, *Job) (any, error) {
			return nil, &unknownTypeError{typ}
		}
	}
	for _, m := range slices.Backward(w.middleware) {
		h = m(h)
	}
	return h
}

type unknownTypeError struct{ typ string }

func (e *unknownTypeError) Error() string {
	return fmt.Sprintf("this worker has no handler for type %q (register one, or give the type a queue of its own)", e.typ)
}

// Permanent is tasks.Permanent: the task fails at once, whatever retries are left.
func Permanent(err error) error { return tasks.Permanent(err) }

// RetryAfter is tasks.RetryAfter: the next attempt, if any is left, starts after d.
func RetryAfter(d time.Duration, err error) error { return tasks.RetryAfter(d, err) }
