package queue

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/oklog/ulid/v2"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// Enqueue creates a task. A nil error means that its record and its queue entry are in Redis, written in one step.
// created is false when spec's idempotency key was used before with the same content: then the earlier task is
// returned, as it is now.
//
// Errors: *tasks.InvalidError (joined when there are several), tasks.ErrDuplicateName, tasks.ErrParentCancelled,
// tasks.ErrIdempotencyMismatch, tasks.ErrNotFound when the task of the idempotency key has been deleted,
// tasks.ErrUnavailable. With ErrUnavailable the task may exist all the same, if the answer was lost; use an
// idempotency key to be able to repeat the call.
func (q *Queue) Enqueue(ctx context.Context, spec tasks.Spec) (task *tasks.Task, created bool, err error) {
	made, err := q.prepare(ctx, spec)
	if err != nil {
		return nil, false, err
	}
	release, existing, err := q.reserve(ctx, made)
	if err != nil {
		return nil, false, err
	}
	if existing == "" {
		if err := q.send(ctx, made, spec); err != nil {
			if !written(err) {
				release(ctx)
			}
			return nil, false, err
		}
		existing = made.Result.Existing
	}
	if existing != "" {
		release(ctx)
		task, err := q.store.Get(ctx, existing)
		return task, false, err
	}
	q.watch.TaskEnqueued(made.Queue, made.Type)
	return describe(made, spec), true, nil
}

// prepare validates a spec and completes it.
func (q *Queue) prepare(ctx context.Context, spec tasks.Spec) (*bridge.Creation, error) {
	now := time.Now()
	if err := spec.Validate(q.limits, now); err != nil {
		return nil, err
	}
	if err := q.checkParent(ctx, spec.Parent); err != nil {
		return nil, err
	}
	queue := spec.Queue
	if queue == "" {
		queue = DefaultQueue
	}
	made := &bridge.Creation{
		ID: newID(queue, now), Queue: queue, Owner: spec.Owner, Type: spec.Type, RunAt: spec.RunAt, Delay: spec.Delay,
		Retention: orDefault(spec.Retention, q.limits.Retention),
		Spec: bridge.Spec{
			Name: spec.Name, Description: spec.Description, Metadata: spec.Metadata, Parent: spec.Parent,
			Notify: spec.Notify, Backoff: spec.Backoff, MaxRetries: q.limits.MaxRetries,
			TimeoutMS: q.limits.Timeout.Milliseconds(),
		},
	}
	if spec.MaxRetries != nil {
		made.Spec.MaxRetries = *spec.MaxRetries
	}
	if spec.Timeout != nil {
		made.Spec.TimeoutMS = spec.Timeout.Milliseconds()
	}
	if !spec.Deadline.IsZero() {
		made.Spec.DeadlineMS = spec.Deadline.UnixMilli()
	}
	if spec.IdempotencyKey != "" {
		// Escaped, the key has no colon: otherwise one owner's key could be another's.
		made.IdempotencyKey, made.RequestHash = url.QueryEscape(spec.IdempotencyKey), requestHash(spec)
	}
	return made, nil
}

// DefaultQueue is the queue of a spec that names none.
const DefaultQueue = "default"

// newID makes a task's id: the queue, so that the id alone finds the record, and a ULID with 80 random bits.
func newID(queue string, now time.Time) string {
	return queue + "." + strings.ToLower(ulid.MustNew(ulid.Timestamp(now), rand.Reader).String())
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// requestHash identifies what was asked for. encoding/json sorts the metadata.
func requestHash(spec tasks.Spec) string {
	b, _ := json.Marshal(spec) // has been validated
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// send has asynq encode and enqueue the task; the bridge makes it the creation.
func (q *Queue) send(ctx context.Context, made *bridge.Creation, spec tasks.Spec) error {
	payload, err := spec.PayloadJSON()
	if err != nil {
		return err
	}
	headers := map[string]string{"offstage-owner": made.Owner}
	_, err = q.client.EnqueueContext(bridge.WithCreation(ctx, made),
		asynq.NewTaskWithHeaders(made.Type, payload, headers), asynqOptions(made)...)
	if err == nil {
		return nil
	}
	// asynq keeps the text of the bridge's error and drops the rest.
	if made.Err != nil {
		return fmt.Errorf("enqueue %s: %w", made.Type, made.Err)
	}
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return fmt.Errorf("enqueue %s: %w", made.Type, q.store.Failed(bridge.OpCreate, err))
}

// asynqOptions are what asynq's tools show. The limits that count are ours, so asynq's lie beyond them.
func asynqOptions(made *bridge.Creation) []asynq.Option {
	timeout := time.Duration(made.Spec.TimeoutMS) * time.Millisecond
	if timeout == 0 {
		timeout = math.MaxInt32 * time.Second
	}
	return []asynq.Option{
		asynq.TaskID(made.ID), asynq.Queue(made.Queue), asynq.MaxRetry(made.Spec.MaxRetries + 1),
		asynq.Timeout(timeout.Truncate(time.Second) + time.Second),
		asynq.Retention(made.Retention.Truncate(time.Second) + time.Second),
	}
}

// describe gives the task as the creation left it.
func describe(made *bridge.Creation, spec tasks.Spec) *tasks.Task {
	payload, _ := spec.PayloadJSON() // has been validated
	r := made.Result
	t := &tasks.Task{
		ID: made.ID, Handle: r.Handle, Owner: made.Owner, Type: made.Type, Queue: made.Queue,
		Name: made.Spec.Name, Description: made.Spec.Description, Metadata: made.Spec.Metadata, Status: r.Status,
		MaxRetries: made.Spec.MaxRetries, Payload: payload, Parent: made.Spec.Parent, Notify: made.Spec.Notify,
		Backoff: made.Spec.Backoff, Timeout: tasks.Duration(time.Duration(made.Spec.TimeoutMS) * time.Millisecond),
		Deadline: tasks.AtMilli(made.Spec.DeadlineMS), Retention: tasks.Duration(made.Retention), Version: 1,
		CreatedAt: r.CreatedAt,
	}
	if !r.DueAt.Equal(r.CreatedAt.Time) {
		t.ScheduledAt = r.DueAt
	}
	return t
}

// checkParent refuses a task whose parent was cancelled. A parent that is gone, or lives elsewhere, is no obstacle.
func (q *Queue) checkParent(ctx context.Context, p *tasks.Parent) error {
	if p == nil || p.TaskID == "" {
		return nil
	}
	cancelled, err := q.store.WasCancelled(ctx, p.TaskID)
	switch {
	case errors.Is(err, tasks.ErrNotFound):
		return nil
	case err != nil:
		return err
	case cancelled:
		return fmt.Errorf("%w: %s", tasks.ErrParentCancelled, p.TaskID)
	}
	return nil
}
