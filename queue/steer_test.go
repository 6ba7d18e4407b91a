package queue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"offstage/queue"
	"offstage/queue/bridge"
	"offstage/tasks"
)

// TestQueue_Cancel is promise P6 for tasks that no worker has: they are cancelled when Cancel returns. Running ones are
// the worker's business, see TestWorker_Cancel.
func TestQueue_Cancel(t *testing.T) {
	t.Parallel()
	url := server.FreshDB(t)
	q, seen := open(t, url)
	scheduled := tasks.Spec{Type: "x", Owner: "ada", Delay: time.Hour}
	for want, spec := range map[tasks.Status]tasks.Spec{tasks.Pending: noop(), tasks.Scheduled: scheduled} {
		id := enqueue(t, q, spec).ID
		long := strings.Repeat("why\x00 ", 5000)
		changes, err := q.Cancel(t.Context(), tasks.Ref{ID: id, Owner: "ada"}, queue.CancelRequest{By: "me\n\x1b", Reason: long})
		if err != nil || len(changes) != 1 || changes[0] != (tasks.Change{ID: id, From: want, To: tasks.Cancelled}) {
			t.Fatalf("Cancel = %+v, %v, want one change from %s", changes, err, want)
		}
		got := get(t, q, id)
		if got.Status != tasks.Cancelled || got.Cancel.By != "me\n\uFFFD" || got.Cancel.Reason != tasks.CleanMessage(long) ||
			got.CompletedAt.IsZero() || got.Error != nil || got.Attempt != 0 || got.Version != 2 {
			t.Errorf("after Cancel: %+v, cancel %+v", got, got.Cancel)
		}
		if d := got.ExpiresAt.Sub(got.CompletedAt.Time); d != 24*time.Hour {
			t.Errorf("it expires after %v, want its retention of 24h", d)
		}
		again, err := q.Cancel(t.Context(), tasks.Ref{ID: id}, queue.CancelRequest{By: "you"})
		if err != nil || len(again) != 0 || get(t, q, id).Cancel.By != got.Cancel.By || get(t, q, id).Version != 2 {
			t.Errorf("second Cancel = %+v, %v, want nothing", again, err)
		}
		info, err := inspect(t, url).GetTaskInfo("default", id)
		if err != nil || info.State.String() != "archived" || !strings.HasPrefix(info.LastErr, "cancelled: why") {
			t.Errorf("asynq shows %+v, %v", info, err)
		}
	}
	if seen.Get("cancel task") != 2 || seen.Get("finished cancelled") != 2 || seen.Get("cancel latency") != 2 {
		t.Errorf("counted %v", seen.All())
	}
}

func TestQueue_Retry(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	id := enqueue(t, q, tasks.Spec{Type: "x", Owner: "ada", Retention: time.Minute, MaxRetries: new(2)}).ID
	ref := tasks.Ref{ID: id, Owner: "ada"}
	if _, err := q.Retry(t.Context(), ref); !errors.Is(err, tasks.ErrNotTerminated) {
		t.Errorf("Retry of a pending task: %v, want ErrNotTerminated", err)
	}
	cancel(t, q, id)
	got, err := q.Retry(t.Context(), ref)
	if err != nil || got.Status != tasks.Pending || got.Cancel != nil || !got.CompletedAt.IsZero() || !got.ExpiresAt.IsZero() || got.Version != 3 {
		t.Fatalf("Retry = %+v, %v", got, err)
	}
	info, err := q.Queue(t.Context(), "default")
	if err != nil || info.Counts[tasks.Pending] != 1 || info.Counts[tasks.Cancelled] != 0 {
		t.Errorf("queue: %+v, %v", info, err)
	}
	ran := make(chan int, 10)
	serve(t, q, func(a *bridge.Attempt) bridge.End {
		ran <- a.Task.Attempt
		return bridge.End{Outcome: bridge.Completed}
	})
	reaches(t, q, id, tasks.Completed)
	if n := len(ran); n != 1 {
		t.Errorf("%d attempts ran, want 1: the cancelled entry counts too", n)
	}
	_, err = q.Retry(t.Context(), ref)
	if ended, ok := errors.AsType[*tasks.TerminatedError](err); !ok || ended.Status != tasks.Completed || !errors.Is(err, tasks.ErrTerminated) {
		t.Errorf("Retry of a completed task: %v, want a TerminatedError", err)
	}
}

func TestQueue_Delete(t *testing.T) {
	t.Parallel()
	url := server.FreshDB(t)
	q, _ := open(t, url)
	id := enqueue(t, q, tasks.Spec{Type: "x", Owner: "ada", Name: "n", IdempotencyKey: "k"}).ID
	ref := tasks.Ref{ID: id, Owner: "ada"}
	if err := q.Delete(t.Context(), ref); !errors.Is(err, tasks.ErrNotTerminated) {
		t.Errorf("Delete of a pending task: %v, want ErrNotTerminated", err)
	}
	cancel(t, q, id)
	if err := q.Delete(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if err := q.Delete(t.Context(), ref); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("second Delete: %v, want ErrNotFound", err)
	}
	if _, err := q.Get(t.Context(), ref); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("Get after Delete: %v", err)
	}
	if n := count(t, q, queue.Filter{}) + count(t, q, queue.Filter{Owner: "ada"}); n != 0 {
		t.Errorf("%d tasks listed", n)
	}
	if _, err := inspect(t, url).GetTaskInfo("default", id); err == nil {
		t.Error("asynq has it still")
	}
	info, err := q.Queue(t.Context(), "default")
	for s, n := range info.Counts {
		if n != 0 || err != nil {
			t.Errorf("%d tasks counted as %s", n, s)
		}
	}
}

// TestQueue_Retention: a task is removed when its retention is over, and everything that names it with it.
func TestQueue_Retention(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	id := enqueue(t, q, tasks.Spec{Type: "x", Owner: "ada", Retention: time.Second}).ID
	kept := enqueue(t, q, tasks.Spec{Type: "x", Owner: "ada", Retention: time.Minute}).ID
	cancel(t, q, id)
	cancel(t, q, kept)
	eventually(t, "purge removes the task", func() bool {
		if _, err := q.Store().Purge(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		_, err := q.Get(t.Context(), tasks.Ref{ID: id})
		return errors.Is(err, tasks.ErrNotFound)
	})
	if all := listAll(t, q, queue.Filter{Owner: "ada"}); len(all) != 1 || all[0].ID != kept {
		t.Errorf("listed: %+v, want only the task that is kept", all)
	}
}
