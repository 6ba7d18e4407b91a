package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"offstage/queue"
	"offstage/tasks"
)

// TestQueue_Handle: handles count from 0 for each owner and queue, are never used again, and stand wherever an id does.
func TestQueue_Handle(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	next := func(owner, name string) *tasks.Task {
		return enqueue(t, q, tasks.Spec{Type: "x", Owner: owner, Queue: name, Delay: time.Hour})
	}
	want := []struct{ owner, queue, handle string }{
		{"ada", "", "bg_0"}, {"ada", "default", "bg_1"}, {"bob", "", "bg_0"}, {"ada", "mails", "mails_0"}, {"ada", "a_1", "a_1_0"},
		{"bob", "mails", "mails_0"}, {"ada", "mails", "mails_1"}, {"ada", "", "bg_2"}, {"ada", "a_1", "a_1_1"},
	}
	ids := map[string]string{}
	for _, w := range want {
		got := next(w.owner, w.queue)
		if got.Handle != w.handle {
			t.Errorf("the next of %s in %q is %s, want %s", w.owner, w.queue, got.Handle, w.handle)
		}
		ids[w.owner+" "+w.handle] = got.ID
	}
	for _, w := range want {
		got, err := q.Get(t.Context(), tasks.Ref{ID: w.handle, Owner: w.owner})
		if err != nil || got.ID != ids[w.owner+" "+w.handle] {
			t.Errorf("Get(%s of %s) = %+v, %v", w.handle, w.owner, got, err)
		}
	}
	t.Run("EveryCall", func(t *testing.T) {
		ref := tasks.Ref{ID: "bg_2", Owner: "ada"}
		changes, err := q.Cancel(t.Context(), ref, queue.CancelRequest{})
		if err != nil || len(changes) != 1 || changes[0].ID != ids["ada bg_2"] {
			t.Errorf("Cancel = %+v, %v, want the id in the change", changes, err)
		}
		if got, err := q.Retry(t.Context(), ref); err != nil || got.Handle != "bg_2" {
			t.Errorf("Retry = %+v, %v", got, err)
		}
		if got, err := q.Wait(t.Context(), ref, time.Millisecond); err != nil || got.Handle != "bg_2" {
			t.Errorf("Wait = %+v, %v", got, err)
		}
		if _, err := q.Output(t.Context(), ref, 0, 0, 0); err != nil {
			t.Errorf("Output: %v", err)
		}
		if events, err := q.Events(t.Context(), ref, 0, 0); err != nil || len(events) == 0 {
			t.Errorf("Events = %+v, %v", events, err)
		}
	})
	t.Run("NeverAgain", func(t *testing.T) {
		ref := tasks.Ref{ID: "bg_2", Owner: "ada"}
		cancel(t, q, ids["ada bg_2"])
		if err := q.Delete(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Get(t.Context(), ref); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("the handle of a deleted task: %v", err)
		}
		if got := next("ada", ""); got.Handle != "bg_3" {
			t.Errorf("after bg_2 was deleted comes %s, want bg_3", got.Handle)
		}
	})
}

// TestQueue_HandleRefused: a handle says nothing without its owner, and nobody else's task.
func TestQueue_HandleRefused(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	enqueue(t, q, noop())
	calls := map[string]func(tasks.Ref) error{
		"Get":    func(r tasks.Ref) error { _, err := q.Get(t.Context(), r); return err },
		"Cancel": func(r tasks.Ref) error { _, err := q.Cancel(t.Context(), r, queue.CancelRequest{}); return err },
		"Retry":  func(r tasks.Ref) error { _, err := q.Retry(t.Context(), r); return err },
		"Delete": func(r tasks.Ref) error { return q.Delete(t.Context(), r) },
		"Wait":   func(r tasks.Ref) error { _, err := q.Wait(t.Context(), r, time.Second); return err },
		"Output": func(r tasks.Ref) error { _, err := q.Output(t.Context(), r, 0, 0, time.Second); return err },
		"Events": func(r tasks.Ref) error { _, err := q.Events(t.Context(), r, 0, 0); return err },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := call(tasks.Ref{ID: "bg_0"}); !errors.Is(err, tasks.ErrInvalid) || !slices.Equal([]string{"owner"}, fieldOf(err)) {
				t.Errorf("without an owner: %v, want ErrInvalid that names owner", err)
			}
			for _, ref := range []tasks.Ref{
				{ID: "bg_0", Owner: "bob"}, {ID: "bg_1", Owner: "ada"}, {ID: "mails_0", Owner: "ada"}, {ID: "bg_00", Owner: "ada"},
				{ID: "bg_-1", Owner: "ada"}, {ID: "bg_9223372036854775808", Owner: "ada"}, {ID: "bg_", Owner: "ada"}, {ID: "_0", Owner: "ada"},
				{ID: "}{_0", Owner: "ada"}, {ID: "a.b_0", Owner: "ada"}, {ID: "", Owner: "ada"}, {ID: "default.", Owner: "ada"},
				{ID: "default.01k00000000000000000000000", Owner: "ada"}, {ID: "a{b.01k00000000000000000000000", Owner: "ada"},
			} {
				if err := call(ref); !errors.Is(err, tasks.ErrNotFound) || err.Error() != tasks.ErrNotFound.Error() {
					t.Errorf("%+v: %v, want the plain ErrNotFound", ref, err)
				}
			}
		})
	}
}

func fieldOf(err error) []string {
	if e, ok := errors.AsType[*tasks.InvalidError](err); ok {
		return []string{e.Field}
	}
	return []string{fmt.Sprint(err)}
}

// TestQueue_Walls is promise P10: somebody else's task looks exactly like an absent one, to every call.
func TestQueue_Walls(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	id := enqueue(t, q, noop()).ID
	ended := enqueue(t, q, noop()).ID
	cancel(t, q, ended)
	for _, id := range []string{id, ended} {
		foreign := tasks.Ref{ID: id, Owner: "bob"}
		errs := map[string]error{"Delete": q.Delete(t.Context(), foreign)}
		_, errs["Get"] = q.Get(t.Context(), foreign)
		_, errs["Cancel"] = q.Cancel(t.Context(), foreign, queue.CancelRequest{})
		_, errs["Retry"] = q.Retry(t.Context(), foreign)
		_, errs["Wait"] = q.Wait(t.Context(), foreign, time.Second)
		_, errs["Output"] = q.Output(t.Context(), foreign, 0, 0, time.Second)
		_, errs["Events"] = q.Events(t.Context(), foreign, 0, 0)
		for call, err := range errs {
			if !errors.Is(err, tasks.ErrNotFound) || err.Error() != tasks.ErrNotFound.Error() {
				t.Errorf("%s = %v, want the plain ErrNotFound", call, err)
			}
		}
	}
	if get(t, q, id).Status != tasks.Pending || get(t, q, ended).Status != tasks.Cancelled {
		t.Error("a stranger changed a task")
	}
}
