package bridge_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"offstage/queue/bridge"
	"offstage/tasks"
)

func TestStore_Create(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		c := f.creation(func(c *bridge.Creation) {
			c.Spec = bridge.Spec{
				Name: "n", Description: "d", Metadata: map[string]string{"k": "v"}, Parent: &tasks.Parent{RunID: "r"},
				Notify: &tasks.Notify{OnComplete: true}, Backoff: &tasks.Backoff{Base: tasks.Duration(time.Second)},
				MaxRetries: 2, TimeoutMS: 1500, DeadlineMS: time.Now().Add(time.Hour).UnixMilli(),
			}
		})
		if err := f.enqueue(c); err != nil {
			t.Fatal(err)
		}
		if c.Result.Handle != "low_0" || c.Result.Status != tasks.Pending || c.Result.Existing != "" {
			t.Errorf("result = %+v", c.Result)
		}
		got := f.want(c.ID, tasks.Pending)
		want := &tasks.Task{
			ID: c.ID, Handle: "low_0", Owner: "ann", Type: "mail", Queue: "low", Name: "n", Description: "d",
			Metadata: map[string]string{"k": "v"}, Status: tasks.Pending, MaxRetries: 2, Payload: []byte(payload),
			Parent: &tasks.Parent{RunID: "r"}, Notify: &tasks.Notify{OnComplete: true},
			Backoff: &tasks.Backoff{Base: tasks.Duration(time.Second)}, Timeout: tasks.Duration(1500 * time.Millisecond),
			Deadline: tasks.AtMilli(c.Spec.DeadlineMS), Retention: tasks.Duration(time.Hour), Version: 1,
			CreatedAt: c.Result.CreatedAt,
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("task (-want +got):\n%s", d)
		}
		if info := f.info(c.ID); string(info.Payload) != payload || info.MaxRetry != 3 {
			t.Errorf("asynq shows payload %s, max retry %d", info.Payload, info.MaxRetry)
		}
		if d := cmp.Diff([]tasks.EventKind{tasks.EventCreated}, f.kinds(c.ID)); d != "" {
			t.Error(d)
		}
	})
}

// Numbers count up per owner.
func TestStore_Create_Handles(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		for _, tc := range []struct{ owner, handle string }{
			{"ann", "low_0"}, {"ann", "low_1"}, {"bob", "low_0"}, {"ann", "low_2"}, {"a:b {c}", "low_0"},
		} {
			c := f.creation(func(c *bridge.Creation) { c.Owner = tc.owner })
			if err := f.enqueue(c); err != nil || c.Result.Handle != tc.handle {
				t.Errorf("create for %q = %q, %v, want %q", tc.owner, c.Result.Handle, err, tc.handle)
			}
			_, n, _ := bridge.ParseHandle(c.Result.Handle)
			if id, err := f.store.ByHandle(f.ctx(), f.queue, tc.owner, n); err != nil || id != c.ID {
				t.Errorf("ByHandle(%q, %d) = %q, %v, want %q", tc.owner, n, id, err, c.ID)
			}
		}
		if _, err := f.store.ByHandle(f.ctx(), f.queue, "ann", 3); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("ByHandle of a number not given yet = %v", err)
		}
	})
}

func TestStore_Create_Scheduled(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		c := f.creation(func(c *bridge.Creation) { c.RunAt = at })
		if err := f.enqueue(c); err != nil {
			t.Fatal(err)
		}
		if got := f.want(c.ID, tasks.Scheduled); !got.ScheduledAt.Equal(at) || !c.Result.DueAt.Equal(at) {
			t.Errorf("ScheduledAt %v, result %+v, want %v", got.ScheduledAt, c.Result, at)
		}
		d := f.creation(func(c *bridge.Creation) { c.Delay = time.Minute })
		if err := f.enqueue(d); err != nil {
			t.Fatal(err)
		}
		f.want(d.ID, tasks.Scheduled)
		if wait := d.Result.DueAt.Sub(d.Result.CreatedAt.Time); wait != time.Minute {
			t.Errorf("due %v after the creation, want a minute", wait)
		}
		past := f.creation(func(c *bridge.Creation) { c.RunAt = time.Now().Add(-time.Hour) })
		if err := f.enqueue(past); err != nil {
			t.Fatal(err)
		}
		if got := f.want(past.ID, tasks.Pending); !got.ScheduledAt.IsZero() {
			t.Errorf("ScheduledAt of a task that is not delayed = %v", got.ScheduledAt)
		}
	})
}

// 1 again: the reply was lost and the client sends the same creation again.
func TestStore_Create_ReplyLost(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		for name, edit := range map[string]func(*bridge.Creation){
			"pending":   func(*bridge.Creation) {},
			"scheduled": func(c *bridge.Creation) { c.Delay = time.Hour },
			"idempotent": func(c *bridge.Creation) {
				c.IdempotencyKey, c.RequestHash = "key", strings.Repeat("a", 64)
			},
		} {
			f.create() // the script is known to Redis, so that its own reply is lost, not NOSCRIPT
			c := f.creation(edit)
			f.wire.lose.Store(2)
			if err := f.enqueue(c); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if c.Result.Existing != "" || c.Result.Handle == "" || c.Result.CreatedAt.IsZero() {
				t.Errorf("%s: result %+v, want that of the first call", name, c.Result)
			}
			if got := f.get(c.ID); got.Handle != c.Result.Handle || !got.CreatedAt.Equal(c.Result.CreatedAt.Time) {
				t.Errorf("%s: result %+v, the task is %+v", name, c.Result, got)
			}
			f.check()
		}
		if n := len(f.seen.counts()); n != 0 {
			t.Errorf("counted %v, want nothing", f.seen.counts())
		}
	})
}

