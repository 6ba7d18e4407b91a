package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"offstage/internal/embedded"
	"offstage/internal/tally"
	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// openEmbedded gives a queue on a server inside the process.
func openEmbedded(t *testing.T) (*queue.Queue, *tally.Counters, string) {
	t.Helper()
	s, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	seen := &tally.Counters{}
	q, err := queue.Open(t.Context(), s.URL(), queue.Options{Observer: seen, Embedded: true})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		_ = q.Close()
		if n := seen.Get("commit task_create") + seen.Get("commit task_completion") + seen.Get("commit task_begin") + seen.Get("unknown script"); n > 0 {
			t.Errorf("counted %v", seen.All())
		}
	})
	return q, seen, s.URL()
}

// TestEmbedded_Outcomes: embedded mode gives each body the same truthful end as a real Redis (TestWorker_Outcomes).
func TestEmbedded_Outcomes(t *testing.T) {
	t.Parallel()
	q, seen, _ := openEmbedded(t)
	boom := errors.New("boom")
	start(t, q, worker.Config{}, func(w *worker.Worker) {
		w.HandleRaw("ok", func(_ context.Context, j *worker.Job) (any, error) {
			_, _ = fmt.Fprintf(j.Output(), "hé%sllo", strings.Repeat("€", 40_000))
			err := errors.Join(j.Progress(0.5), j.Emit("tick", map[string]int{"n": 1}))
			return map[string]string{"owner": j.Owner, "payload": string(j.Payload)}, err
		})
		w.HandleRaw("error", func(context.Context, *worker.Job) (any, error) { return nil, boom })
		w.HandleRaw("permanent", func(context.Context, *worker.Job) (any, error) { return nil, worker.Permanent(boom) })
		w.HandleRaw("panic", func(context.Context, *worker.Job) (any, error) { panic("oh") })
		w.HandleRaw("timeout", func(ctx context.Context, _ *worker.Job) (any, error) { <-ctx.Done(); return nil, ctx.Err() })
	})
	tests := []struct {
		typ    string
		status tasks.Status
		kind   tasks.Kind
		tries  int
	}{
		{"ok", tasks.Completed, "", 1}, {"error", tasks.Failed, tasks.KindError, 3}, {"permanent", tasks.Failed, tasks.KindError, 1},
		{"panic", tasks.Failed, tasks.KindPanic, 3}, {"timeout", tasks.Failed, tasks.KindTimeout, 3}, {"nobody", tasks.Failed, tasks.KindRejected, 3},
	}
	for _, tt := range tests {
		t.Run(tt.typ, func(t *testing.T) {
			t.Parallel()
			id := enqueue(t, q, tasks.Spec{Type: tt.typ, Payload: 7, MaxRetries: new(2), Timeout: new(100 * time.Millisecond),
				Backoff: &tasks.Backoff{Base: tasks.Duration(20 * time.Millisecond), Max: tasks.Duration(20 * time.Millisecond)}}).ID
			got := wait(t, q, id)
			if got.Status != tt.status || got.Attempt != tt.tries {
				t.Fatalf("%s after %d attempts, want %s after %d; error %+v", got.Status, got.Attempt, tt.status, tt.tries, got.Error)
			}
			checkFailure(t, got, tt.kind, "", tt.tries)
			checkEvents(t, q.Events, got)
			if tt.typ != "ok" {
				return
			}
			if string(got.Result) != `{"owner":"tester","payload":"7"}` || got.OutputCut == 0 || got.OutputCut+int64(len(got.Output)) != 120_006 {
				t.Errorf("result %s, %d bytes of output after %d", got.Result, len(got.Output), got.OutputCut)
			}
		})
	}
	t.Cleanup(func() {
		eventually(t, "three ends are counted", func() bool { return seen.Get("finished completed")+seen.Get("finished failed error") == 3 })
	})
}

