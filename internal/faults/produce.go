package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"offstage/client"
	"offstage/tasks"
)

// Job is a task that was accepted, and what may become of it.
type Job struct {
	Key string
	ID  string
	// Ends are the statuses it may end with.
	Ends []tasks.Status
	// Failures is how many of its bodies fail on purpose.
	Failures int
	// Cancelled says that a request to cancel was answered with "yes".
	Cancelled bool
}

// Jobs collects what was accepted. It is safe for use by many goroutines.
type Jobs struct {
	mu   sync.Mutex
	list []*Job
	odd  []string // answers that no fault explains
}

// All gives the jobs accepted so far.
func (j *Jobs) All() []*Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]*Job(nil), j.list...)
}

// Odd gives the answers that no fault explains.
func (j *Jobs) Odd() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.odd...)
}

func (j *Jobs) add(job *Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, job)
}

func (j *Jobs) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.odd = append(j.odd, fmt.Sprintf(format, args...))
}

// Enqueue hands spec in under its idempotency key, again and again, to one daemon after the other, until it is
// accepted; it returns nil when ctx ends first or the task is refused for another reason than a fault.
func (j *Jobs) Enqueue(ctx context.Context, daemons []*Daemon, spec tasks.Spec, job Job) *Job {
	for try := 0; ; try++ {
		t, _, err := daemons[try%len(daemons)].Client.Enqueue(ctx, spec)
		switch {
		case err == nil:
			job.Key, job.ID = spec.IdempotencyKey, t.ID
			if len(job.Ends) == 0 {
				job.Ends = []tasks.Status{tasks.Completed}
			}
			j.add(&job)
			return &job
		case ctx.Err() != nil:
			return nil
		case !Passing(err):
			j.note("enqueue %s: %v", spec.IdempotencyKey, err)
			return nil
		}
		if !pause(ctx, 20*time.Millisecond) {
			return nil
		}
	}
}

// Cancel asks until it is answered and notes a "yes".
func (j *Jobs) Cancel(ctx context.Context, daemons []*Daemon, job *Job) {
	for try := 0; ; try++ {
		changes, err := daemons[try%len(daemons)].Client.Cancel(ctx, tasks.Ref{ID: job.ID}, client.CancelOptions{Reason: "at random"})
		if err == nil {
			j.mu.Lock()
			defer j.mu.Unlock()
			job.Ends = append(job.Ends, tasks.Cancelled)
			job.Cancelled = len(changes) > 0
			return
		}
		if !Passing(err) && ctx.Err() == nil {
			j.note("cancel %s: %v", job.ID, err)
			return
		}
		if !pause(ctx, 20*time.Millisecond) {
			return
		}
	}
}

// Passing reports whether an error is what a fault does to a caller: he may try again.
func Passing(err error) bool {
	return errors.Is(err, tasks.ErrUnavailable) || errors.Is(err, client.ErrUnreachable) ||
		errors.Is(err, context.DeadlineExceeded)
}
