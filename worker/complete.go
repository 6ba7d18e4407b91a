package worker

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// complete is the completion handler, the one place that decides and records how an attempt ended. It runs for every
// attempt that began: success, error, panic, Goexit, timeout, cancel, drain, lost lease. It does not use the body's
// context, which has ended.
func (w *Worker) complete(ctx context.Context, x *body, job *Job, r result, abandoned bool) {
	w.bodies.end(x)
	cause := causeOf(ctx)
	text, at, tail, before := job.out.finish()
	if errors.Is(cause, tasks.ErrLeaseLost) {
		w.watch.StaleWrite(bridge.OpComplete)
		w.watch.AttemptEnded(job.Queue, job.Type, "stale")
		w.log.Warn("Result dropped: the task was taken over while it ran", "task_id", job.ID, "attempt", job.Attempt)
		return
	}
	if p, ok := errors.AsType[*panicError](r.err); ok {
		w.log.Error("Handler panicked", "task_id", job.ID, "type", job.Type, "attempt", job.Attempt, "panic", message(p), "stack", p.stack)
	}
	now := x.attempt.Began.Add(time.Since(x.began)) // Redis' clock, as of the attempt's begin
	end := decide(x.attempt, r, cause, w.queue.Limits(), now)
	end.Output, end.OutputAt, end.Abandoned = text, at, abandoned
	end.Notice = job.finalNotice(tail, before)
	ended, ok := w.commit(x.attempt, end)
	if ok {
		w.report(x, end, ended)
	}
}

// finalNotice completes what the handler set with the end of the output.
func (j *Job) finalNotice(tail string, before int64) *tasks.Notice {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.notice
	var cut int64
	n.Output, cut = tasks.Tail(tail)
	if utf8.RuneCountInString(n.Output) > 0 {
		n.OutputCut = before + cut
	}
	return &n
}

// report tells metrics and the log what was recorded.
func (w *Worker) report(x *body, end bridge.End, ended bridge.Ended) {
	t := x.attempt.Task
	if ended.Stale {
		w.watch.AttemptEnded(t.Queue, t.Type, "stale")
		w.log.Warn("Result dropped: another attempt has the task", "task_id", t.ID, "attempt", t.Attempt, "status", ended.Status)
		return
	}
	outcome := string(end.Outcome)
	if ended.Status == tasks.Cancelled {
		outcome = string(tasks.Cancelled)
	}
	if end.Outcome == bridge.Release && !ended.Status.Terminal() {
		outcome = "released"
		w.watch.Interrupted("drain")
	}
	w.watch.AttemptEnded(t.Queue, t.Type, outcome)
	took := time.Since(x.began)
	if ended.CancelLatency > 0 {
		w.watch.CancelLatency(ended.CancelLatency)
	}
	log := w.log.With("task_id", t.ID, "queue", t.Queue, "type", t.Type, "attempt", t.Attempt, "duration", took)
	if !ended.Status.Terminal() {
		log.Debug("Attempt ended", "status", ended.Status, "outcome", outcome)
		return
	}
	kind := tasks.Kind("")
	if ended.Status == tasks.Failed && end.Error != nil {
		kind = end.Error.Kind
		log.Warn("Task failed", "kind", kind, "err", end.Error.Message)
	} else {
		log.Debug("Task ended", "status", ended.Status)
	}
	w.watch.TaskFinished(t.Queue, t.Type, ended.Status, kind, took)
}
