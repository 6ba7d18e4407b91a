package queue

import (
	"context"
	"errors"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// EnqueueBatch creates many tasks in one round trip. The result has one entry for each spec, in order; each task
// stands and falls alone. Errors of the entries are those of [Queue.Enqueue].
func (q *Queue) EnqueueBatch(ctx context.Context, specs []tasks.Spec) ([]BatchResult, error) {
	results := make([]BatchResult, len(specs))
	var sent []*bridge.Creation
	var at []int
	var releases []func(context.Context)
	var late []int // those whose name another one has, which may be an earlier one with the same idempotency key
	for i, spec := range specs {
		made, release, err := q.hold(ctx, spec)
		if err != nil {
			results[i].Err = err
			if spec.IdempotencyKey != "" && errors.Is(err, tasks.ErrDuplicateName) {
				late = append(late, i)
			}
			continue
		}
		sent, at, releases = append(sent, made), append(at, i), append(releases, release)
	}
	for k, err := range q.store.CreateAll(ctx, sent) {
		i, made := at[k], sent[k]
		switch {
		case err != nil:
			if !written(err) {
				releases[k](ctx)
			}
			results[i].Err = err
		case made.Result.Existing != "":
			releases[k](ctx)
			results[i].Task, results[i].Err = q.store.Get(ctx, made.Result.Existing)
		default:
			q.watch.TaskEnqueued(made.Queue, made.Type)
			results[i].Task = describe(made, specs[i])
		}
	}
	for _, i := range late {
		results[i].Task, _, results[i].Err = q.Enqueue(ctx, specs[i])
	}
	return results, nil
}

// hold prepares one task of a batch, its message encoded by asynq and kept.
func (q *Queue) hold(ctx context.Context, spec tasks.Spec) (*bridge.Creation, func(context.Context), error) {
	made, err := q.prepare(ctx, spec)
	if err != nil {
		return nil, nil, err
	}
	made.Hold = true
	release, err := q.reserveName(ctx, made)
	if err != nil {
		return nil, nil, err
	}
	if err := q.send(ctx, made, spec); err != nil {
		release(ctx)
		return nil, nil, err
	}
	return made, release, nil
}
