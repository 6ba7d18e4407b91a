package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// Get reads a task. Errors: tasks.ErrNotFound, also for somebody else's task; tasks.ErrUnavailable.
func (q *Queue) Get(ctx context.Context, ref tasks.Ref) (*tasks.Task, error) {
	id, err := q.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	t, err := q.store.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := owns(ref, t.Owner); err != nil {
		return nil, err
	}
	return t, nil
}

// resolve turns a handle into an id. An id is returned as it is.
func (q *Queue) resolve(ctx context.Context, ref tasks.Ref) (string, error) {
	queue, n, ok := bridge.ParseHandle(ref.ID)
	if !ok || tasks.ValidateQueue(queue) != nil {
		return ref.ID, nil
	}
	if ref.Owner == "" {
		return "", &tasks.InvalidError{Field: "owner", Reason: fmt.Sprintf("is needed beside the handle %q", ref.ID)}
	}
	return q.store.ByHandle(ctx, queue, ref.Owner, n)
}

// owns lets an operator and the owner pass. A record without an owner belongs to nobody.
func owns(ref tasks.Ref, owner string) error {
	if ref.Owner == "" || (ref.Owner == owner && owner != "") {
		return nil
	}
	return tasks.ErrNotFound
}

// peek resolves ref, checks its owner and reads the little that pollers want.
func (q *Queue) peek(ctx context.Context, ref tasks.Ref) (string, bridge.Peek, error) {
	id, err := q.resolve(ctx, ref)
	if err != nil {
		return "", bridge.Peek{}, err
	}
	p, err := q.store.Peek(ctx, id)
	if err == nil {
		err = owns(ref, p.Owner)
	}
	return id, p, err
}

// The pace of waiting: quick at first, for short tasks, then calm.
const (
	firstPoll = 10 * time.Millisecond
	lastPoll  = 250 * time.Millisecond
	lastLook  = 2 * time.Second // bounds the read at the end of a wait
)

// poll calls done until it reports true or an error, at most for bound, and reports whether it did so in time.
func poll(ctx context.Context, bound time.Duration, done func() (bool, error)) error {
	deadline := time.Now().Add(bound)
	for delay := firstPoll; ; delay = min(delay*5/4, lastPoll) {
		ok, err := done()
		left := time.Until(deadline)
		if ok || err != nil || left <= 0 {
			return err
		}
		t := time.NewTimer(min(delay, left))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}

// Wait returns the task as soon as it has ended, or as it is when bound is over or ctx ends. An outage of Redis in
// between is waited out. Errors: tasks.ErrNotFound, tasks.ErrUnavailable when Redis is away at the end.
func (q *Queue) Wait(ctx context.Context, ref tasks.Ref, bound time.Duration) (*tasks.Task, error) {
	bounded, cancel := context.WithTimeout(ctx, bound+lastPoll) // a Redis that hangs does not make it longer
	defer cancel()
	err := poll(ctx, bound, func() (bool, error) {
		_, p, err := q.peek(bounded, ref)
		if errors.Is(err, tasks.ErrUnavailable) {
			return false, nil
		}
		return p.Status.Terminal(), err
	})
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	return q.Get(last, ref)
}

// Output reads a piece of what the task wrote: at most limit bytes from byte offset on, or from the start of what is
// kept when that is later. With wait it waits that long for something to read, or for the end of the task. limit is
// 64 KiB when zero or more. Errors as Get.
func (q *Queue) Output(ctx context.Context, ref tasks.Ref, offset int64, limit int, wait time.Duration) (*Output, error) {
	if limit <= 0 || limit > bridge.OutputKept {
		limit = bridge.OutputKept
	}
	offset = max(offset, 0)
	var id string
	var p bridge.Peek
	err := poll(ctx, wait, func() (bool, error) {
		var err error
		id, p, err = q.peek(ctx, ref)
		return p.Written > offset || p.Status.Terminal(), err
	})
	if err != nil {
		return nil, err
	}
	text, begin, written, err := q.store.Output(ctx, id, offset, limit)
	if err != nil {
		return nil, err
	}
	return &Output{Text: text, Offset: begin, Next: begin + int64(len(text)), Total: written, Status: p.Status}, nil
}

// Events reads events of the task numbered above after, in order, at most limit (1-1000; zero means 100). Errors as
// Get.
func (q *Queue) Events(ctx context.Context, ref tasks.Ref, after int64, limit int) ([]tasks.Event, error) {
	if limit == 0 {
		limit = 100
	}
	id, _, err := q.peek(ctx, ref)
	if err != nil {
		return nil, err
	}
	return q.store.Events(ctx, id, after, max(1, min(limit, 1000)))
}
