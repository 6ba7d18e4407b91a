package worker_test

import (
	"context"
	"sync"
	"testing"

	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// drained runs all tasks of two queues, one at a time, and gives the queues in the order of their tasks.
func drained(t *testing.T, strict bool, weights map[string]int) []string {
	t.Helper()
	q, _ := open(t, server.FreshDB(t))
	const each = 150
	specs := make([]tasks.Spec, 0, 2*each)
	for range each {
		specs = append(specs, tasks.Spec{Type: "noop", Owner: "o", Queue: "low"}, tasks.Spec{Type: "noop", Owner: "o", Queue: "high"})
	}
	results, err := q.EnqueueBatch(t.Context(), specs)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []string
	start(t, q, worker.Config{Queues: weights, StrictPriority: strict, Concurrency: 1}, func(w *worker.Worker) {
		w.HandleRaw("noop", func(_ context.Context, j *worker.Job) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, j.Queue)
			return nil, nil
		})
	})
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if got := wait(t, q, r.Task.ID); got.Status != tasks.Completed {
			t.Fatalf("task: %+v", got)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return order
}

func highs(order []string) int {
	n := 0
	for _, name := range order {
		if name == "high" {
			n++
		}
	}
	return n
}

// TestWorker_Weights: a queue gets tasks run by its share, and no queue starves.
func TestWorker_Weights(t *testing.T) {
	t.Parallel()
	order := drained(t, false, map[string]int{"high": 4, "low": 1})
	// Four of five: 80 of the first 100, give or take five standard deviations.
	if n := highs(order[:100]); n < 60 || n == 100 {
		t.Errorf("%d of the first 100 tasks were of the queue with weight 4 of 5", n)
	}
	if len(order) != 300 {
		t.Errorf("%d bodies ran, want 300", len(order))
	}
}

// TestWorker_StrictPriority: a queue of smaller weight waits until the others are empty.
func TestWorker_StrictPriority(t *testing.T) {
	t.Parallel()
	order := drained(t, true, map[string]int{"high": 2, "low": 1})
	if n := highs(order[:150]); n != 150 {
		t.Errorf("%d of the first 150 tasks were of the queue with priority, want all", n)
	}
}

// TestWorker_PausedQueue: a paused queue holds up no other, and goes on where it stood.
func TestWorker_PausedQueue(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	add := func(name string) string { return enqueue(t, q, tasks.Spec{Type: "noop", Queue: name}).ID }
	held := add("held")
	if err := q.Pause(t.Context(), "held"); err != nil {
		t.Fatal(err)
	}
	start(t, q, worker.Config{Queues: map[string]int{"held": 10, "free": 1}, StrictPriority: true}, func(w *worker.Worker) {
		w.HandleRaw("noop", func(context.Context, *worker.Job) (any, error) { return nil, nil })
	})
	for range 20 {
		wait(t, q, add("free"))
	}
	if got := get(t, q, held); got.Status != tasks.Pending {
		t.Errorf("the task of the paused queue is %s", got.Status)
	}
	if _, err := q.Cancel(t.Context(), tasks.Ref{ID: add("held")}, queue.CancelRequest{}); err != nil {
		t.Errorf("Cancel in a paused queue: %v", err)
	}
	if err := q.Resume(t.Context(), "held"); err != nil {
		t.Fatal(err)
	}
	wait(t, q, held)
}
