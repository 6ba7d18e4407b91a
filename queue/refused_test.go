package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"offstage/internal/redistest"
	"offstage/queue"
	"offstage/tasks"
)

// fault is a way in which a Redis that answers does not take writes.
type fault struct {
	name, reason string
	set, heal    []any
}

func faults() []fault {
	return []fault{
		{"OOM", "oom", []any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		{"NoReplicas", "unavailable", []any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}},
		{"ReadOnly", "readonly", []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}},
		{"ACL", "other", []any{"ACL", "SETUSER", "default", "resetkeys", "~asynq:queues"}, []any{"ACL", "SETUSER", "default", "allkeys"}},
	}
}

// TestQueue_EnqueueRefused is promise P1: when Redis does not take a task, the caller hears of it, it is counted, and
// nothing is left behind - no record, no entry that a worker would run, no name that is held.
func TestQueue_EnqueueRefused(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	admin := own.Client(t)
	q, seen := open(t, own.URL())
	enqueue(t, q, noop()) // asynq knows queue default from now on, and no other
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			before := dump(t, q, admin.DBSize(t.Context()).Val())
			set(t, own, f.set)
			for name, spec := range map[string]tasks.Spec{
				"Plain": noop(), "Named": named(f.name), "NewQueue": {Type: "noop", Owner: "ada", Queue: "other"},
				"Keyed": {Type: "noop", Owner: "ada", IdempotencyKey: f.name},
			} {
				counted := seen.Get("commit task_create")
				task, created, err := q.Enqueue(t.Context(), spec)
				if !errors.Is(err, tasks.ErrUnavailable) || errors.Is(err, tasks.ErrInvalid) || task != nil || created {
					t.Errorf("%s: Enqueue = %+v, %v, %v, want ErrUnavailable", name, task, created, err)
				}
				if n := seen.Get("commit task_create") - counted; n != 1 {
					t.Errorf("%s: %d failures of task_create counted, want 1", name, n)
				}
			}
			if seen.Get("commit task_create "+f.reason) == 0 {
				t.Errorf("no failure with reason %s counted: %v", f.reason, seen.All())
			}
			set(t, own, f.heal)
			if after := dump(t, q, admin.DBSize(t.Context()).Val()); after != before {
				t.Errorf("after the refusals: %+v, before: %+v", after, before)
			}
			cancel(t, q, enqueue(t, q, named(f.name)).ID) // the name is free, at once
		})
	}
	if n := seen.Get("enqueued"); n != 1+len(faults()) {
		t.Errorf("%d tasks counted as enqueued, want %d", n, 1+len(faults()))
	}
}

// state is what must not change when nothing was written.
type state struct {
	keys, backlog int64
	tasks         int
}

func dump(t *testing.T, q *queue.Queue, keys int64) state {
	t.Helper()
	return state{keys, backlog(t, q), count(t, q, queue.Filter{})}
}

func set(t *testing.T, s *redistest.Server, command []any) {
	t.Helper()
	if err := s.Client(t).Do(t.Context(), command...).Err(); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
}

// TestQueue_EnqueueHung is check 4: a Redis that hangs gets no more of the caller's time than its deadline.
func TestQueue_EnqueueHung(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	q, seen := open(t, own.URL())
	enqueue(t, q, noop())
	keyed := tasks.Spec{Type: "noop", Owner: "ada", IdempotencyKey: "key"}
	if err := own.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Resume() })
	calls := map[string]func(context.Context) error{
		"Plain": func(ctx context.Context) error { _, _, err := q.Enqueue(ctx, noop()); return err },
		"Keyed": func(ctx context.Context) error { _, _, err := q.Enqueue(ctx, keyed); return err },
		"Named": func(ctx context.Context) error { _, _, err := q.Enqueue(ctx, named("n")); return err },
		"NewQueue": func(ctx context.Context) error {
			_, _, err := q.Enqueue(ctx, tasks.Spec{Type: "x", Owner: "a", Queue: "o"})
			return err
		},
		"Batch": func(ctx context.Context) error {
			results, err := q.EnqueueBatch(ctx, []tasks.Spec{noop(), noop()})
			for _, r := range results {
				err = errors.Join(err, r.Err)
			}
			return err
		},
	}
	t.Run("Calls", func(t *testing.T) {
		for name, call := range calls {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx, stop := context.WithTimeout(t.Context(), time.Second)
				defer stop()
				began := time.Now()
				err := call(ctx)
				if took := time.Since(began); took > 1500*time.Millisecond {
					t.Errorf("answered after %v, want 1.5 s at most", took)
				}
				if !errors.Is(err, tasks.ErrUnavailable) {
					t.Errorf("Enqueue = %v, want ErrUnavailable", err)
				}
			})
		}
	})
	if n := seen.Get("commit task_create timeout"); n < len(calls) {
		t.Errorf("%d timeouts of task_create counted, want %d: %v", n, len(calls), seen.All())
	}
	if err := own.Resume(); err != nil {
		t.Fatal(err)
	}
	// What was sent may have been done after all; the key tells.
	first, _, err := q.Enqueue(t.Context(), keyed)
	again, created, err2 := q.Enqueue(t.Context(), keyed)
	if err != nil || err2 != nil || created || first.ID != again.ID {
		t.Errorf("with the key: %v, %v; %+v, %+v", err, err2, first, again)
	}
	n := 0
	for _, task := range listAll(t, q, queue.Filter{}) {
		if task.ID == first.ID {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the keyed task is listed %d times", n)
	}
}

// TestQueue_Down: a Redis that is not there is told as such, by every call.
func TestQueue_Down(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	q, _ := open(t, own.URL())
	id := enqueue(t, q, noop()).ID
	own.Stop()
	ref := tasks.Ref{ID: id, Owner: "ada"}
	ctx := t.Context()
	errs := map[string]error{}
	_, _, errs["Enqueue"] = q.Enqueue(ctx, noop())
	_, errs["Get"] = q.Get(ctx, ref)
	_, errs["Handle"] = q.Get(ctx, tasks.Ref{ID: "bg_0", Owner: "ada"})
	_, errs["List"] = q.List(ctx, queue.Filter{})
	_, errs["Cancel"] = q.Cancel(ctx, ref, queue.CancelRequest{})
	_, errs["Retry"] = q.Retry(ctx, ref)
	errs["Delete"] = q.Delete(ctx, ref)
	_, errs["Output"] = q.Output(ctx, ref, 0, 0, 0)
	_, errs["Events"] = q.Events(ctx, ref, 0, 0)
	_, errs["Queues"] = q.Queues(ctx)
	_, errs["Queue"] = q.Queue(ctx, "default")
	_, errs["Workers"] = q.Workers(ctx)
	errs["Pause"] = q.Pause(ctx, "default")
	errs["Resume"] = q.Resume(ctx, "default")
	errs["Ping"] = q.Ping(ctx)
	_, errs["Wait"] = q.Wait(ctx, ref, 50*time.Millisecond)
	for call, err := range errs {
		if !errors.Is(err, tasks.ErrUnavailable) {
			t.Errorf("%s = %v, want ErrUnavailable", call, err)
		}
	}
	h, err := q.Health(ctx)
	if err != nil || h.Ready || h.Redis == "ok" || len(h.Problems) == 0 {
		t.Errorf("Health = %+v, %v, want not ready", h, err)
	}
}
