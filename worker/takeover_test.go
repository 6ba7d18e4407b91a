package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"offstage/internal/redistest"
	"offstage/internal/tally"
	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// brisk is a configuration in which a silent worker is noticed soon.
func brisk() worker.Config {
	return worker.Config{Heartbeat: 100 * time.Millisecond, Lease: time.Second, CancelGrace: 100 * time.Millisecond}
}

// TestWorker_Takeover is promises P2, P3 and P5, and check 9 within one process: the task of a worker that went silent
// runs again elsewhere, spends no retry, and what the old body does later changes nothing.
func TestWorker_Takeover(t *testing.T) {
	t.Parallel()
	url := server.FreshDB(t)
	q, seen := open(t, url)
	abort, begun, hold := make(chan struct{}), make(chan struct{}), make(chan struct{})
	late := make(chan error, 4)
	cfg := brisk()
	cfg.Abort = abort
	_, stop := start(t, q, cfg, func(w *worker.Worker) {
		w.HandleRaw("deaf", func(_ context.Context, j *worker.Job) (any, error) {
			close(begun)
			<-hold
			late <- j.Progress(0.9)
			late <- j.Emit("late", "words")
			_, _ = j.Output().Write([]byte("late output"))
			close(late)
			return "late", nil
		})
	})
	id := enqueue(t, q, tasks.Spec{Type: "deaf", MaxRetries: new(0)}).ID
	<-begun
	silent := time.Now()
	close(abort) // as if the process had died: it says goodbye to nobody, its bodies run on
	if err := stop(); err == nil {
		t.Fatal("Run = nil after an abort with a running body")
	}

	q2, seen2 := open(t, url)
	start(t, q2, brisk(), func(w *worker.Worker) {
		w.HandleRaw("deaf", func(_ context.Context, j *worker.Job) (any, error) { return "second", j.Progress(0.5) })
	})
	got := wait(t, q2, id)
	if got.Status != tasks.Completed || string(got.Result) != `"second"` || got.Interruptions != 1 || got.Attempt != 2 || len(got.Errors) != 0 {
		t.Errorf("taken over: %+v", got)
	}
	if took := got.StartedAt.Sub(silent); took > 15*time.Second {
		t.Errorf("the next attempt started after %v", took)
	}
	if seen2.Get("interrupted crash") != 1 || seen.Get("interrupted crash") != 0 {
		t.Errorf("counted %v", seen2.All())
	}
	close(hold)
	for err := range late {
		if !errors.Is(err, tasks.ErrLeaseLost) {
			t.Errorf("a late write = %v, want ErrLeaseLost", err)
		}
	}
	eventually(t, "the late writes are counted", func() bool { return seen.Get("stale task_event") >= 2 })
	after := wait(t, q2, id)
	if after.Version != got.Version || string(after.Result) != `"second"` || after.Progress != 1 || after.Output != "" {
		t.Errorf("a late write changed the task: %+v", after)
	}
	checkEvents(t, q2.Events, after)
}

