package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"offstage/internal/redistest"
	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// TestWorker_CancelUnheard is check 19: with every pub/sub connection cut, a cancelled task learns of it from the
// heartbeat, within 3 s, and is not tried again.
func TestWorker_CancelUnheard(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	admin := own.Client(t)
	q, seen := open(t, own.URL())
	begun := make(chan struct{}, 1)
	start(t, q, worker.Config{}, func(w *worker.Worker) {
		w.HandleRaw("long", func(ctx context.Context, _ *worker.Job) (any, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
	})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var killed atomic.Int64
	wg.Go(func() {
		for ctx.Err() == nil {
			n, _ := admin.ClientKillByFilter(ctx, "TYPE", "pubsub").Result()
			killed.Add(n)
			time.Sleep(time.Millisecond)
		}
	})
	t.Cleanup(func() { stop(); wg.Wait() })
	eventually(t, "subscriptions are cut", func() bool { return killed.Load() > 0 })
	id := enqueue(t, q, tasks.Spec{Type: "long"}).ID
	<-begun
	asked := time.Now()
	if _, err := q.Cancel(t.Context(), tasks.Ref{ID: id}, queue.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	got := wait(t, q, id)
	if took := time.Since(asked); got.Status != tasks.Cancelled || got.Attempt != 1 || took > 3*time.Second {
		t.Errorf("%v after the request: %+v", took, got)
	}
	eventually(t, "the cancellation is counted", func() bool { return seen.Get("cancel latency") == 1 })
	if seen.Get("attempt retry") != 0 {
		t.Errorf("counted %v", seen.All())
	}
}

// TestWorker_RedisRestart: a task that runs while Redis is killed and comes back completes once, with all its output.
func TestWorker_RedisRestart(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t, redistest.AOF("always"))
	q, seen := open(t, own.URL())
	var bodies atomic.Int32
	step := make(chan string)
	cfg := brisk()
	cfg.Lease = 5 * time.Second
	start(t, q, cfg, func(w *worker.Worker) {
		w.HandleRaw("long", func(_ context.Context, j *worker.Job) (any, error) {
			bodies.Add(1)
			for text := range step {
				_, _ = fmt.Fprintln(j.Output(), text)
			}
			return "done", nil
		})
		w.HandleRaw("noop", func(context.Context, *worker.Job) (any, error) { return nil, nil })
	})
	id := enqueue(t, q, tasks.Spec{Type: "long", MaxRetries: new(0)}).ID
	waiting := enqueue(t, q, tasks.Spec{Type: "noop", Delay: time.Second}).ID
	step <- "before"
	eventually(t, "the output is there", func() bool { return get(t, q, id).Output == "before\n" })
	own.Stop()
	step <- "during"
	time.Sleep(500 * time.Millisecond)
	step <- "still"
	if err := own.Restart(); err != nil {
		t.Fatal(err)
	}
	step <- "after"
	eventually(t, "the output of the outage is there", func() bool {
		return get(t, q, id).Output == "before\nduring\nstill\nafter\n"
	})
	close(step)
	got := wait(t, q, id)
	if got.Status != tasks.Completed || got.Attempt != 1 || got.Interruptions != 0 || got.OutputCut != 0 || bodies.Load() != 1 {
		t.Errorf("after the restart: %+v, %d bodies", got, bodies.Load())
	}
	checkEvents(t, q.Events, got)
	if got := wait(t, q, waiting); got.Status != tasks.Completed {
		t.Errorf("the delayed task: %+v", got)
	}
	if seen.Get("interrupted crash")+seen.Get("interrupted lease_lost") != 0 {
		t.Errorf("counted %v", seen.All())
	}
}

func get(t *testing.T, q *queue.Queue, id string) *tasks.Task {
	t.Helper()
	task, err := q.Get(t.Context(), tasks.Ref{ID: id})
	if err != nil {
		t.Fatalf("Get(%s): %v", id, err)
	}
	return task
}

// TestWorker_LostTake is promise P2: a task whose taking was done but whose message to the worker got lost does not
// wait for that worker to die. It runs, soon and once.
func TestWorker_LostTake(t *testing.T) {
	t.Parallel()
	url := server.FreshDB(t)
	direct, _ := open(t, url)
	cut := newLink(t, url)
	q, seen := open(t, cut.url)
	var bodies atomic.Int32
	start(t, q, brisk(), func(w *worker.Worker) {
		w.HandleRaw("noop", func(context.Context, *worker.Job) (any, error) { bodies.Add(1); return nil, nil })
	})
	wait(t, direct, enqueue(t, direct, tasks.Spec{Type: "noop"}).ID) // all scripts are known
	cut.mute()
	id := enqueue(t, direct, tasks.Spec{Type: "noop", MaxRetries: new(0)}).ID
	reaches(t, direct, id, tasks.Running)
	cut.unmute()
	got := wait(t, direct, id)
	if got.Status != tasks.Completed || bodies.Load() != 2 || len(got.Errors) != 0 {
		t.Errorf("after the lost reply: %+v, %d bodies, counted %v", got, bodies.Load()-1, seen.All())
	}
	checkEvents(t, direct.Events, got)
}

// TestWorker_EndLostReply is promise P4: an outcome whose acknowledgement got lost is recorded once, and the task is not
// run again.
func TestWorker_EndLostReply(t *testing.T) {
	t.Parallel()
	url := server.FreshDB(t)
	direct, _ := open(t, url)
	cut := newLink(t, url)
	q, seen := open(t, cut.url)
	var bodies atomic.Int32
	inside, finish := make(chan struct{}), make(chan struct{})
	cfg := brisk()
	cfg.Lease = 8 * time.Second
	start(t, q, cfg, func(w *worker.Worker) {
		w.HandleRaw("work", func(_ context.Context, j *worker.Job) (any, error) {
			bodies.Add(1)
			inside <- struct{}{}
			<-finish
			_, _ = j.Output().Write([]byte("the end\n"))
			return "done", nil
		})
	})
	once := func(cutOff bool) {
		id := enqueue(t, direct, tasks.Spec{Type: "work", MaxRetries: new(0)}).ID
		<-inside
		if cutOff {
			cut.mute()
		}
		finish <- struct{}{}
		got := wait(t, direct, id)
		if cutOff {
			cut.unmute()
			eventually(t, "the worker knows that the outcome is recorded", func() bool { return seen.Get("attempt completed") == 2 })
			got = get(t, direct, id)
		}
		if got.Status != tasks.Completed || got.Attempt != 1 || got.Output != "the end\n" || string(got.Result) != `"done"` {
			t.Errorf("recorded: %+v", got)
		}
		checkEvents(t, direct.Events, got)
	}
	once(false)
	once(true)
	if bodies.Load() != 2 || seen.Get("attempt stale") != 0 || seen.Get("pending") != 0 {
		t.Errorf("%d bodies, counted %v", bodies.Load(), seen.All())
	}
}

// TestWorker_OutputLarge: a hundred thousand small writes are collected; the tail is kept whole.
func TestWorker_OutputLarge(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	q, _ := open(t, own.URL())
	const lines = 100_000
	start(t, q, worker.Config{}, func(w *worker.Worker) {
		w.HandleRaw("talk", func(_ context.Context, j *worker.Job) (any, error) {
			for i := range lines {
				_, _ = fmt.Fprintf(j.Output(), "línea %06d\n", i)
			}
			return nil, nil
		})
	})
	got := wait(t, q, enqueue(t, q, tasks.Spec{Type: "talk"}).ID)
	const size = int64(len("línea 000000\n")) * lines
	if got.Status != tasks.Completed || got.OutputCut+int64(len(got.Output)) != size || len(got.Output) < 60_000 {
		t.Fatalf("%s, %d bytes of output after %d, of %d, error %+v", got.Status, len(got.Output), got.OutputCut, size, got.Error)
	}
	if !strings.HasSuffix(got.Output, "línea 099998\nlínea 099999\n") || strings.Contains(got.Output, "\uFFFD") {
		t.Errorf("the output ends with %q", got.Output[len(got.Output)-40:])
	}
	stats := own.Client(t).Info(t.Context(), "commandstats").Val()
	if n := strings.Count(stats, "cmdstat_append"); n != 1 {
		t.Fatalf("commandstats: %s", stats)
	}
	_, after, _ := strings.Cut(stats, "cmdstat_append:calls=")
	var writes int
	if _, err := fmt.Sscanf(after, "%d", &writes); err != nil || writes > 500 {
		t.Errorf("%d writes to Redis for %d lines (%v)", writes, lines, err)
	}
}
