package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"offstage/internal/redistest"
	"offstage/queue"
	"offstage/queue/bridge"
	"offstage/tasks"
)

func refused(t *testing.T, q *queue.Queue, spec tasks.Spec, want error) {
	t.Helper()
	if task, created, err := q.Enqueue(t.Context(), spec); !errors.Is(err, want) || task != nil || created {
		t.Errorf("Enqueue(%s) = %+v, created %v, %v, want %v", spec.Name, task, created, err, want)
	}
}

func TestQueue_Name(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	t.Run("Duplicate", func(t *testing.T) {
		first := enqueue(t, q, named("dup"))
		refused(t, q, named("dup"), tasks.ErrDuplicateName)
		spec := named("dup")
		spec.Queue = "other" // a name is the owner's, not the queue's
		refused(t, q, spec, tasks.ErrDuplicateName)
		if _, _, err := q.Enqueue(t.Context(), named("dup")); !strings.Contains(fmt.Sprint(err), first.ID) {
			t.Errorf("%v does not say who has the name", err)
		}
		enqueue(t, q, named("Dup"))
		enqueue(t, q, tasks.Spec{Type: "x", Owner: "bob", Name: "dup"})
	})
	t.Run("Reserved", func(t *testing.T) {
		for _, name := range tasks.ReservedNames() {
			refused(t, q, named(name), tasks.ErrReservedName)
		}
	})
	t.Run("AfterEnd", func(t *testing.T) {
		for range 3 {
			cancel(t, q, enqueue(t, q, named("again")).ID)
		}
	})
	t.Run("AfterDelete", func(t *testing.T) {
		for range 3 {
			id := enqueue(t, q, named("deleted")).ID
			cancel(t, q, id)
			if err := q.Delete(t.Context(), tasks.Ref{ID: id, Owner: "ada"}); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("Scheduled", func(t *testing.T) {
		spec := named("later")
		spec.Delay = time.Hour
		enqueue(t, q, spec)
		refused(t, q, named("later"), tasks.ErrDuplicateName)
	})
}

// TestQueue_NameWalls is promise P10: no choice of owner and name meets another owner's name.
func TestQueue_NameWalls(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	for _, pair := range [][2]string{{"a", "x}:name:y"}, {"a}:name:x", "y"}, {"a%7D", "y"}, {"a}", "y"}, {"{a}", "y"}, {"a b", "y"}, {"a+b", "y"}} {
		spec := tasks.Spec{Type: "x", Owner: pair[0], Name: pair[1]}
		if _, created, err := q.Enqueue(t.Context(), spec); err != nil || !created {
			t.Errorf("owner %q, name %q: created %v, %v", pair[0], pair[1], created, err)
		}
		refused(t, q, spec, tasks.ErrDuplicateName)
	}
}

// TestQueue_NameEnds: a name is free as soon as its task has ended, however it did.
func TestQueue_NameEnds(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	var outcome atomic.Value
	hold := make(chan struct{})
	serve(t, q, func(*bridge.Attempt) bridge.End {
		<-hold
		return bridge.End{Outcome: outcome.Load().(bridge.Outcome), Error: &tasks.Error{Kind: tasks.KindError, Message: "no"}}
	})
	for _, o := range []bridge.Outcome{bridge.Completed, bridge.Failed} {
		outcome.Store(o)
		id := enqueue(t, q, named("n")).ID
		reaches(t, q, id, tasks.Running)
		refused(t, q, named("n"), tasks.ErrDuplicateName)
		hold <- struct{}{}
		reaches(t, q, id, tasks.Status(o))
	}
	enqueue(t, q, named("n"))
	close(hold)
}

// TestQueue_NameRetry: a new run of a task takes its name again, and is refused when another task has it.
func TestQueue_NameRetry(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	first := enqueue(t, q, named("n")).ID
	cancel(t, q, first)
	second := enqueue(t, q, named("n")).ID
	if _, err := q.Retry(t.Context(), tasks.Ref{ID: first, Owner: "ada"}); !errors.Is(err, tasks.ErrDuplicateName) {
		t.Fatalf("Retry while %s has the name: %v, want ErrDuplicateName", second, err)
	}
	if got := get(t, q, first); got.Status != tasks.Cancelled {
		t.Errorf("the refused Retry left the task %s", got.Status)
	}
	cancel(t, q, second)
	if _, err := q.Retry(t.Context(), tasks.Ref{ID: first, Owner: "ada"}); err != nil {
		t.Fatalf("Retry: %v", err)
	}
	refused(t, q, named("n"), tasks.ErrDuplicateName)
	if _, err := q.Retry(t.Context(), tasks.Ref{ID: first, Owner: "ada"}); !errors.Is(err, tasks.ErrNotTerminated) {
		t.Errorf("Retry of a pending task: %v, want ErrNotTerminated", err)
	}
	refused(t, q, named("n"), tasks.ErrDuplicateName)
}

// TestQueue_NameRace: of two callers at once exactly one gets a name, a hundred times over.
func TestQueue_NameRace(t *testing.T) {
	t.Parallel()
	url := server.FreshDB(t)
	a, _ := open(t, url)
	b, _ := open(t, url)
	for i := range 100 {
		spec := named(fmt.Sprint("race ", i/2)) // every other time the name was used before
		var won, lost atomic.Int32
		var winner atomic.Value
		var wg sync.WaitGroup
		gun := make(chan struct{})
		for _, q := range []*queue.Queue{a, b} {
			wg.Go(func() {
				<-gun
				task, _, err := q.Enqueue(context.WithoutCancel(t.Context()), spec)
				switch {
				case err == nil:
					won.Add(1)
					winner.Store(task.ID)
				case errors.Is(err, tasks.ErrDuplicateName):
					lost.Add(1)
				default:
					t.Errorf("Enqueue: %v", err)
				}
			})
		}
		close(gun)
		wg.Wait()
		if won.Load() != 1 || lost.Load() != 1 {
			t.Fatalf("race %d: %d won, %d lost, want 1 of each", i, won.Load(), lost.Load())
		}
		cancel(t, a, winner.Load().(string))
	}
}

// TestQueue_NameFreedByFailure: a creation that Redis refuses after the name was taken gives the name back.
func TestQueue_NameFreedByFailure(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	q, seen := open(t, own.URL())
	set(t, own, []any{"ACL", "SETUSER", "default", "resetkeys", "~offstage:{o:*"})
	refused(t, q, named("n"), tasks.ErrUnavailable)
	results, err := q.EnqueueBatch(t.Context(), []tasks.Spec{named("m")})
	if err != nil || !errors.Is(results[0].Err, tasks.ErrUnavailable) {
		t.Errorf("EnqueueBatch = %+v, %v", results, err)
	}
	if n := seen.Get("commit task_create"); n != 2 {
		t.Errorf("%d failures of task_create counted, want 2", n)
	}
	set(t, own, []any{"ACL", "SETUSER", "default", "allkeys"})
	enqueue(t, q, named("n"))
	enqueue(t, q, named("m"))
}