func TestEmbedded_Cancel(t *testing.T) {
	t.Parallel()
	q, _, _ := openEmbedded(t)
	var ran atomic.Int32
	start(t, q, worker.Config{}, func(w *worker.Worker) {
		w.HandleRaw("long", func(ctx context.Context, _ *worker.Job) (any, error) { <-ctx.Done(); return nil, context.Cause(ctx) })
		w.HandleRaw("fail", func(context.Context, *worker.Job) (any, error) { return nil, errors.New("no") })
		w.HandleRaw("noop", func(context.Context, *worker.Job) (any, error) { ran.Add(1); return nil, nil })
	})
	hour := tasks.Duration(1000 * time.Hour)
	specs := map[tasks.Status]tasks.Spec{
		tasks.Running:   {Type: "long"},
		tasks.Retrying:  {Type: "fail", Backoff: &tasks.Backoff{Base: hour, Max: hour}},
		tasks.Scheduled: {Type: "noop", Delay: time.Hour},
	}
	for from, spec := range specs {
		t.Run(string(from), func(t *testing.T) {
			id := enqueue(t, q, spec).ID
			reaches(t, q, id, from)
			changes, err := q.Cancel(t.Context(), tasks.Ref{ID: id, Owner: "tester"}, queue.CancelRequest{By: "me"})
			if err != nil || len(changes) != 1 || changes[0].From != from {
				t.Fatalf("Cancel = %+v, %v", changes, err)
			}
			got := wait(t, q, id)
			if got.Status != tasks.Cancelled || got.Cancel.By != "me" {
				t.Errorf("after Cancel: %+v", got)
			}
			checkEvents(t, q.Events, got)
		})
	}
	t.Run("pending", func(t *testing.T) {
		if err := q.Pause(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		id := enqueue(t, q, tasks.Spec{Type: "noop", Name: "n"}).ID
		if _, err := q.Cancel(t.Context(), tasks.Ref{ID: id}, queue.CancelRequest{}); err != nil {
			t.Fatal(err)
		}
		next := enqueue(t, q, tasks.Spec{Type: "noop", Name: "n"}).ID
		if err := q.Resume(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		if got := wait(t, q, next); got.Status != tasks.Completed || ran.Load() != 1 {
			t.Errorf("%+v, %d bodies", got, ran.Load())
		}
		again, err := q.Retry(t.Context(), tasks.Ref{ID: id})
		if err != nil {
			t.Fatalf("Retry: %v", err)
		}
		if got := wait(t, q, again.ID); got.Status != tasks.Completed || ran.Load() != 2 {
			t.Errorf("new run: %+v, %d bodies", got, ran.Load())
		}
		if err := q.Delete(t.Context(), tasks.Ref{ID: id}); err != nil {
			t.Errorf("Delete: %v", err)
		}
	})
}

// TestEmbedded_Producers: batches, idempotency, delays, deadlines, adoption, lists and counts in embedded mode.
func TestEmbedded_Producers(t *testing.T) {
	t.Parallel()
	q, _, url := openEmbedded(t)
	start(t, q, worker.Config{}, func(w *worker.Worker) {
		w.HandleRaw("noop", func(context.Context, *worker.Job) (any, error) { return nil, nil })
	})
	key := tasks.Spec{Type: "noop", Owner: "a", IdempotencyKey: "k"}
	results, err := q.EnqueueBatch(t.Context(), []tasks.Spec{key, key, {Type: "noop", Owner: "a", Delay: 300 * time.Millisecond}, {Owner: "a"}})
	if err != nil || results[0].Err != nil || results[1].Err != nil || results[0].Task.ID != results[1].Task.ID || results[3].Err == nil {
		t.Fatalf("EnqueueBatch = %+v, %v", results, err)
	}
	wait(t, q, results[0].Task.ID)
	delayed := wait(t, q, results[2].Task.ID)
	if d := delayed.StartedAt.Sub(delayed.CreatedAt.Time); d < 300*time.Millisecond || d > 3*time.Second {
		t.Errorf("a delay of 300ms took %v", d)
	}
	short := enqueue(t, q, tasks.Spec{Type: "noop", Owner: "a", Retention: time.Second}).ID
	wait(t, q, short)
	opt, err := asynq.ParseRedisURI(url)
	if err != nil {
		t.Fatal(err)
	}
	producer := asynq.NewClient(opt)
	defer func() { _ = producer.Close() }()
	plain, err := producer.Enqueue(asynq.NewTask("noop", []byte("not JSON")), asynq.ProcessIn(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if got := waitAdopted(t, q, "default."+plain.ID); got.Status != tasks.Completed || got.Owner != "asynq" || string(got.Payload) != `"not JSON"` {
		t.Errorf("adopted: %+v", got)
	}
	page, err := q.List(t.Context(), queue.Filter{Owner: "a", Statuses: []tasks.Status{tasks.Completed}})
	if err != nil || len(page.Tasks) < 2 {
		t.Errorf("List = %+v, %v", page, err)
	}
	eventually(t, "the task of a second's retention is gone", func() bool {
		if _, err := q.Store().Purge(t.Context(), "default"); err != nil { // asynq asks for it every 8 s
			t.Fatal(err)
		}
		_, err := q.Get(t.Context(), tasks.Ref{ID: short})
		return errors.Is(err, tasks.ErrNotFound)
	})
	info, err := q.Queue(t.Context(), "default")
	if err != nil || info.Counts[tasks.Completed] != 3 || info.Counts[tasks.Pending]+info.Counts[tasks.Running]+info.Counts[tasks.Scheduled] != 0 {
		t.Errorf("Queue = %+v, %v", info, err)
	}
	if workers, err := q.Workers(t.Context()); err != nil || len(workers) != 1 {
		t.Errorf("Workers = %+v, %v", workers, err)
	}
	if h, err := q.Health(t.Context()); err != nil || !h.Ready || !h.Embedded || h.Durability != "embedded" {
		t.Errorf("Health = %+v, %v", h, err)
	}
}

// TestEmbedded_Drain: a drained task goes back and runs again; the task of a worker that went silent is taken over.
func TestEmbedded_Drain(t *testing.T) {
	t.Parallel()
	q, _, url := openEmbedded(t)
	register := func(w *worker.Worker) {
		w.HandleRaw("deaf", func(context.Context, *worker.Job) (any, error) { return "again", nil })
		w.HandleRaw("long", func(ctx context.Context, j *worker.Job) (any, error) {
			if j.Attempt > 1 {
				return "again", nil
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
	}
	cfg := brisk()
	cfg.DrainTimeout = -1
	_, stop := start(t, q, cfg, register)
	long := enqueue(t, q, tasks.Spec{Type: "long", MaxRetries: new(0)}).ID
	reaches(t, q, long, tasks.Running)
	if err := stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if got := get(t, q, long); got.Status != tasks.Pending || got.Interruptions != 1 {
		t.Errorf("drained: %+v", got)
	}
	if err := q.Pause(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	silent := enqueue(t, q, tasks.Spec{Type: "deaf", MaxRetries: new(0), Queue: "other"}).ID
	cut, begun := deafOn(t, url, "other")
	<-begun
	cut.down()
	cfg = brisk()
	cfg.Queues = map[string]int{"default": 1, "other": 1}
	start(t, q, cfg, register)
	if err := q.Resume(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{long, silent} {
		if got := wait(t, q, id); got.Status != tasks.Completed || got.Attempt != 2 || got.Interruptions != 1 || string(got.Result) != `"again"` {
			t.Errorf("run again: %+v", got)
		}
	}
}
