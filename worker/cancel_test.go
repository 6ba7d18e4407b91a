package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// TestWorker_Cancel is promise P6: a cancelled task is cancelled, wherever it stood, and never runs again.
func TestWorker_Cancel(t *testing.T) {
	t.Parallel()
	q, seen := open(t, server.FreshDB(t))
	var ran atomic.Int32
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	start(t, q, worker.Config{}, func(w *worker.Worker) {
		w.HandleRaw("obedient", func(ctx context.Context, j *worker.Job) (any, error) {
			ran.Add(1)
			_, _ = j.Output().Write([]byte("part"))
			<-ctx.Done()
			_ = j.Emit("last words", nil)
			return "partial", context.Cause(ctx)
		})
		w.HandleRaw("stubborn", func(ctx context.Context, _ *worker.Job) (any, error) { <-ctx.Done(); return "done", nil })
		w.HandleRaw("failing", func(context.Context, *worker.Job) (any, error) { return nil, context.DeadlineExceeded })
		w.HandleRaw("noop", func(context.Context, *worker.Job) (any, error) { ran.Add(1); return nil, nil })
	})
	cancel := func(t *testing.T, id string, from tasks.Status) {
		t.Helper()
		changes, err := q.Cancel(t.Context(), tasks.Ref{ID: id, Owner: "tester"}, queue.CancelRequest{By: "me", Reason: "enough"})
		if err != nil || len(changes) != 1 || changes[0] != (tasks.Change{ID: id, From: from, To: tasks.Cancelled}) {
			t.Fatalf("Cancel(%s) = %+v, %v, want one change from %s", id, changes, err, from)
		}
	}
	settled := func(t *testing.T, id string) {
		t.Helper()
		got := wait(t, q, id)
		if got.Status != tasks.Cancelled || got.Error != nil || got.Cancel == nil || got.Cancel.By != "me" || got.Cancel.Reason != "enough" {
			t.Fatalf("after Cancel: %+v", got)
		}
		again, err := q.Cancel(t.Context(), tasks.Ref{ID: id}, queue.CancelRequest{})
		if err != nil || len(again) != 0 {
			t.Errorf("second Cancel = %v, %v, want nothing", again, err)
		}
		checkEvents(t, q.Events, got)
	}
	t.Run("Running", func(t *testing.T) {
		before := ran.Load()
		id := enqueue(t, q, tasks.Spec{Type: "obedient"}).ID
		reaches(t, q, id, tasks.Running)
		cancel(t, id, tasks.Running)
		settled(t, id)
		got := wait(t, q, id)
		if got.Output != "part" || string(got.Result) != `"partial"` || got.Attempt != 1 || ran.Load() != before+1 {
			t.Errorf("after Cancel: %+v, bodies %d", got, ran.Load()-before)
		}
	})
	t.Run("RunningReturnsNil", func(t *testing.T) {
		id := enqueue(t, q, tasks.Spec{Type: "stubborn"}).ID
		reaches(t, q, id, tasks.Running)
		cancel(t, id, tasks.Running)
		settled(t, id)
	})
	t.Run("Scheduled", func(t *testing.T) {
		id := enqueue(t, q, tasks.Spec{Type: "noop", Delay: 400 * time.Millisecond}).ID
		cancel(t, id, tasks.Scheduled)
		settled(t, id)
	})
	t.Run("Retrying", func(t *testing.T) {
		id := enqueue(t, q, tasks.Spec{Type: "failing", Backoff: &tasks.Backoff{Base: tasks.Duration(time.Hour), Max: tasks.Duration(time.Hour)}}).ID
		reaches(t, q, id, tasks.Retrying)
		cancel(t, id, tasks.Retrying)
		settled(t, id)
	})
	t.Run("Pending", func(t *testing.T) {
		if err := q.Pause(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		id := enqueue(t, q, tasks.Spec{Type: "noop"}).ID
		cancel(t, id, tasks.Pending)
		settled(t, id)
		before := ran.Load()
		if err := q.Resume(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		wait(t, q, enqueue(t, q, tasks.Spec{Type: "noop"}).ID) // passes the tombstone
		if n := ran.Load() - before; n != 1 {
			t.Errorf("%d bodies ran, want 1", n)
		}
	})
	t.Run("Foreign", func(t *testing.T) {
		id := enqueue(t, q, tasks.Spec{Type: "noop", Delay: time.Hour}).ID
		for _, ref := range []tasks.Ref{{ID: id, Owner: "other"}, {ID: "default.none"}, {ID: ""}, {ID: "x"}} {
			if _, err := q.Cancel(t.Context(), ref, queue.CancelRequest{}); err == nil || err.Error() != tasks.ErrNotFound.Error() {
				t.Errorf("Cancel(%+v) = %v, want %v", ref, err, tasks.ErrNotFound)
			}
		}
	})
	if seen.Get("attempt retry") > 1 {
		t.Errorf("a cancelled task was retried: %v", seen.All())
	}
}

// TestWorker_CancelRace is check 20: cancel against start and finish, one truthful outcome each.
func TestWorker_CancelRace(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	var bodies atomic.Int32
	start(t, q, worker.Config{}, func(w *worker.Worker) {
		w.HandleRaw("quick", func(context.Context, *worker.Job) (any, error) { bodies.Add(1); return nil, nil })
	})
	const races = 300
	outcomes := map[tasks.Status]int{}
	for i := range races {
		id := enqueue(t, q, tasks.Spec{Type: "quick"}).ID
		time.Sleep(time.Duration(i%30) * time.Millisecond / 2)
		changes, err := q.Cancel(t.Context(), tasks.Ref{ID: id}, queue.CancelRequest{})
		if err != nil {
			t.Fatal(err)
		}
		got := wait(t, q, id)
		outcomes[got.Status]++
		if (got.Status == tasks.Cancelled) != (len(changes) == 1) {
			t.Fatalf("Cancel said %v, the task is %s", changes, got.Status)
		}
		if len(changes) == 1 && changes[0].From == tasks.Pending && got.Attempt > 0 {
			t.Fatalf("cancelled while pending, but an attempt began: %+v", got)
		}
		checkEvents(t, q.Events, got)
	}
	t.Logf("outcomes: %v, bodies: %d", outcomes, bodies.Load())
	if outcomes[tasks.Cancelled] == 0 || outcomes[tasks.Completed] == 0 {
		t.Errorf("outcomes %v: the race always ends the same way, so it tests nothing", outcomes)
	}
}

// TestWorker_Retry is a new run of a task that was cancelled or failed.
func TestWorker_Retry(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	var fail atomic.Bool
	fail.Store(true)
	start(t, q, worker.Config{}, func(w *worker.Worker) {
		w.HandleRaw("flaky", func(context.Context, *worker.Job) (any, error) {
			if fail.Load() {
				return nil, worker.Permanent(context.DeadlineExceeded)
			}
			return 42, nil
		})
	})
	id := enqueue(t, q, tasks.Spec{Type: "flaky", MaxRetries: new(0)}).ID
	if got := wait(t, q, id); got.Status != tasks.Failed {
		t.Fatalf("first run: %+v", got)
	}
	fail.Store(false)
	again, err := q.Retry(t.Context(), tasks.Ref{ID: id, Owner: "tester"})
	if err != nil || again.Status.Terminal() && again.Status != tasks.Completed {
		t.Fatalf("Retry = %+v, %v", again, err)
	}
	got := wait(t, q, id)
	if got.Status != tasks.Completed || string(got.Result) != "42" || got.Attempt != 2 || got.Error != nil || len(got.Errors) != 1 {
		t.Errorf("second run: %+v", got)
	}
	if _, err := q.Retry(t.Context(), tasks.Ref{ID: id}); err == nil {
		t.Error("Retry of a completed task succeeded")
	}
	if err := q.Delete(t.Context(), tasks.Ref{ID: id, Owner: "tester"}); err != nil {
		t.Fatalf("Delete: %v", err)
	}
	if _, err := q.Get(t.Context(), tasks.Ref{ID: id}); err == nil {
		t.Error("Get after Delete succeeded")
	}
}
