package worker_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"offstage/internal/redistest"
	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// TestWorker_CommitFailure is promise P7: an outcome that Redis does not take is counted, tried again and recorded, and
// the body does not run twice. Out of memory, the second try goes through: what has ended must not wait for room.
func TestWorker_CommitFailure(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	admin := own.Client(t)
	q, seen := open(t, own.URL())
	var bodies atomic.Int32
	inside, finish := make(chan struct{}), make(chan struct{})
	start(t, q, worker.Config{}, func(w *worker.Worker) {
		w.HandleRaw("work", func(context.Context, *worker.Job) (any, error) {
			bodies.Add(1)
			inside <- struct{}{}
			<-finish
			return "done", nil
		})
	})
	faults := []struct {
		name, reason string
		times        int // counted at least
		set, heal    []any
	}{
		{"ACL", "other", 2, []any{"ACL", "SETUSER", "default", "resetkeys", "~asynq:*"}, []any{"ACL", "SETUSER", "default", "allkeys"}},
		{"OOM", "oom", 1, []any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		{"NoReplicas", "unavailable", 2, []any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}},
	}
	for i, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			id := enqueue(t, q, tasks.Spec{Type: "work"}).ID
			<-inside
			if err := admin.Do(t.Context(), f.set...).Err(); err != nil {
				t.Fatal(err)
			}
			finish <- struct{}{}
			key := "commit task_completion " + f.reason
			for end := time.Now().Add(10 * time.Second); seen.Get(key) < f.times; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("counted %v, want %q at least %d times", seen.All(), key, f.times)
				}
			}
			if f.times > 1 && seen.Get("pending") != 1 {
				t.Errorf("%d commits pending, want 1", seen.Get("pending"))
			}
			if err := admin.Do(t.Context(), f.heal...).Err(); err != nil {
				t.Fatal(err)
			}
			got := wait(t, q, id)
			if got.Status != tasks.Completed || string(got.Result) != `"done"` || got.Attempt != 1 || int(bodies.Load()) != i+1 {
				t.Errorf("after the fault: %+v, bodies %d", got, bodies.Load())
			}
			checkEvents(t, q.Events, got)
		})
	}
	eventually(t, "no commit is pending", func() bool { return seen.Get("pending") == 0 })
}

// TestWorker_Adopt: tasks of a plain asynq producer get a record when they are taken.
func TestWorker_Adopt(t *testing.T) {
	t.Parallel()
	url := server.FreshDB(t)
	q, _ := open(t, url)
	start(t, q, worker.Config{}, func(w *worker.Worker) {
		w.HandleRaw("mail", func(_ context.Context, j *worker.Job) (any, error) { return string(j.Payload), nil })
		w.HandleRaw("bad", func(context.Context, *worker.Job) (any, error) { return nil, context.Canceled })
	})
	opt, err := asynq.ParseRedisURI(url)
	if err != nil {
		t.Fatal(err)
	}
	producer := asynq.NewClient(opt)
	defer func() { _ = producer.Close() }()
	ok, err := producer.Enqueue(asynq.NewTaskWithHeaders("mail", []byte("to: ada"), map[string]string{"offstage-owner": "ada"}),
		asynq.ProcessIn(time.Second), asynq.Unique(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	bad, err := producer.Enqueue(asynq.NewTask("bad", nil), asynq.MaxRetry(0), asynq.TaskID("my own id"))
	if err != nil {
		t.Fatal(err)
	}
	got := waitAdopted(t, q, "default."+ok.ID)
	if got.Status != tasks.Completed || got.Owner != "ada" || string(got.Payload) != `"to: ada"` || string(got.Result) != `"to: ada"` {
		t.Errorf("adopted: %+v", got)
	}
	got = waitAdopted(t, q, "default."+bad.ID)
	if got.Status != tasks.Failed || got.Owner != "asynq" || got.Attempt != 1 {
		t.Errorf("adopted: %+v", got)
	}
	if _, err := producer.Enqueue(asynq.NewTask("mail", []byte("to: ada")), asynq.Unique(time.Hour)); err != nil {
		t.Errorf("the finished task still holds its uniqueness lock: %v", err)
	}
	info, err := asynq.NewInspector(opt).GetTaskInfo("default", bad.ID)
	if err != nil || info.State != asynq.TaskStateArchived || !strings.Contains(info.LastErr, "context canceled") {
		t.Errorf("asynq shows %+v, %v", info, err)
	}
}

func waitAdopted(t *testing.T, q *queue.Queue, id string) *tasks.Task {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		got, err := q.Get(t.Context(), tasks.Ref{ID: id})
		if err == nil && got.Status.Terminal() {
			return got
		}
		if time.Now().After(end) {
			t.Fatalf("task %s: %+v, %v", id, got, err)
		}
	}
}

// TestWorker_Drain: what runs at the end of the drain goes back to the front of its queue and spends no retry.
func TestWorker_Drain(t *testing.T) {
	t.Parallel()
	q, seen := open(t, server.FreshDB(t))
	first := make(chan string, 10)
	register := func(w *worker.Worker) {
		w.HandleRaw("quick", func(context.Context, *worker.Job) (any, error) { time.Sleep(200 * time.Millisecond); return nil, nil })
		w.HandleRaw("slow", func(ctx context.Context, j *worker.Job) (any, error) {
			first <- j.ID
			if j.Attempt > 1 {
				return "again", nil
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
	}
	_, stop := start(t, q, worker.Config{Concurrency: 2, DrainTimeout: 500 * time.Millisecond}, register)
	slow := enqueue(t, q, tasks.Spec{Type: "slow", MaxRetries: new(0)}).ID
	quick := enqueue(t, q, tasks.Spec{Type: "quick"}).ID
	reaches(t, q, quick, tasks.Running)
	<-first
	waiting := enqueue(t, q, tasks.Spec{Type: "slow"}).ID
	if err := stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if got := wait(t, q, quick); got.Status != tasks.Completed {
		t.Errorf("quick task: %+v", got)
	}
	got := reaches(t, q, slow, tasks.Pending)
	if got.Interruptions != 1 || got.Attempt != 1 || seen.Get("interrupted drain") != 1 {
		t.Errorf("drained task: %+v, seen %v", got, seen.All())
	}
	if workers, err := q.Workers(t.Context()); err != nil || len(workers) != 0 {
		t.Errorf("workers after the drain: %+v, %v", workers, err)
	}
	start(t, q, worker.Config{Concurrency: 1, DrainTimeout: -1}, register)
	if id := <-first; id != slow {
		t.Errorf("%s started first, want the interrupted %s before %s", id, slow, waiting)
	}
	if got := wait(t, q, slow); got.Status != tasks.Completed || got.Attempt != 2 {
		t.Errorf("drained task, run again: %+v", got)
	}
}
