package queue_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/internal/redistest"
	"offstage/queue"
	"offstage/tasks"
)

// batch enqueues specs; each entry of the result must have exactly one of its fields.
func batch(t *testing.T, q *queue.Queue, specs []tasks.Spec) []queue.BatchResult {
	t.Helper()
	results, err := q.EnqueueBatch(t.Context(), specs)
	if err != nil || len(results) != len(specs) {
		t.Fatalf("EnqueueBatch of %d = %d results, %v", len(specs), len(results), err)
	}
	for i, r := range results {
		if (r.Task == nil) == (r.Err == nil) {
			t.Fatalf("result %d has a task and an error, or neither: %+v", i, r)
		}
	}
	return results
}

func TestQueue_EnqueueBatch(t *testing.T) {
	t.Parallel()
	url := server.FreshDB(t)
	q, seen := open(t, url)
	specs := make([]tasks.Spec, 1000)
	for i := range specs {
		specs[i] = tasks.Spec{Type: "noop", Owner: fmt.Sprint("owner", i%3), Payload: i, Queue: []string{"", "a", "b"}[i%3]}
		if i%10 == 9 {
			specs[i].Delay = time.Hour
		}
	}
	results := batch(t, q, specs)
	for i, r := range results {
		if r.Err != nil {
			t.Fatalf("task %d: %v", i, r.Err)
		}
		if want := fmt.Sprint(i); string(r.Task.Payload) != want || r.Task.Owner != specs[i].Owner {
			t.Fatalf("result %d is %+v", i, r.Task)
		}
		if i%97 == 0 {
			if diff := cmp.Diff(r.Task, get(t, q, r.Task.ID)); diff != "" {
				t.Errorf("the record of task %d differs (-said +is):\n%s", i, diff)
			}
		}
	}
	asynqs := inspect(t, url)
	for name, want := range map[string][2]int{"default": {300, 34}, "a": {300, 33}, "b": {300, 33}} {
		info, err := asynqs.GetQueueInfo(name)
		if err != nil || info.Pending+info.Scheduled != want[0]+want[1] {
			t.Errorf("queue %s: %+v, %v, want %d tasks", name, info, err, want[0]+want[1])
		}
	}
	if n := count(t, q, queue.Filter{PageSize: 200}); n != 1000 || seen.Get("enqueued") != 1000 {
		t.Errorf("%d tasks listed, %d counted as enqueued, want 1000", n, seen.Get("enqueued"))
	}
	if results := batch(t, q, nil); len(results) != 0 {
		t.Errorf("an empty batch gave %+v", results)
	}
}

// TestQueue_EnqueueBatchMixed: each task stands and falls alone, and they meet each other as they would one by one.
func TestQueue_EnqueueBatchMixed(t *testing.T) {
	t.Parallel()
	q, seen := open(t, server.FreshDB(t))
	parent := enqueue(t, q, noop()).ID
	cancel(t, q, parent)
	before := enqueue(t, q, keyed("before"))
	taken := enqueue(t, q, named("taken"))
	other := keyed("twice")
	other.Type = "other"
	results := batch(t, q, []tasks.Spec{
		0:  noop(),
		1:  {Owner: "ada"},
		2:  named("taken"),
		3:  named("dup"),
		4:  named("dup"),
		5:  keyed("before"),
		6:  keyed("twice"),
		7:  keyed("twice"),
		8:  other,
		9:  {Type: "x", Owner: "ada", Parent: &tasks.Parent{TaskID: parent}},
		10: {Type: "x", Owner: "bob", Name: "dup"},
		11: {Type: "x", Owner: "ada", Name: "both", IdempotencyKey: "both"},
		12: {Type: "x", Owner: "ada", Name: "both", IdempotencyKey: "both"},
		13: {Type: "x", Owner: "ada", Name: "self"},
		14: noop(),
	})
	for i, want := range map[int]error{
		1: tasks.ErrInvalid, 2: tasks.ErrDuplicateName, 4: tasks.ErrDuplicateName, 8: tasks.ErrIdempotencyMismatch,
		9: tasks.ErrParentCancelled, 13: tasks.ErrReservedName,
	} {
		if !errors.Is(results[i].Err, want) {
			t.Errorf("result %d: %+v, want %v", i, results[i], want)
		}
	}
	ids := map[int]string{}
	for _, i := range []int{0, 3, 5, 6, 7, 10, 11, 12, 14} {
		if results[i].Err != nil {
			t.Fatalf("result %d: %v", i, results[i].Err)
		}
		ids[i] = results[i].Task.ID
	}
	if ids[5] != before.ID || ids[6] != ids[7] || ids[11] != ids[12] || ids[0] == ids[14] {
		t.Errorf("the wrong tasks came back: %v", ids)
	}
	// 3 before, then 0 3 6 10 11 14.
	if n := count(t, q, queue.Filter{}); n != 9 || seen.Get("enqueued") != 9 {
		t.Errorf("%d tasks, %d counted, want 9", n, seen.Get("enqueued"))
	}
	cancel(t, q, taken.ID)
	enqueue(t, q, named("taken"))
}

// TestQueue_EnqueueBatchRefused: a Redis that takes nothing is told for each task, and holds no name.
func TestQueue_EnqueueBatchRefused(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	q, seen := open(t, own.URL())
	enqueue(t, q, noop())
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			set(t, own, f.set)
			before := seen.Get("commit task_create")
			for i, r := range batch(t, q, []tasks.Spec{noop(), named("n"), {Type: "noop", Owner: "ada", Queue: "new"}}) {
				if !errors.Is(r.Err, tasks.ErrUnavailable) {
					t.Errorf("result %d: %+v, want ErrUnavailable", i, r)
				}
			}
			if n := seen.Get("commit task_create") - before; n != 3 {
				t.Errorf("%d failures of task_create counted, want 3", n)
			}
			set(t, own, f.heal)
			cancel(t, q, enqueue(t, q, named("n")).ID)
		})
	}
	if n := count(t, q, queue.Filter{}); n != 1+len(faults()) {
		t.Errorf("%d tasks, want %d", n, 1+len(faults()))
	}
}
