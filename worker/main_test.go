package worker_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"offstage/internal/redistest"
	"offstage/internal/tally"
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

// open gives a queue on a database of the test's own.
func open(t *testing.T, url string) (*queue.Queue, *tally.Counters) {
	t.Helper()
	seen := &tally.Counters{}
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
