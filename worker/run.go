package worker

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// ProcessTask is asynq's way in. It returns when the body has returned and its slot is free. asynq's context is not
// the body's: asynq lets go of tasks that still run.
func (w *Worker) ProcessTask(ctx context.Context, _ *asynq.Task) error {
	id, _ := asynq.GetTaskID(ctx)
	queue, _ := asynq.GetQueueName(ctx)
	a, ok := w.server.Attempt(queue, id)
	if !ok {
		w.log.Error("Task without an open attempt", "asynq_id", id, "queue", queue)
		return nil
	}
	defer w.bodies.release()
	w.attempt(a)
	return nil
}

// attempt runs one body and records its end.
func (w *Worker) attempt(a *bridge.Attempt) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	x := &body{attempt: a, cancel: cancel, began: time.Now()}
	if !w.bodies.add(x) {
		// The task was started anew while a body that ignores its context still runs here.
		w.commit(a, bridge.End{Outcome: bridge.Release, Delay: time.Second})
		return
	}
	defer w.bodies.remove(x)
	if w.settle(a) {
		return
	}
	w.watch.TaskStarted(a.Task.Queue, a.Waited)
	job := newJob(w, a)
	stop := w.limits(a, cancel)
	defer stop()
	goid, done := w.bodies.call(ctx, w.handler(a.Task.Type), job)
	select {
	case r := <-done:
		w.complete(ctx, x, job, r, false)
	case <-ctx.Done():
		select {
		case r := <-done:
			w.complete(ctx, x, job, r, false)
		case <-time.After(w.cfg.CancelGrace + slack):
			w.abandon(ctx, x, job, <-goid, done)
		}
	}
}

// limits cancels the body when its time is over. The deadline is compared with Redis' clock.
func (w *Worker) limits(a *bridge.Attempt, cancel context.CancelCauseFunc) (stop func()) {
	var timers []*time.Timer
	if d := time.Duration(a.Task.Timeout); d > 0 {
		timers = append(timers, time.AfterFunc(d, func() { cancel(tasks.ErrTimeout) }))
	}
	if !a.Task.Deadline.IsZero() {
		left := a.Task.Deadline.Sub(a.Began)
		timers = append(timers, time.AfterFunc(left, func() { cancel(tasks.ErrExpired) }))
	}
	return func() {
		for _, t := range timers {
			t.Stop()
		}
	}
}

// abandon ends a task whose body goes on, and then waits for the body. A drain leaves the task as it is: it starts
// again elsewhere once this process, and the body with it, is gone.
func (w *Worker) abandon(ctx context.Context, x *body, job *Job, goid []byte, done <-chan result) {
	w.watch.StuckHandlers(1)
	defer w.watch.StuckHandlers(-1)
	log := w.log.With("task_id", job.ID, "queue", job.Queue, "type", job.Type, "attempt", job.Attempt)
	log.Error("Handler ignores its context; it keeps its slot until it returns", "cause", context.Cause(ctx), "stack", stackOf(goid))
	cause := context.Cause(ctx)
	if !errors.Is(cause, tasks.ErrDraining) && !errors.Is(cause, tasks.ErrLeaseLost) {
		w.complete(ctx, x, job, result{err: errAbandoned}, true)
	}
	<-done
	log.Warn("Handler that ignored its context has returned", "duration", time.Since(x.began))
}

var errAbandoned = errors.New("the handler ignored the end of its context and still runs")
