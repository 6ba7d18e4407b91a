package queue_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/queue"
	"offstage/queue/bridge"
	"offstage/tasks"
)

func TestQueue_Queues(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	if infos, err := q.Queues(t.Context()); err != nil || infos == nil || len(infos) != 0 {
		t.Errorf("Queues of nothing = %#v, %v, want an empty list", infos, err)
	}
	gone := enqueue(t, q, tasks.Spec{Type: "x", Owner: "ada", Queue: "mails"}).ID
	enqueue(t, q, tasks.Spec{Type: "x", Owner: "ada", Queue: "mails", Delay: time.Hour})
	enqueue(t, q, tasks.Spec{Type: "x", Owner: "ada", Queue: "mails"})
	enqueue(t, q, noop())
	cancel(t, q, gone)
	infos, err := q.Queues(t.Context())
	if err != nil || len(infos) != 2 || infos[0].Name != "default" || infos[1].Name != "mails" {
		t.Fatalf("Queues = %+v, %v", infos, err)
	}
	want := map[tasks.Status]int64{"scheduled": 1, "pending": 1, "running": 0, "retrying": 0, "completed": 0, "failed": 0, "cancelled": 1}
	if diff := cmp.Diff(want, infos[1].Counts); diff != "" || infos[1].Paused {
		t.Errorf("mails (-want +got):\n%s", diff)
	}
	time.Sleep(20 * time.Millisecond)
	one, err := q.Queue(t.Context(), "mails")
	if err != nil || one.Backlog < 1 || time.Duration(one.OldestPendingAge) < 20*time.Millisecond || time.Duration(one.OldestPendingAge) > time.Minute {
		t.Errorf("Queue = %+v, %v", one, err)
	}
	b, _ := json.Marshal(queue.Info{Name: "q", Counts: map[tasks.Status]int64{"pending": 1}, Backlog: 1, OldestPendingAge: tasks.Duration(time.Second)})
	if got := `{"name":"q","paused":false,"counts":{"pending":1},"backlog":1,"oldest_pending_age":"1s"}`; string(b) != got {
		t.Errorf("Info in JSON is %s", b)
	}
	for _, name := range []string{"nowhere", "", "}{"} {
		if got, err := q.Queue(t.Context(), name); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("Queue(%q) = %+v, %v, want ErrNotFound", name, got, err)
		}
	}
}

func TestQueue_Pause(t *testing.T) {
	t.Parallel()
	url := server.FreshDB(t)
	q, _ := open(t, url)
	first := enqueue(t, q, noop()).ID
	for range 2 { // twice is no error
		if err := q.Pause(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
	}
	asynqs := inspect(t, url)
	if info, err := asynqs.GetQueueInfo("default"); err != nil || !info.Paused {
		t.Errorf("asynq shows %+v, %v, want a paused queue", info, err)
	}
	serve(t, q, func(*bridge.Attempt) bridge.End { return bridge.End{Outcome: bridge.Completed} })
	second := enqueue(t, q, noop()).ID // a paused queue takes tasks
	time.Sleep(200 * time.Millisecond)
	info, err := q.Queue(t.Context(), "default")
	if err != nil || !info.Paused || info.Counts[tasks.Pending] != 2 {
		t.Fatalf("paused: %+v, %v, want two pending tasks", info, err)
	}
	for range 2 {
		if err := q.Resume(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
	}
	reaches(t, q, first, tasks.Completed)
	reaches(t, q, second, tasks.Completed)
	for _, name := range []string{"nowhere", "a}b"} {
		if err := errors.Join(q.Pause(t.Context(), name), q.Resume(t.Context(), name)); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("Pause and Resume of %q: %v, want ErrNotFound", name, err)
		}
	}
}

// TestQueue_Workers: a worker of several queues is one worker, and a silent one disappears.
func TestQueue_Workers(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	enqueue(t, q, noop())
	enqueue(t, q, tasks.Spec{Type: "x", Owner: "ada", Queue: "mails"})
	began := tasks.At(time.Now().Add(-time.Minute))
	beat := func(queueName, id string, info any, life time.Duration) {
		b, err := json.Marshal(info)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Store().Beat(t.Context(), queueName, id, b, life, nil); err != nil {
			t.Fatal(err)
		}
	}
	w := queue.WorkerInfo{ID: "w1", Host: "h", PID: 7, Version: "v1", Queues: map[string]int{"default": 2, "mails": 1},
		Concurrency: 10, Running: 3, Draining: true, StartedAt: began}
	beat("default", "w1", w, time.Minute)
	beat("mails", "w1", w, time.Minute)
	beat("mails", "w2", queue.WorkerInfo{ID: "w2", StartedAt: tasks.At(time.Now())}, time.Minute)
	beat("mails", "silent", queue.WorkerInfo{ID: "silent"}, time.Millisecond)
	beat("default", "damaged", "no worker", time.Minute)
	eventually(t, "the silent worker is gone", func() bool {
		workers, err := q.Workers(t.Context())
		return err == nil && len(workers) == 2
	})
	workers, err := q.Workers(t.Context())
	if err != nil || workers[0].ID != "w1" || workers[1].ID != "w2" {
		t.Fatalf("Workers = %+v, %v", workers, err)
	}
	if since := time.Since(workers[0].SeenAt.Time); since < -time.Second || since > 10*time.Second {
		t.Errorf("w1 was seen %v ago", since)
	}
	workers[0].SeenAt = tasks.Time{}
	if diff := cmp.Diff(w, workers[0]); diff != "" {
		t.Errorf("w1 (-want +got):\n%s", diff)
	}
	if err := errors.Join(q.Store().Leave(t.Context(), "mails", "w2"), q.Store().Leave(t.Context(), "default", "w1")); err != nil {
		t.Fatal(err)
	}
	if workers, err = q.Workers(t.Context()); err != nil || len(workers) != 1 || workers[0].ID != "w1" {
		t.Errorf("after w2 left, and w1 one of its queues: %+v, %v", workers, err)
	}
}