// When every reply is lost, the caller hears of it, and the counter too.
func TestStore_Create_Unavailable(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		f.create()
		f.wire.lose.Store(3)
		c := f.creation()
		err := f.enqueue(c)
		op := (*bridge.OpError)(nil)
		if !errors.Is(err, tasks.ErrUnavailable) || !errors.As(err, &op) || op.Op != bridge.OpCreate || op.Reason != bridge.ReasonUnavailable {
			t.Errorf("enqueue = %v, want %v", err, tasks.ErrUnavailable)
		}
		if d := cmp.Diff(map[string]int{"failed task_create unavailable": 1}, f.seen.counts()); d != "" {
			t.Errorf("counted (-want +got):\n%s", d)
		}
	})
}

// 2 and -2: the idempotency key is known, with the same request or another.
func TestStore_Create_Idempotent(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		with := func(owner, key, hash string) *bridge.Creation {
			return f.creation(func(c *bridge.Creation) {
				c.Owner, c.IdempotencyKey, c.RequestHash = owner, key, strings.Repeat(hash, 64)
			})
		}
		first := with("ann", "k", "a")
		if err := f.enqueue(first); err != nil {
			t.Fatal(err)
		}
		again := with("ann", "k", "a")
		if err := f.enqueue(again); err != nil || again.Result.Existing != first.ID {
			t.Errorf("the same again = %+v, %v, want existing %s", again.Result, err, first.ID)
		}
		if err := f.enqueue(with("ann", "k", "b")); !errors.Is(err, tasks.ErrIdempotencyMismatch) {
			t.Errorf("the key with another request = %v, want %v", err, tasks.ErrIdempotencyMismatch)
		}
		for _, c := range []*bridge.Creation{with("bob", "k", "b"), with("ann", "k2", "b")} {
			if err := f.enqueue(c); err != nil || c.Result.Existing != "" {
				t.Errorf("owner %s key %s = %+v, %v, want a task of its own", c.Owner, c.IdempotencyKey, c.Result, err)
			}
		}
		f.check()
		if n := len(f.takeAll(worker, 10)); n != 3 {
			t.Errorf("%d tasks are queued, want 3", n)
		}
		f.check()
	})
}

// 0: asynq has a task of that id, without a record.
func TestStore_Create_Taken(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		c := f.creation()
		f.plainTask(asynq.TaskID(c.ID))
		if err := f.enqueue(c); err == nil || !strings.Contains(err.Error(), c.ID) {
			t.Errorf("create = %v, want an error that names the id", err)
		}
		if _, err := f.store.Get(f.ctx(), c.ID); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("Get = %v, want %v", err, tasks.ErrNotFound)
		}
		if info := f.info(c.ID); info.Type != "plain" {
			t.Errorf("asynq's task is of type %s now", info.Type)
		}
	})
}

// Held creations are sent together, each with its own outcome.
func TestStore_CreateAll(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		hash := strings.Repeat("a", 64)
		held := func(edit ...func(*bridge.Creation)) *bridge.Creation {
			c := f.creation(edit...)
			c.Hold = true
			if err := f.enqueue(c); err != nil {
				t.Fatal(err)
			}
			return c
		}
		keyed := func(hash string) func(*bridge.Creation) {
			return func(c *bridge.Creation) { c.IdempotencyKey, c.RequestHash = "k", hash }
		}
		cs := []*bridge.Creation{
			held(), held(keyed(hash)), held(keyed(hash)), held(keyed(strings.Repeat("b", 64))),
			held(func(c *bridge.Creation) { c.Delay = time.Hour }),
		}
		if _, err := f.store.Get(f.ctx(), cs[0].ID); !errors.Is(err, tasks.ErrNotFound) {
			t.Fatalf("a held creation is there before it is sent: %v", err)
		}
		errs := f.store.CreateAll(f.ctx(), cs)
		var got []string
		for i, c := range cs {
			got = append(got, fmt.Sprint(c.Result.Status, " ", c.Result.Existing == cs[1].ID, " ", errs[i]))
		}
		want := []string{
			"pending false <nil>", "pending false <nil>", " true <nil>",
			" false " + tasks.ErrIdempotencyMismatch.Error(), "scheduled false <nil>",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("status, existing, error (-want +got):\n%s", d)
		}
		f.check()
		if n := len(f.store.CreateAll(f.ctx(), nil)); n != 0 {
			t.Errorf("CreateAll of none gave %d errors", n)
		}
	})
}

// Creations whose replies were lost are sent again, alone; the others are not.
func TestStore_CreateAll_ReplyLost(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		var cs []*bridge.Creation
		for range 20 {
			c := f.creation(func(c *bridge.Creation) { c.Hold = true })
			if err := f.enqueue(c); err != nil {
				t.Fatal(err)
			}
			cs = append(cs, c)
		}
		f.wire.lose.Store(7)
		for i, err := range f.store.CreateAll(f.ctx(), cs) {
			if err != nil || cs[i].Result.Status != tasks.Pending {
				t.Errorf("creation %d = %+v, %v", i, cs[i].Result, err)
			}
		}
		if n := len(f.takeAll(worker, 100)); n != 20 {
			t.Errorf("%d tasks are queued, want 20", n)
		}
	})
}
