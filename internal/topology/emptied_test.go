package topology_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"offstage/internal/redistest"
	"offstage/internal/topology"
	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// said is a log that a test reads.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *said) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.buf.String(), text)
}

// TestSentinel_Emptied: a Redis that is emptied or replaced by an empty one under a live worker is noticed and said,
// by the log, the counter and the worker's health, and the service goes on: new tasks are accepted and run, and one
// that ran when it happened has its body stopped.
func TestSentinel_Emptied(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*testing.T, *topology.Sentinel){
		// By hand, or by a tool that was given the wrong address.
		"FlushAll": func(t *testing.T, s *topology.Sentinel) {
			t.Helper()
			if err := s.Master().Client(t).FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		},
		// A master without persistence that is restarted sooner than the sentinels notice: its replicas follow it.
		"MasterRestarts": func(t *testing.T, s *topology.Sentinel) {
			t.Helper()
			if err := s.Master().Restart(); err != nil {
				t.Fatal(err)
			}
		},
		// A replica that never had the data is promoted.
		"EmptyPromoted": func(t *testing.T, s *topology.Sentinel) {
			t.Helper()
			empty := redistest.Start(t, redistest.Args("--replicaof", "127.0.0.1 1")) // nobody is there
			old := s.Master()
			old.Stop()
			if err := empty.Client(t).ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
				t.Fatal(err)
			}
			s.Point(empty)
		},
	}
	for name, empty := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := topology.StartSentinel(t, topology.SentinelConfig{DownAfter: 5 * time.Second})
			emptied(t, s.URL, func() { empty(t, s) })
		})
	}
}

// TestCluster_Emptied: the same when one node of a cluster comes back without its data.
func TestCluster_Emptied(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t, topology.ClusterConfig{NodeTimeout: 5 * time.Second})
	emptied(t, c.URL, func() {
		if err := c.Masters[c.NodeOf("default")].Restart(); err != nil {
			t.Fatal(err)
		}
	})
}

func emptied(t *testing.T, url string, empty func()) {
	t.Helper()
	q, seen := open(t, url, queue.Options{})
	log := &said{}
	cfg := brisk("default")
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	begun, ended := make(chan string, 10), make(chan error, 10)
	w, _ := start(t, q, cfg, func(w *worker.Worker) {
		w.HandleRaw("echo", func(_ context.Context, j *worker.Job) (any, error) { return j.Payload, nil })
		w.HandleRaw("hold", func(ctx context.Context, j *worker.Job) (any, error) {
			begun <- j.ID
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		})
	})
	ends(t, q, enqueue(t, q, tasks.Spec{Type: "echo"}).ID, tasks.Completed)
	later := enqueue(t, q, tasks.Spec{Type: "echo", Delay: time.Hour}).ID
	running := enqueue(t, q, tasks.Spec{Type: "hold"}).ID
	if id := <-begun; id != running {
		t.Fatalf("%s began", id)
	}
	if problems, err := w.Health(); err != nil || problems != nil {
		t.Errorf("before: %v, %q", err, problems)
	}
	time.Sleep(2 * cfg.Heartbeat) // the worker has met this Redis, and its replicas have what it was given
	empty()
	at := time.Now()
	var problems []string
	eventually(t, "it is noticed", func() bool { problems, _ = w.Health(); return len(problems) > 0 })
	noticed := time.Since(at)
	if !strings.Contains(problems[0], "emptied or replaced") || seen.Get("repaired keyspace_lost") != 1 || !log.has("emptied or replaced") {
		t.Errorf("problems %q, counted %v", problems, seen.All())
	}
	select {
	case cause := <-ended:
		if !errors.Is(cause, tasks.ErrLeaseLost) {
			t.Errorf("the body's context ended with %v, want ErrLeaseLost", cause)
		}
	case <-time.After(bound):
		t.Fatal("the body of a task that is gone goes on")
	}
	var fresh *tasks.Task
	eventually(t, "a new task is accepted", func() bool {
		var err error
		fresh, _, err = q.Enqueue(t.Context(), tasks.Spec{Type: "echo", Owner: owner, IdempotencyKey: "fresh"})
		return err == nil
	})
	ends(t, q, fresh.ID, tasks.Completed)
	again := time.Since(at)
	eventually(t, "delayed tasks are moved", func() bool {
		task, _, err := q.Enqueue(t.Context(), tasks.Spec{Type: "echo", Owner: owner, Delay: 50 * time.Millisecond, IdempotencyKey: "delayed"})
		return err == nil && wait(t, q, task.ID).Status == tasks.Completed
	})
	for _, id := range []string{later, running} {
		if _, err := q.Get(t.Context(), tasks.Ref{ID: id}); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("a task that is gone: %v", err)
		}
	}
	eventually(t, "the queue is listed", func() bool { _, err := q.Queue(t.Context(), "default"); return err == nil })
	measured(t, "emptied noticed=%.1fs serves_again=%.1fs heartbeat=%v", noticed.Seconds(), again.Seconds(), cfg.Heartbeat)
}
