package topology_test

import (
	"context"
	"testing"
	"time"

	"offstage/internal/redistest"
	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// TestRollback: Redis goes back to what it was before an attempt began, as after the promotion of a replica that had not
// heard of it, and another worker takes the task. The older attempt must not end the task.
func TestRollback(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	qa, seenA := open(t, s.URL(), queue.Options{})
	qb, _ := open(t, s.URL(), queue.Options{})
	begun := make(chan string, 10)
	goA, goB := make(chan struct{}), make(chan struct{})
	body := func(name string, hold chan struct{}) func(*worker.Worker) {
		return func(w *worker.Worker) {
			w.HandleRaw("hold", func(ctx context.Context, _ *worker.Job) (any, error) {
				begun <- name
				select {
				case <-hold:
					return name, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			})
		}
	}
	if err := qa.Store().AddQueue(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	id := enqueue(t, qa, tasks.Spec{Type: "hold"}).ID
	admin := s.Client(t)
	if err := admin.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	cfg := brisk("default")
	cfg.Concurrency = 1
	start(t, qa, cfg, body("a", goA))
	<-begun
	if err := admin.Do(t.Context(), "DEBUG", "RELOAD", "NOSAVE").Err(); err != nil {
		t.Fatal(err)
	}
	start(t, qb, cfg, body("b", goB))
	if got := <-begun; got != "b" {
		t.Fatalf("%s began", got)
	}
	time.Sleep(3 * cfg.Heartbeat)
	close(goA)
	time.Sleep(time.Second)
	if got, err := qb.Get(t.Context(), tasks.Ref{ID: id}); err != nil || got.Status != tasks.Running {
		t.Errorf("the older attempt's end was taken: %s %s, %v; stale %d, lease lost %d", got.Status, got.Result, err, seenA.Sum("stale "), seenA.Get("interrupted lease_lost"))
	}
	close(goB)
	if got := ends(t, qb, id, tasks.Completed); string(got.Result) != `"b"` {
		t.Errorf("%s is the result, want that of b", got.Result)
	}
}
