package bridge

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/tasks"
)

// Cancel cancels a task that waits, and marks a running one so that it ends cancelled whatever its body does. owner
// is empty for an operator. done is false when the task had ended before: then nothing changed and from is its
// status. Errors: tasks.ErrNotFound, *OpError.
func (s *Store) Cancel(ctx context.Context, id, owner, by, reason string) (from tasks.Status, done bool, err error) {
	shown := "cancelled"
	if reason != "" {
		shown += ": " + reason
	}
	reply, err := s.change(ctx, OpComplete, cancelScript, id, owner,
		tasks.CleanMessage(by), tasks.CleanMessage(reason), failedOverlay(0, shown, time.Now()), rand.Text()[:10])
	if err != nil {
		return "", false, err
	}
	if len(reply) == 2 && text(reply[1]) == string(tasks.Running) {
		_ = s.rdb.Publish(ctx, CancelHints, id).Err() // a hint only: the next heartbeat tells the worker anyway
	}
	return tasks.Status(text(reply[1])), code(reply) == 1, nil
}

// CancelHints is the channel on which ids of running tasks are published that were asked to cancel.
const CancelHints = "offstage:cancel"

// Rerun makes a failed or cancelled task pending again; with delayed set, a scheduled or retrying one too. Errors:
// tasks.ErrNotFound, *tasks.TerminatedError for a completed task, tasks.ErrNotTerminated, *OpError.
func (s *Store) Rerun(ctx context.Context, id, owner string, delayed bool) error {
	reply, err := s.change(ctx, OpRestore, rerunScript, id, owner, flag(delayed), rand.Text()[:10])
	if err != nil || code(reply) == 1 {
		return err
	}
	if code(reply) == -2 {
		return fmt.Errorf("%w: its message is gone", tasks.ErrNotFound)
	}
	return statusError(tasks.Status(text(reply[1])))
}

// Delete removes a task that has ended. Errors: tasks.ErrNotFound, tasks.ErrNotTerminated, *OpError.
func (s *Store) Delete(ctx context.Context, id, owner string) error {
	reply, err := s.change(ctx, OpRestore, deleteScript, id, owner)
	if err != nil || code(reply) == 1 {
		return err
	}
	return statusError(tasks.Status(text(reply[1])))
}

func statusError(s tasks.Status) error {
	if s.Terminal() {
		return &tasks.TerminatedError{Status: s}
	}
	return fmt.Errorf("%w: it is %s", tasks.ErrNotTerminated, s)
}

// change runs a script on one task of an owner and settles the reply "no such task".
func (s *Store) change(ctx context.Context, op string, script *redis.Script, id, owner string, args ...any) ([]any, error) {
	at, ok := locate(id)
	if !ok {
		return nil, tasks.ErrNotFound
	}
	run := s.runAgain
	if script == deleteScript {
		run = s.run // a second run would not find what the first has deleted, and say so
	}
	v, err := run(ctx, op, script, at.queue, []string{at.record(), at.message()}, append([]any{at.id, owner}, args...)...)
	if err != nil {
		return nil, err
	}
	reply := list(v)
	if code(reply) == -1 || len(reply) == 0 {
		return nil, tasks.ErrNotFound
	}
	return reply, nil
}

// Purge removes tasks of a queue whose retention is over, at most 100, and says how many.
func (s *Store) Purge(ctx context.Context, queue string) (int64, error) {
	v, err := s.run(ctx, OpRestore, purgeScript, queue, []string{ourPrefix(queue) + "expiry"})
	return integer(v), err
}

// forward makes delayed tasks of a queue that are due pending, at most 100 of each kind, and says how many.
func (s *Store) forward(ctx context.Context, queue string) (int64, error) {
	v, err := s.run(ctx, OpRestore, forwardScript, queue, []string{ourPrefix(queue) + "due"}, asynqPrefix(queue)+"g:")
	return integer(v), err
}
