package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// Queues describes all queues, by name.
func (q *Queue) Queues(ctx context.Context) ([]Info, error) {
	names, err := q.store.Queues(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(names))
	for _, name := range names {
		st, err := q.store.QueueState(ctx, name)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info(st))
	}
	return infos, nil
}

// Queue describes one queue. Errors: tasks.ErrNotFound when it never had a task or a worker, tasks.ErrUnavailable.
func (q *Queue) Queue(ctx context.Context, name string) (*Info, error) {
	if err := q.known(ctx, name); err != nil {
		return nil, err
	}
	st, err := q.store.QueueState(ctx, name)
	if err != nil {
		return nil, err
	}
	return new(info(st)), nil
}

func info(st bridge.QueueState) Info {
	return Info{Name: st.Name, Paused: st.Paused, Counts: st.Counts, Backlog: st.Pending,
		OldestPendingAge: tasks.Duration(st.OldestAge)}
}

func (q *Queue) known(ctx context.Context, name string) error {
	names, err := q.store.Queues(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(names, name) {
		return fmt.Errorf("%w: no queue %q", tasks.ErrNotFound, name)
	}
	return nil
}

// Pause keeps workers from starting tasks of the queue; running ones go on. It lasts until [Queue.Resume], across
// restarts. Errors as Queue.
func (q *Queue) Pause(ctx context.Context, name string) error { return q.setPaused(ctx, name, true) }

// Resume ends a pause. Errors as Queue.
func (q *Queue) Resume(ctx context.Context, name string) error { return q.setPaused(ctx, name, false) }

func (q *Queue) setPaused(ctx context.Context, name string, paused bool) error {
	if err := q.known(ctx, name); err != nil {
		return err
	}
	return q.store.SetPaused(ctx, name, paused)
}

// Workers describes the worker processes that are alive, by id.
func (q *Queue) Workers(ctx context.Context) ([]WorkerInfo, error) {
	names, err := q.store.Queues(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]WorkerInfo{}
	for _, name := range names {
		states, err := q.store.Workers(ctx, name)
		if err != nil {
			return nil, err
		}
		for id, st := range states {
			var w WorkerInfo
			if json.Unmarshal(st.Info, &w) != nil {
				continue
			}
			w.ID, w.SeenAt = id, tasks.At(st.Seen)
			found[id] = w
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b WorkerInfo) int { return a.StartedAt.Compare(b.StartedAt.Time) }), nil
}
