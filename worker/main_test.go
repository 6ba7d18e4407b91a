package worker_test

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"offstage/internal/redistest"
	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

var server *redistest.Server

func TestMain(m *testing.M) {
	queue.LogDriver(slog.New(slog.DiscardHandler)) // connections are cut all the time here
	// A closed pool that could not connect lets its goroutine sleep to the end of a second.
	redistest.Main(m, &server, redistest.IgnoreLeaks(
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")))
}

// counters is a queue.Observer that counts.
type counters struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counters) add(key string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[key] += n
}

func (c *counters) get(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[key]
}

func (c *counters) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

func (c *counters) TaskEnqueued(string, string)       { c.add("enqueued", 1) }
func (c *counters) TaskStarted(string, time.Duration) { c.add("started", 1) }
func (c *counters) AttemptEnded(_, _, outcome string) { c.add("attempt "+outcome, 1) }
func (c *counters) CommitFailed(op, reason string) {
	c.add("commit "+op+" "+reason, 1)
	c.add("commit "+op, 1)
}
func (c *counters) CommitPending(n int)          { c.add("pending", n) }
func (c *counters) StaleWrite(op string)         { c.add("stale "+op, 1) }
func (c *counters) Repaired(kind string)         { c.add("repaired "+kind, 1) }
func (c *counters) Interrupted(cause string)     { c.add("interrupted "+cause, 1) }
func (c *counters) CancelRequested(scope string) { c.add("cancel "+scope, 1) }
func (c *counters) CancelLatency(time.Duration)  { c.add("cancel latency", 1) }
func (c *counters) StuckHandlers(n int)          { c.add("stuck", n); c.add("stuck ever", max(n, 0)) }
func (c *counters) UnknownScript(string)         { c.add("unknown script", 1) }
func (c *counters) TaskFinished(_, _ string, s tasks.Status, k tasks.Kind, _ time.Duration) {
	c.add("finished "+string(s)+" "+string(k), 1)
}

// open gives a queue on a database of the test's own.
func open(t *testing.T, url string) (*queue.Queue, *counters) {
	t.Helper()
	seen := &counters{}
	q, err := queue.Open(t.Context(), url, queue.Options{Observer: seen})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q, seen
}

// start runs a worker until the test ends, or until the returned stop is called; stop gives Run's error.
func start(t *testing.T, q *queue.Queue, cfg worker.Config, register func(*worker.Worker)) (w *worker.Worker, stop func() error) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	cfg.PollInterval = 20 * time.Millisecond
	w, err := worker.New(q, cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	register(w)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return w, stop
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

func enqueue(t *testing.T, q *queue.Queue, spec tasks.Spec) *tasks.Task {
	t.Helper()
	if spec.Owner == "" {
		spec.Owner = "tester"
	}
	task, created, err := q.Enqueue(t.Context(), spec)
	if err != nil || !created {
		t.Fatalf("Enqueue(%+v) = created %v, %v", spec, created, err)
	}
	return task
}

// wait waits until the task has ended.
func wait(t *testing.T, q *queue.Queue, id string) *tasks.Task {
	t.Helper()
	task, err := q.Wait(t.Context(), tasks.Ref{ID: id}, 20*time.Second)
	if err != nil {
		t.Fatalf("Wait(%s): %v", id, err)
	}
	if !task.Status.Terminal() {
		t.Fatalf("Wait(%s): still %s after 20 s: %+v", id, task.Status, task)
	}
	return task
}

// reaches waits until the task has the status.
func reaches(t *testing.T, q *queue.Queue, id string, want tasks.Status) *tasks.Task {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		task, err := q.Get(t.Context(), tasks.Ref{ID: id})
		if err != nil {
			t.Fatalf("Get(%s): %v", id, err)
		}
		if task.Status == want {
			return task
		}
		if time.Now().After(end) {
			t.Fatalf("task %s is %s, want %s", id, task.Status, want)
		}
	}
}
