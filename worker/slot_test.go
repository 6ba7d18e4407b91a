package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// TestWorker_Slots is check 14, promise P5: bodies that ignore their context keep their slots.
func TestWorker_Slots(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	var now, most atomic.Int32
	start(t, q, worker.Config{Concurrency: 2, CancelGrace: time.Minute}, func(w *worker.Worker) {
		w.HandleRaw("deaf", func(context.Context, *worker.Job) (any, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(500 * time.Millisecond)
			return nil, errors.New("late")
		})
	})
	var ids []string
	for range 10 {
		ids = append(ids, enqueue(t, q, tasks.Spec{Type: "deaf", Timeout: new(200 * time.Millisecond), MaxRetries: new(1),
			Backoff: &tasks.Backoff{Base: tasks.Duration(time.Millisecond), Max: tasks.Duration(time.Millisecond)}}).ID)
	}
	for _, id := range ids {
		if got := wait(t, q, id); got.Status != tasks.Failed || got.Error.Kind != tasks.KindTimeout || got.Attempt != 2 {
			t.Errorf("task: %+v, error %+v", got, got.Error)
		}
	}
	if most.Load() != 2 {
		t.Errorf("%d bodies at once, want 2", most.Load())
	}
}

// TestWorker_Stuck: a body that never heeds its context does not keep its task from ending.
func TestWorker_Stuck(t *testing.T) {
	t.Parallel()
	q, seen := open(t, server.FreshDB(t))
	hold := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(letGo)
	var bodies atomic.Int32
	start(t, q, worker.Config{Concurrency: 3, CancelGrace: 100 * time.Millisecond}, func(w *worker.Worker) {
		w.HandleRaw("deaf", func(context.Context, *worker.Job) (any, error) { bodies.Add(1); <-hold; return nil, nil })
		w.HandleRaw("noop", func(context.Context, *worker.Job) (any, error) { return nil, nil })
	})
	timed := enqueue(t, q, tasks.Spec{Type: "deaf", Timeout: new(100 * time.Millisecond)}).ID
	cancelled := enqueue(t, q, tasks.Spec{Type: "deaf"}).ID
	reaches(t, q, cancelled, tasks.Running)
	if _, err := q.Cancel(t.Context(), tasks.Ref{ID: cancelled}, queue.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, q, timed); got.Status != tasks.Failed || got.Error.Kind != tasks.KindTimeout || got.Error.Retryable ||
		!strings.Contains(got.Error.Message, "still runs") {
		t.Errorf("timed out: %+v, error %+v", got, got.Error)
	}
	if got := wait(t, q, cancelled); got.Status != tasks.Cancelled || !got.Cancel.Abandoned {
		t.Errorf("cancelled: %+v, cancel %+v", got, got.Cancel)
	}
	if n := seen.Get("stuck"); n != 2 {
		t.Errorf("%d stuck handlers reported, want 2", n)
	}
	// A new run of a task whose old body still runs here waits for it.
	if _, err := q.Retry(t.Context(), tasks.Ref{ID: timed}); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, q, enqueue(t, q, tasks.Spec{Type: "noop"}).ID); got.Status != tasks.Completed {
		t.Errorf("the free slot did not work: %+v", got)
	}
	time.Sleep(300 * time.Millisecond)
	if n := bodies.Load(); n != 2 {
		t.Errorf("%d bodies were started, want 2", n)
	}
	letGo()
	if got := wait(t, q, timed); got.Status != tasks.Completed {
		t.Errorf("new run: %+v", got)
	}
	if n := seen.Get("stuck"); n != 0 {
		t.Errorf("%d stuck handlers reported after they returned", n)
	}
}

// TestWorker_Deadline: a task ends as expired at its deadline, run or not.
func TestWorker_Deadline(t *testing.T) {
	t.Parallel()
	q, seen := open(t, server.FreshDB(t))
	start(t, q, worker.Config{}, func(w *worker.Worker) {
		w.HandleRaw("wait", func(ctx context.Context, _ *worker.Job) (any, error) { <-ctx.Done(); return nil, ctx.Err() })
		w.HandleRaw("fail", func(context.Context, *worker.Job) (any, error) { return nil, errors.New("no") })
	})
	running := enqueue(t, q, tasks.Spec{Type: "wait", Deadline: time.Now().Add(700 * time.Millisecond)}).ID
	retrying := enqueue(t, q, tasks.Spec{Type: "fail", Deadline: time.Now().Add(time.Minute),
		Backoff: &tasks.Backoff{Base: tasks.Duration(1000 * time.Hour), Max: tasks.Duration(1000 * time.Hour)}}).ID
	for _, id := range []string{running, retrying} {
		if got := wait(t, q, id); got.Status != tasks.Failed || got.Error.Kind != tasks.KindExpired || got.Attempt != 1 {
			t.Errorf("task: %+v, error %+v", got, got.Error)
		}
	}
	if err := q.Pause(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	waiting := enqueue(t, q, tasks.Spec{Type: "wait", Deadline: time.Now().Add(100 * time.Millisecond)}).ID
	time.Sleep(150 * time.Millisecond)
	if err := q.Resume(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, q, waiting); got.Status != tasks.Failed || got.Error.Kind != tasks.KindExpired || got.Attempt != 0 {
		t.Errorf("task: %+v, error %+v", got, got.Error)
	}
	eventually(t, "three expired tasks are counted", func() bool { return seen.Get("finished failed expired") == 3 })
}
