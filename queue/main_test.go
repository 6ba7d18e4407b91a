package queue_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.uber.org/goleak"

	"offstage/internal/redistest"
	"offstage/internal/tally"
	"offstage/queue"
	"offstage/queue/bridge"
	"offstage/tasks"
)

var server *redistest.Server

func TestMain(m *testing.M) {
	queue.LogDriver(slog.New(slog.DiscardHandler)) // connections are cut all the time here
	// A closed pool that could not connect lets its goroutine sleep to the end of a second.
	redistest.Main(m, &server, redistest.IgnoreLeaks(
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")))
}

// open gives a queue on url that is closed at the test's end.
func open(t *testing.T, url string) (*queue.Queue, *tally.Counters) {
	t.Helper()
	seen := &tally.Counters{}
	q, err := queue.Open(t.Context(), url, queue.Options{Observer: seen})
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

// noop is the least of a spec.
func noop() tasks.Spec { return tasks.Spec{Type: "noop", Owner: "ada"} }

func named(name string) tasks.Spec { return tasks.Spec{Type: "noop", Owner: "ada", Name: name} }

// enqueue creates a task, which must not have been there.
func enqueue(t *testing.T, q *queue.Queue, spec tasks.Spec) *tasks.Task {
	t.Helper()
	task, created, err := q.Enqueue(t.Context(), spec)
	if err != nil || !created {
		t.Fatalf("Enqueue(%+v) = created %v, %v", spec, created, err)
	}
	return task
}

func cancel(t *testing.T, q *queue.Queue, id string) {
	t.Helper()
	if _, err := q.Cancel(t.Context(), tasks.Ref{ID: id}, queue.CancelRequest{}); err != nil {
		t.Fatalf("Cancel(%s): %v", id, err)
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

// count says how many tasks there are, by the list.
func count(t *testing.T, q *queue.Queue, f queue.Filter) int {
	t.Helper()
	return len(listAll(t, q, f))
}

func listAll(t *testing.T, q *queue.Queue, f queue.Filter) []*tasks.Task {
	t.Helper()
	var all []*tasks.Task
	for {
		page, err := q.List(t.Context(), f)
		if err != nil {
			t.Fatalf("List(%+v): %v", f, err)
		}
		all = append(all, page.Tasks...)
		if f.PageToken = page.NextPageToken; f.PageToken == "" {
			return all
		}
	}
}

// runner is the least of a worker: it takes tasks through the bridge and ends each as do says.
type runner struct {
	server *bridge.Server
	store  *bridge.Store
	do     func(*bridge.Attempt) bridge.End
}

func (r *runner) ProcessTask(ctx context.Context, _ *asynq.Task) error {
	id, _ := asynq.GetTaskID(ctx)
	name, _ := asynq.GetQueueName(ctx)
	if a, ok := r.server.Attempt(name, id); ok {
		_, _ = r.store.End(context.WithoutCancel(ctx), a, r.do(a))
	}
	return nil
}

// serve runs the tasks of queue default until the test ends.
func serve(t *testing.T, q *queue.Queue, do func(*bridge.Attempt) bridge.End) {
	t.Helper()
	front, err := bridge.NewServer(q.Store(), bridge.ServerConfig{
		Worker: "runner", Acquire: func() bool { return true }, Release: func() {}, Failed: func(string, error) { time.Sleep(10 * time.Millisecond) },
		Serves: func(string) bool { return true },
		Shown:  func(*bridge.Attempt) time.Duration { return time.Hour },
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{server: front, store: q.Store(), do: do}
	srv := asynq.NewServerFromRedisClient(front, asynq.Config{
		Concurrency: 4, TaskCheckInterval: 10 * time.Millisecond, DelayedTaskCheckInterval: 50 * time.Millisecond,
		ShutdownTimeout: time.Second, LogLevel: asynq.FatalLevel, Logger: quiet{},
	})
	if err := srv.Start(r); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		srv.Shutdown()
		_ = front.Close()
	})
}

// quiet is a logger of asynq's that says nothing.
type quiet struct{}

func (quiet) Debug(...any)      {}
func (quiet) Info(...any)       {}
func (quiet) Warn(...any)       {}
func (quiet) Error(...any)      {}
func (quiet) Fatal(args ...any) { panic(args) }

// reaches waits until the task has the status.
func reaches(t *testing.T, q *queue.Queue, id string, want tasks.Status) *tasks.Task {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		task := get(t, q, id)
		if task.Status == want {
			return task
		}
		if time.Now().After(end) {
			t.Fatalf("task %s is %s, want %s", id, task.Status, want)
		}
	}
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in 10 s: %s", what)
		}
	}
}
