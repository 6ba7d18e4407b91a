package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// Job is what a handler has of its task. Its methods are safe for use by many goroutines until the handler returns.
type Job struct {
	ID      string
	Owner   string
	Type    string
	Queue   string
	Attempt int // counts from 1, over all runs of the task
	// Payload holds the bytes that the producer sent: JSON, unless it was a plain asynq producer.
	Payload json.RawMessage
	// Task is the record as it was when the attempt began.
	Task tasks.Task

	w      *Worker
	a      *bridge.Attempt
	out    *outputWriter
	mu     sync.Mutex
	notice tasks.Notice
}

func newJob(w *Worker, a *bridge.Attempt) *Job {
	t := *a.Task
	return &Job{
		ID: t.ID, Owner: t.Owner, Type: t.Type, Queue: t.Queue, Attempt: t.Attempt, Payload: a.Payload, Task: t,
		w: w, a: a, out: newOutputWriter(w, a),
	}
}

// writeTimeout bounds one write of a job. It does not depend on the handler's context: final words count.
const writeTimeout = 3 * time.Second

// Progress reports how far the task is, 0 to 1; what lies outside is brought inside. Errors: tasks.ErrLeaseLost when
// the task is not this worker's any more, tasks.ErrUnavailable.
func (j *Job) Progress(p float64) error {
	if math.IsNaN(p) {
		return &tasks.InvalidError{Field: "progress", Reason: "is not a number"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	return j.w.store.WriteProgress(ctx, j.a, min(max(p, 0), 1))
}

// Emit appends an event of the task's own, of type typ, with a payload that encoding/json can encode (nil for none).
// It works after the context ended, too. Errors: *tasks.InvalidError, and as Progress.
func (j *Job) Emit(typ string, payload any) error {
	if typ == "" || len(typ) > tasks.MaxTypeBytes {
		return &tasks.InvalidError{Field: "type", Reason: fmt.Sprintf("is %d bytes long", len(typ)), Hint: fmt.Sprintf("1 to %d", tasks.MaxTypeBytes)}
	}
	b, err := json.Marshal(payload)
	if err != nil {
		return &tasks.InvalidError{Field: "payload", Reason: err.Error()}
	}
	if limit := j.w.queue.Limits().MaxPayloadBytes; len(b) > limit {
		return &tasks.InvalidError{Field: "payload", Reason: fmt.Sprintf("is %d bytes", len(b)), Hint: fmt.Sprintf("at most %d", limit), Sentinel: tasks.ErrTooLarge}
	}
	if payload == nil {
		b = nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	return j.w.store.WriteEvent(ctx, j.a, typ, b)
}

// Output is where the task's text goes. Writes are collected for a moment and then stored; they never fail and never
// wait for Redis. While Redis is away, the last 256 KiB are kept. Bytes that are not UTF-8 are replaced.
func (j *Job) Output() io.Writer { return j.out }

// SetNotice sets the exit code and the command that the terminal event carries. Its output is filled in.
func (j *Job) SetNotice(n tasks.Notice) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.notice = n
}

// Enqueue creates a child: it belongs to the job's owner and has the job as its parent unless the spec says otherwise,
// and inherits run, call and agent. Errors as queue.Queue.Enqueue.
func (j *Job) Enqueue(ctx context.Context, spec tasks.Spec) (*tasks.Task, error) {
	if spec.Owner == "" {
		spec.Owner = j.Owner
	}
	var own, given tasks.Parent
	if j.Task.Parent != nil {
		own = *j.Task.Parent
	}
	if spec.Parent != nil {
		given = *spec.Parent
	}
	spec.Parent = &tasks.Parent{
		TaskID: or(given.TaskID, j.ID), RunID: or(given.RunID, own.RunID),
		CallID: or(given.CallID, own.CallID), AgentID: or(given.AgentID, own.AgentID),
	}
	t, _, err := j.w.queue.Enqueue(ctx, spec)
	return t, err
}

func or(s, def string) string {
	if s != "" {
		return s
	}
	return def
}
