package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"offstage/internal/redistest"
	"offstage/tasks"
	"offstage/worker"
	"offstage/worker/spool"
)

func openSpool(t *testing.T, dir string) *spool.Spool {
	t.Helper()
	s, err := spool.Open(dir, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestWorker_Spool is check 11: what ends while Redis is away is kept on disk, across a restart of the worker, and
// recorded once Redis is back. Nothing runs twice.
func TestWorker_Spool(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.AOF("always"))
	q, seen := open(t, redis.URL())
	var bodies atomic.Int32
	finish := make(chan struct{})
	register := func(w *worker.Worker) {
		w.HandleRaw("work", func(_ context.Context, j *worker.Job) (any, error) {
			bodies.Add(1)
			<-finish
			if j.Task.Name == "bad" {
				return nil, worker.Permanent(errors.New("no"))
			}
			return "done", nil
		})
	}
	dir := t.TempDir()
	s := openSpool(t, dir)
	cfg := worker.Config{Spool: s, CommitHold: 200 * time.Millisecond, DrainTimeout: 5 * time.Second, Concurrency: 20}
	_, stop := start(t, q, cfg, register)
	var ids []string
	for range 10 {
		ids = append(ids, enqueue(t, q, tasks.Spec{Type: "work"}).ID)
	}
	bad := enqueue(t, q, tasks.Spec{Type: "work", Name: "bad"}).ID
	for _, id := range append(ids, bad) {
		reaches(t, q, id, tasks.Running)
	}
	redis.Stop()
	close(finish)
	// The gauge falls a moment after the outcome is in the spool.
	for end := time.Now().Add(20 * time.Second); s.Len() < 11 || seen.Get("pending") != 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d outcomes spooled, want 11 and none pending; counted %v", s.Len(), seen.All())
		}
	}
	if seen.Get("commit task_completion") < 11 {
		t.Errorf("counted %v", seen.All())
	}
	_ = stop()
	_ = s.Close()

	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	s = openSpool(t, dir)
	cfg.Spool = s
	start(t, q, cfg, register)
	for _, id := range ids {
		if got := wait(t, q, id); got.Status != tasks.Completed || got.Attempt != 1 || string(got.Result) != `"done"` {
			t.Errorf("task: %+v", got)
		}
	}
	if got := wait(t, q, bad); got.Status != tasks.Failed || got.Error.Message != "no" {
		t.Errorf("task: %+v", got)
	}
	for end := time.Now().Add(5 * time.Second); s.Len() > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d outcomes are still spooled", s.Len())
		}
	}
	if bodies.Load() != 11 {
		t.Errorf("%d bodies ran, want 11", bodies.Load())
	}
}

// brokenSpool takes nothing.
type brokenSpool struct{ worker.Spool }

var errDisk = errors.New("no space left on device")

func (brokenSpool) Put(string, []byte) error         { return errDisk }
func (brokenSpool) Get(string) ([]byte, bool, error) { return nil, false, nil }
func (brokenSpool) Has(string) bool                  { return false }
func (brokenSpool) Keys() []string                   { return nil }
func (brokenSpool) Remove(string) error              { return nil }
func (brokenSpool) Check() error                     { return errDisk }

// TestWorker_SpoolBroken: a worker whose spool takes nothing takes no task, and says why.
func TestWorker_SpoolBroken(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	w, _ := start(t, q, worker.Config{Spool: brokenSpool{}}, func(w *worker.Worker) {
		w.HandleRaw("noop", func(context.Context, *worker.Job) (any, error) { return nil, nil })
	})
	id := enqueue(t, q, tasks.Spec{Type: "noop"}).ID
	got, err := q.Wait(t.Context(), tasks.Ref{ID: id}, 500*time.Millisecond)
	if err != nil || got.Status != tasks.Pending {
		t.Errorf("task: %+v, %v", got, err)
	}
	if _, err := w.Health(); !errors.Is(err, errDisk) {
		t.Errorf("Health = %v, want %v", err, errDisk)
	}
}

// TestWorker_Emptied: a Redis that was emptied under the worker is noticed and said.
func TestWorker_Emptied(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	q, seen := open(t, redis.URL())
	w, _ := start(t, q, worker.Config{Heartbeat: 50 * time.Millisecond}, func(w *worker.Worker) {
		w.HandleRaw("noop", func(context.Context, *worker.Job) (any, error) { return nil, nil })
	})
	wait(t, q, enqueue(t, q, tasks.Spec{Type: "noop"}).ID)
	if err := redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); seen.Get("repaired keyspace_lost") == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not noticed: %v", seen.All())
		}
	}
	if problems, _ := w.Health(); len(problems) != 1 {
		t.Errorf("problems: %v", problems)
	}
	if got := wait(t, q, enqueue(t, q, tasks.Spec{Type: "noop"}).ID); got.Status != tasks.Completed {
		t.Errorf("after the loss: %+v", got)
	}
}
