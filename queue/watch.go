package queue

import (
	"sync/atomic"
	"time"

	"offstage/tasks"
)

// watch is the Observer in use: it passes on to the configured one, if any, and keeps what readiness needs.
type watch struct {
	next    Observer
	unknown atomic.Pointer[string] // SHA-1 of the first script of asynq's that is not known
}

func newWatch(next Observer) *watch { return &watch{next: next} }

func (w *watch) TaskEnqueued(queue, typ string) {
	if w.next != nil {
		w.next.TaskEnqueued(queue, typ)
	}
}

func (w *watch) TaskStarted(queue string, wait time.Duration) {
	if w.next != nil {
		w.next.TaskStarted(queue, wait)
	}
}

func (w *watch) AttemptEnded(queue, typ, outcome string) {
	if w.next != nil {
		w.next.AttemptEnded(queue, typ, outcome)
	}
}

func (w *watch) TaskFinished(queue, typ string, status tasks.Status, kind tasks.Kind, d time.Duration) {
	if w.next != nil {
		w.next.TaskFinished(queue, typ, status, kind, d)
	}
}

func (w *watch) CommitFailed(operation, reason string) {
	if w.next != nil {
		w.next.CommitFailed(operation, reason)
	}
}

func (w *watch) CommitPending(delta int) {
	if w.next != nil {
		w.next.CommitPending(delta)
	}
}

func (w *watch) StaleWrite(operation string) {
	if w.next != nil {
		w.next.StaleWrite(operation)
	}
}

func (w *watch) Repaired(kind string) {
	if w.next != nil {
		w.next.Repaired(kind)
	}
}

func (w *watch) Interrupted(cause string) {
	if w.next != nil {
		w.next.Interrupted(cause)
	}
}

func (w *watch) CancelRequested(scope string) {
	if w.next != nil {
		w.next.CancelRequested(scope)
	}
}

func (w *watch) CancelLatency(d time.Duration) {
	if w.next != nil {
		w.next.CancelLatency(d)
	}
}

func (w *watch) StuckHandlers(delta int) {
	if w.next != nil {
		w.next.StuckHandlers(delta)
	}
}

func (w *watch) UnknownScript(sha string) {
	w.unknown.CompareAndSwap(nil, &sha)
	if w.next != nil {
		w.next.UnknownScript(sha)
	}
}