// TestWorker_TakeoverPartition is check 8 within one process: a worker that is cut off and comes back learns that it lost
// its task, stops its body, and writes nothing over the other's outcome.
func TestWorker_TakeoverPartition(t *testing.T) {
	t.Parallel()
	url := server.FreshDB(t)
	cut := newLink(t, url)
	qa, seenA := open(t, cut.url)
	begun := make(chan struct{}, 2)
	causes := make(chan error, 2)
	finish := make(chan struct{})
	start(t, qa, brisk(), func(w *worker.Worker) {
		w.HandleRaw("listens", func(ctx context.Context, _ *worker.Job) (any, error) {
			begun <- struct{}{}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "old", nil
		})
		w.HandleRaw("finishes", func(context.Context, *worker.Job) (any, error) {
			begun <- struct{}{}
			<-finish
			return "old", nil
		})
	})
	qb, seenB := open(t, url)
	listens := enqueue(t, qb, tasks.Spec{Type: "listens", MaxRetries: new(0)}).ID
	finishes := enqueue(t, qb, tasks.Spec{Type: "finishes", MaxRetries: new(0)}).ID
	<-begun
	<-begun
	cut.down()
	start(t, qb, brisk(), func(w *worker.Worker) {
		for _, typ := range []string{"listens", "finishes"} {
			w.HandleRaw(typ, func(context.Context, *worker.Job) (any, error) { return "new", nil })
		}
	})
	close(finish) // its outcome cannot be recorded now
	for _, id := range []string{listens, finishes} {
		if got := wait(t, qb, id); got.Status != tasks.Completed || string(got.Result) != `"new"` || got.Attempt != 2 || got.Interruptions != 1 {
			t.Errorf("taken over: %+v", got)
		}
	}
	cut.up()
	select {
	case cause := <-causes:
		if !errors.Is(cause, tasks.ErrLeaseLost) {
			t.Errorf("the old body's context ended with %v, want ErrLeaseLost", cause)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the old body was not told that its task is lost")
	}
	eventually(t, "both old outcomes are dropped and counted", func() bool {
		return seenA.Get("attempt stale") == 2 && seenA.Get("stale task_completion") == 2
	})
	if seenA.Get("interrupted lease_lost") != 1 || seenB.Get("interrupted crash") != 2 {
		t.Errorf("counted %v by the old worker, %v by the new one", seenA.All(), seenB.All())
	}
	for _, id := range []string{listens, finishes} {
		if got := wait(t, qb, id); string(got.Result) != `"new"` || got.Attempt != 2 {
			t.Errorf("after the old worker came back: %+v", got)
		}
	}
}

// deaf starts a worker behind a link, whose bodies of type "deaf" hear nothing until the test ends. begun gets their
// tasks' ids.
func deaf(t *testing.T, url string) (cut *link, begun <-chan string) {
	t.Helper()
	return deafOn(t, url, queue.DefaultQueue)
}

// deafOn is deaf on a queue of the test's choice.
func deafOn(t *testing.T, url, name string) (cut *link, begun <-chan string) {
	t.Helper()
	cut = newLink(t, url)
	q, _ := open(t, cut.url)
	ids, hold := make(chan string, 10), make(chan struct{})
	cfg := brisk()
	cfg.Queues = map[string]int{name: 1}
	start(t, q, cfg, func(w *worker.Worker) {
		w.HandleRaw("deaf", func(_ context.Context, j *worker.Job) (any, error) { ids <- j.ID; <-hold; return nil, nil })
	})
	t.Cleanup(func() { // before the worker drains
		close(hold)
		cut.up()
	})
	return cut, ids
}

// TestWorker_Orphaned is check 24: a task whose workers die again and again ends, and says so.
func TestWorker_Orphaned(t *testing.T) {
	t.Parallel()
	url := server.FreshDB(t)
	q, _ := open(t, url)
	id := enqueue(t, q, tasks.Spec{Type: "deaf"}).ID
	for range 2 {
		cut, begun := deaf(t, url)
		<-begun
		cut.down()
	}
	cfg := brisk()
	cfg.MaxInterruptions = 1
	start(t, q, cfg, func(w *worker.Worker) {
		w.HandleRaw("deaf", func(context.Context, *worker.Job) (any, error) { t.Error("ran a third time"); return nil, nil })
		w.HandleRaw("noop", func(context.Context, *worker.Job) (any, error) { return nil, nil })
	})
	got := wait(t, q, id)
	if got.Status != tasks.Failed || got.Error.Kind != tasks.KindOrphaned || got.Error.Retryable || got.Attempt != 2 || got.Interruptions != 2 {
		t.Errorf("after two crashes: %+v, error %+v", got, got.Error)
	}
	checkEvents(t, q.Events, got)
	if got := wait(t, q, enqueue(t, q, tasks.Spec{Type: "noop"}).ID); got.Status != tasks.Completed {
		t.Errorf("the next task: %+v", got)
	}
}

// TestWorker_TakeoverCancelled: a task that was asked to cancel when its worker died ends cancelled, and does not run
// again.
func TestWorker_TakeoverCancelled(t *testing.T) {
	t.Parallel()
	url := server.FreshDB(t)
	q, _ := open(t, url)
	id := enqueue(t, q, tasks.Spec{Type: "deaf"}).ID
	cut, begun := deaf(t, url)
	<-begun
	cut.down()
	changes, err := q.Cancel(t.Context(), tasks.Ref{ID: id}, queue.CancelRequest{Reason: "enough"})
	if err != nil || len(changes) != 1 || changes[0].From != tasks.Running {
		t.Fatalf("Cancel = %+v, %v", changes, err)
	}
	start(t, q, brisk(), func(w *worker.Worker) {
		w.HandleRaw("deaf", func(context.Context, *worker.Job) (any, error) { t.Error("ran again after a cancel"); return nil, nil })
	})
	if got := wait(t, q, id); got.Status != tasks.Cancelled || got.Attempt != 1 || got.Cancel.Reason != "enough" {
		t.Errorf("after the takeover: %+v", got)
	}
}

// TestWorker_TakeoverPatience: a worker that has just started gives the others one lease to be heard of.
func TestWorker_TakeoverPatience(t *testing.T) {
	t.Parallel()
	url := server.FreshDB(t)
	q, _ := open(t, url)
	id := enqueue(t, q, tasks.Spec{Type: "deaf"}).ID
	cut, begun := deaf(t, url)
	<-begun
	cut.down()
	lease := brisk().Lease
	time.Sleep(lease + 300*time.Millisecond) // it is dead beyond doubt, but the next one cannot know
	born := time.Now()
	start(t, q, brisk(), func(w *worker.Worker) {
		w.HandleRaw("deaf", func(context.Context, *worker.Job) (any, error) { return nil, nil })
	})
	got := wait(t, q, id)
	if after := got.StartedAt.Sub(born); got.Interruptions != 1 || after < lease-100*time.Millisecond {
		t.Errorf("taken over %v after the start, want a lease of %v at least: %+v", after, lease, got)
	}
}

// TestWorker_OutageIsNoCrash is check 10 in small: a Redis that stalls for longer than a lease makes nobody look dead.
func TestWorker_OutageIsNoCrash(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	var bodies atomic.Int32
	hold, begun := make(chan struct{}), make(chan struct{}, 10)
	var ids []string
	var seen []*tally.Counters
	for range 2 {
		q, c := open(t, own.URL())
		seen = append(seen, c)
		cfg := brisk()
		cfg.Concurrency = 2
		start(t, q, cfg, func(w *worker.Worker) {
			w.HandleRaw("long", func(ctx context.Context, _ *worker.Job) (any, error) {
				bodies.Add(1)
				begun <- struct{}{}
				select {
				case <-hold:
					return "done", nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			})
		})
	}
	q, _ := open(t, own.URL())
	for range 4 {
		ids = append(ids, enqueue(t, q, tasks.Spec{Type: "long", MaxRetries: new(0)}).ID)
	}
	for range 4 {
		<-begun
	}
	if err := own.Pause(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * brisk().Lease)
	if err := own.Resume(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * brisk().Lease) // long enough for a takeover
	close(hold)
	for _, id := range ids {
		if got := wait(t, q, id); got.Status != tasks.Completed || got.Attempt != 1 || got.Interruptions != 0 || string(got.Result) != `"done"` {
			t.Errorf("after the stall: %+v, error %+v", got, got.Error)
		}
	}
	if n := bodies.Load(); n != 4 {
		t.Errorf("%d bodies ran, want 4", n)
	}
	for _, c := range seen {
		if c.Get("interrupted crash")+c.Get("interrupted lease_lost") != 0 {
			t.Errorf("counted %v", c.All())
		}
	}
}
