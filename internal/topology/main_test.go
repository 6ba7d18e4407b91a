package topology_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"offstage/internal/tally"
	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

func TestMain(m *testing.M) {
	queue.LogDriver(slog.New(slog.DiscardHandler)) // connections are cut all the time here
	goleak.VerifyTestMain(m)
}

// owner is whose tasks the tests make, unless they say otherwise.
const owner = "tester"

// bound is how long anything may take here that takes moments on a machine of its own.
const bound = 60 * time.Second

// open gives a queue that is closed at the test's end.
func open(t *testing.T, url string, o queue.Options) (*queue.Queue, *tally.Counters) {
	t.Helper()
	seen := &tally.Counters{}
	o.Observer = seen
	q, err := queue.Open(t.Context(), url, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if n := seen.Get("unknown script"); n > 0 {
			t.Errorf("asynq sent %d scripts that are not known", n)
		}
	})
	return q, seen
}

// brisk is a worker whose times are short, and yet long enough for a busy machine.
func brisk(queues ...string) worker.Config {
	weights := map[string]int{}
	for _, name := range queues {
		weights[name] = 1
	}
	return worker.Config{
		Queues: weights, Concurrency: 8, PollInterval: 20 * time.Millisecond, Heartbeat: 500 * time.Millisecond, Lease: 4 * time.Second,
		CancelGrace: 2 * time.Second, DrainTimeout: time.Second,
	}
}

// start runs a worker until the test ends, or until the returned stop is called; stop gives Run's error.
func start(t *testing.T, q *queue.Queue, cfg worker.Config, register func(*worker.Worker)) (w *worker.Worker, stop func() error) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	w, err := worker.New(q, cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	register(w)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = w.Run(ctx) })
	stop = sync.OnceValue(func() error { cancel(); wg.Wait(); return failed })
	t.Cleanup(func() { _ = stop() })
	return w, stop
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

// enqueue creates a task, which must not have been there.
func enqueue(t *testing.T, q *queue.Queue, spec tasks.Spec) *tasks.Task {
	t.Helper()
	if spec.Owner == "" {
		spec.Owner = owner
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
	task, err := q.Wait(t.Context(), tasks.Ref{ID: id}, bound)
	if err != nil || !task.Status.Terminal() {
		t.Fatalf("Wait(%s) for %v: %+v, %v", id, bound, task, err)
	}
	return task
}

// ends waits until the task has ended, as wanted.
func ends(t *testing.T, q *queue.Queue, id string, want tasks.Status) *tasks.Task {
	t.Helper()
	task := wait(t, q, id)
	if task.Status != want {
		t.Errorf("task %s is %s, want %s: %+v, error %+v", id, task.Status, want, task, task.Error)
	}
	checkEvents(t, q, task)
	return task
}

// reaches waits until the task has the status.
func reaches(t *testing.T, q *queue.Queue, id string, want tasks.Status) *tasks.Task {
	t.Helper()
	var task *tasks.Task
	eventually(t, "task "+id+" is "+string(want), func() bool {
		var err error
		task, err = q.Get(t.Context(), tasks.Ref{ID: id})
		return err == nil && task.Status == want
	})
	return task
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s", bound, what)
		}
	}
}

// checkEvents wants the events of a task that has ended: without a gap, and one terminal one, the last.
func checkEvents(t *testing.T, q *queue.Queue, task *tasks.Task) {
	t.Helper()
	if bad := eventsOf(t.Context(), q, task); bad != nil {
		t.Errorf("task %s: %v", task.ID, bad)
	}
}

func eventsOf(ctx context.Context, q *queue.Queue, task *tasks.Task) error {
	events, err := q.Events(ctx, tasks.Ref{ID: task.ID}, 0, 1000)
	if err != nil {
		return err
	}
	if len(events) == 0 {
		return errors.New("no events")
	}
	terminal := 0
	for i, e := range events {
		if e.Seq != int64(i+1) {
			return errors.New("its events have a gap")
		}
		if e.Kind.Terminal() {
			terminal++
		}
	}
	if last := events[len(events)-1]; terminal != 1 || last.Kind != tasks.EventKind(task.Status) {
		return errors.New("it has not one terminal event, or not as the last")
	}
	return nil
}

// measured logs the figures of a test in the form that docs/guarantees.md quotes.
func measured(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("measured: "+format, args...)
}
