package queue

import (
	"context"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// Cancel cancels a task: one that waits is cancelled when Cancel returns and never runs; a running one is told to stop
// and ends cancelled whatever its handler does, never to be retried. The list has the one change made; it is empty
// when the task had ended before. Errors: tasks.ErrNotFound, also for somebody else's task; tasks.ErrUnavailable.
func (q *Queue) Cancel(ctx context.Context, ref tasks.Ref, r CancelRequest) ([]tasks.Change, error) {
	id, err := q.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	from, done, err := q.store.Cancel(ctx, id, ref.Owner, r.By, r.Reason)
	if err != nil || !done {
		return nil, err
	}
	q.watch.CancelRequested("task")
	if from != tasks.Running {
		q.watch.CancelLatency(0)
		if t, err := q.store.Get(ctx, id); err == nil {
			q.watch.TaskFinished(t.Queue, t.Type, tasks.Cancelled, "", 0)
		}
	}
	return []tasks.Change{{ID: id, From: from, To: tasks.Cancelled}}, nil
}

// Retry makes a failed or cancelled task pending again: a new run of the same task, its attempts counted on, its
// retries unspent. Errors: tasks.ErrNotFound, *tasks.TerminatedError for a completed task, tasks.ErrNotTerminated,
// tasks.ErrDuplicateName when another task has its name by now, tasks.ErrUnavailable.
func (q *Queue) Retry(ctx context.Context, ref tasks.Ref) (*tasks.Task, error) {
	t, err := q.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	if t.Status == tasks.Failed || t.Status == tasks.Cancelled {
		// The name is not given back when the run is refused: a task that has ended does not hold it.
		again := &bridge.Creation{ID: t.ID, Owner: t.Owner, Spec: bridge.Spec{Name: t.Name}}
		if _, err := q.reserveName(ctx, again); err != nil {
			return nil, err
		}
	}
	if err := q.store.Rerun(ctx, t.ID, ref.Owner, false); err != nil {
		return nil, err
	}
	return q.store.Get(ctx, t.ID)
}

// Delete removes a task that has ended, and everything it left. Errors: tasks.ErrNotFound, tasks.ErrNotTerminated,
// tasks.ErrUnavailable.
func (q *Queue) Delete(ctx context.Context, ref tasks.Ref) error {
	t, err := q.Get(ctx, ref)
	if err != nil {
		return err
	}
	if err := q.store.Delete(ctx, t.ID, ref.Owner); err != nil {
		return err
	}
	if t.Name != "" {
		q.freeName(ctx, t.Owner, t.Name, t.ID)
	}
	return nil
}
