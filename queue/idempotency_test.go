package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"offstage/queue"
	"offstage/tasks"
)

func keyed(key string) tasks.Spec {
	return tasks.Spec{Type: "mail", Owner: "ada", Payload: json.RawMessage(`{"a":1,"b":2}`), Metadata: map[string]string{"x": "1", "y": "2"},
		Delay: time.Hour, IdempotencyKey: key}
}

// TestQueue_EnqueueIdempotent: the same key and content give the same task, other content is refused.
func TestQueue_EnqueueIdempotent(t *testing.T) {
	t.Parallel()
	q, seen := open(t, server.FreshDB(t))
	first := enqueue(t, q, keyed("key"))
	same := func(t *testing.T, spec tasks.Spec, want tasks.Status) {
		t.Helper()
		got, created, err := q.Enqueue(t.Context(), spec)
		if err != nil || created || got.ID != first.ID || got.Handle != first.Handle || got.Status != want {
			t.Fatalf("Enqueue = %+v, created %v, %v, want the first task, %s", got, created, err, want)
		}
	}
	t.Run("Again", func(t *testing.T) { same(t, keyed("key"), tasks.Scheduled) })
	t.Run("Spelling", func(t *testing.T) {
		spec := keyed("key")
		spec.Payload = json.RawMessage(" {\"a\": 1,\n\"b\": 2} ")
		same(t, spec, tasks.Scheduled)
	})
	t.Run("OtherContent", func(t *testing.T) {
		changes := map[string]func(*tasks.Spec){
			"Payload": func(s *tasks.Spec) { s.Payload = json.RawMessage(`{"a":1}`) }, "Type": func(s *tasks.Spec) { s.Type = "other" },
			"Delay": func(s *tasks.Spec) { s.Delay = time.Minute }, "Name": func(s *tasks.Spec) { s.Name = "n" },
			"Retries": func(s *tasks.Spec) { s.MaxRetries = new(0) }, "Metadata": func(s *tasks.Spec) { s.Metadata = nil },
		}
		for name, change := range changes {
			spec := keyed("key")
			change(&spec)
			if _, _, err := q.Enqueue(t.Context(), spec); !errors.Is(err, tasks.ErrIdempotencyMismatch) {
				t.Errorf("%s changed: %v, want ErrIdempotencyMismatch", name, err)
			}
		}
	})
	t.Run("Elsewhere", func(t *testing.T) {
		for name, change := range map[string]func(*tasks.Spec){
			"Owner": func(s *tasks.Spec) { s.Owner = "bob" }, "Queue": func(s *tasks.Spec) { s.Queue = "other" },
			"Key": func(s *tasks.Spec) { s.IdempotencyKey = "Key" }, "NoKey": func(s *tasks.Spec) { s.IdempotencyKey = "" },
		} {
			spec := keyed("key")
			change(&spec)
			if got := enqueue(t, q, spec); got.ID == first.ID {
				t.Errorf("%s: the first task came back", name)
			}
		}
	})
	t.Run("Ended", func(t *testing.T) {
		cancel(t, q, first.ID)
		same(t, keyed("key"), tasks.Cancelled)
	})
	if n := seen.Get("enqueued"); n != 5 {
		t.Errorf("%d tasks counted as enqueued, want 5", n)
	}
}

// TestQueue_EnqueueIdempotentWalls is promise P10: no choice of owner and key meets another owner's key.
func TestQueue_EnqueueIdempotentWalls(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	seen := map[string]bool{}
	for _, pair := range [][2]string{{"a", "b:c"}, {"a:b", "c"}, {"a", "1:b:c"}, {"a:1:b", "c"}, {"a%3Ab", "c"}, {"a", "b%3Ac"}} {
		spec := tasks.Spec{Type: "x", Owner: pair[0], IdempotencyKey: pair[1]}
		got, created, err := q.Enqueue(t.Context(), spec)
		if err != nil || !created || seen[got.ID] {
			t.Errorf("owner %q, key %q: %+v, created %v, %v", pair[0], pair[1], got, created, err)
			continue
		}
		seen[got.ID] = true
		if again, created, err := q.Enqueue(t.Context(), spec); err != nil || created || again.ID != got.ID {
			t.Errorf("owner %q, key %q, again: %+v, created %v, %v", pair[0], pair[1], again, created, err)
		}
	}
}

// TestQueue_EnqueueIdempotentRace: of 20 callers at once, one creates the task and all get it.
func TestQueue_EnqueueIdempotentRace(t *testing.T) {
	t.Parallel()
	url := server.FreshDB(t)
	q, _ := open(t, url)
	other, _ := open(t, url)
	for _, spec := range []tasks.Spec{keyed("plain"), {Type: "mail", Owner: "ada", Name: "n", IdempotencyKey: "named"}} {
		ids, created := race(t, 20, func(i int) (*tasks.Task, bool, error) {
			from := q
			if i%2 == 1 {
				from = other
			}
			return from.Enqueue(context.WithoutCancel(t.Context()), spec)
		})
		if len(ids) != 1 || created != 1 {
			t.Errorf("key %s: %d tasks, %d created, want 1 of each", spec.IdempotencyKey, len(ids), created)
		}
	}
	if n := count(t, q, queue.Filter{}); n != 2 {
		t.Errorf("%d tasks, want 2", n)
	}
}

// race calls from n goroutines at once, without an error; it gives the ids returned and how many were created.
func race(t *testing.T, n int, call func(int) (*tasks.Task, bool, error)) (ids map[string]int, created int) {
	t.Helper()
	ids = map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	gun := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gun
			task, made, err := call(i)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
				return
			}
			ids[task.ID]++
			if made {
				created++
			}
		})
	}
	close(gun)
	wg.Wait()
	return ids, created
}

// TestQueue_EnqueueIdempotentNamed: the name that the task itself holds is no reason to refuse the same call.
func TestQueue_EnqueueIdempotentNamed(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	spec := tasks.Spec{Type: "x", Owner: "ada", Name: "n", IdempotencyKey: "key"}
	first := enqueue(t, q, spec)
	again, created, err := q.Enqueue(t.Context(), spec)
	if err != nil || created || again.ID != first.ID {
		t.Fatalf("the same call while the task lives: %+v, created %v, %v", again, created, err)
	}
	other := spec
	other.Type = "y"
	if _, _, err := q.Enqueue(t.Context(), other); !errors.Is(err, tasks.ErrIdempotencyMismatch) {
		t.Errorf("other content: %v, want ErrIdempotencyMismatch", err)
	}
	cancel(t, q, first.ID)
	second := enqueue(t, q, named("n"))
	again, created, err = q.Enqueue(t.Context(), spec)
	if err != nil || created || again.ID != first.ID {
		t.Errorf("the same call after another task took the name: %+v, created %v, %v", again, created, err)
	}
	if _, _, err := q.Enqueue(t.Context(), named("n")); !errors.Is(err, tasks.ErrDuplicateName) {
		t.Errorf("the name of %s was lost: %v", second.ID, err)
	}
	// A key that is new does not get around a name.
	if _, _, err := q.Enqueue(t.Context(), tasks.Spec{Type: "x", Owner: "ada", Name: "n", IdempotencyKey: "new"}); !errors.Is(err, tasks.ErrDuplicateName) {
		t.Errorf("a new key with the name in use: %v", err)
	}
}

// TestQueue_EnqueueIdempotentDeleted: a key whose task is gone does not run the work a second time.
func TestQueue_EnqueueIdempotentDeleted(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	id := enqueue(t, q, keyed("key")).ID
	cancel(t, q, id)
	if err := q.Delete(t.Context(), tasks.Ref{ID: id}); err != nil {
		t.Fatal(err)
	}
	if task, created, err := q.Enqueue(t.Context(), keyed("key")); created || !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("Enqueue = %+v, created %v, %v, want ErrNotFound", task, created, err)
	}
}
