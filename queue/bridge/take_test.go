package bridge_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"offstage/queue/bridge"
	"offstage/tasks"
)

func TestStore_Take(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		id := f.create(func(c *bridge.Creation) { c.Spec.TimeoutMS = 1500 })
		before := time.Now()
		a := f.take()
		task := f.want(id, tasks.Running)
		if a.Task.ID != id || a.Epoch != a.Began.UnixMilli() || a.Tries != 0 || a.Written != 0 || string(a.Payload) != payload || string(a.Task.Payload) != payload {
			t.Errorf("attempt = %+v of %+v", a, a.Task)
		}
		if a.Task.Status != tasks.Running || a.Task.Attempt != 1 || a.Task.Worker != worker || a.Task.Version != 2 {
			t.Errorf("the attempt's task = %+v", a.Task)
		}
		if a.Waited < 0 || a.Waited > time.Minute || a.Began.Sub(before).Abs() > time.Minute {
			t.Errorf("waited %v, began %v", a.Waited, a.Began)
		}
		if task.Attempt != 1 || task.Worker != worker || task.StartedAt.UnixMilli() != a.Began.UnixMilli() {
			t.Errorf("record = %+v, attempt began at %v", task, a.Began)
		}
		if d := cmp.Diff([]tasks.EventKind{tasks.EventCreated, tasks.EventRunning}, f.kinds(id)); d != "" {
			t.Error(d)
		}
		if got := f.takeAll(worker, 10); len(got) != 0 {
			t.Errorf("it was taken twice: %+v", got[0])
		}
	})
}

// Many at once, oldest first, and no more than asked for.
func TestStore_Take_Many(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		var want []string
		for range 7 {
			want = append(want, f.create())
		}
		var got []string
		for _, n := range []int{3, 10, 10} {
			for _, a := range f.takeAll(worker, n) {
				got = append(got, a.Task.ID)
			}
			if n == 3 && len(got) != 3 {
				t.Errorf("Take(3) gave %d", len(got))
			}
			f.check()
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("order (-want +got):\n%s", d)
		}
	})
}

func TestStore_Take_Paused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		id := f.create()
		for range 2 {
			if err := f.store.SetPaused(f.ctx(), f.queue, true); err != nil {
				t.Fatal(err)
			}
		}
		if got := f.takeAll(worker, 10); len(got) != 0 {
			t.Errorf("a paused queue gave %+v", got[0])
		}
		f.want(id, tasks.Pending)
		for range 2 {
			if err := f.store.SetPaused(f.ctx(), f.queue, false); err != nil {
				t.Fatal(err)
			}
		}
		if a := f.take(); a.Task.ID != id {
			t.Errorf("took %s, want %s", a.Task.ID, id)
		}
	})
}

// A cancelled task's entry is left in the list; take drops it in passing.
func TestStore_Take_Tombstone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		var dead []string
		for range 5 {
			dead = append(dead, f.create())
		}
		id := f.create()
		for i := range dead { // the newest first: none comes to the list's end before its turn
			f.cancel(dead[len(dead)-1-i])
		}
		if a := f.take(); a.Task.ID != id {
			t.Errorf("took %s, want %s", a.Task.ID, id)
		}
		for _, d := range dead {
			f.want(d, tasks.Cancelled)
		}
		if n := f.rdb.LLen(f.ctx(), "asynq:{low}:pending").Val(); n != 0 {
			t.Errorf("%d entries are left in the list", n)
		}
	})
}

// However many tombstones there are in front, the task behind them is found, though a single script looks at a bounded
// number.
func TestStore_Take_ManyTombstones(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		first := f.create() // keeps the others from the list's end, where cancel would drop them
		var dead []string
		for range 450 {
			dead = append(dead, f.create())
		}
		id := f.create()
		for _, d := range append(dead, first) {
			f.cancel(d)
		}
		f.check()
		if a := f.take(); a.Task.ID != id {
			t.Errorf("took %s, want %s", a.Task.ID, id)
		}
	})
}

// Ids whose task is gone from asynq and from our records, from an operator's hand or a restored backup.
func TestStore_Take_Ghost(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		for _, ghost := range []string{"a", "low.b", "c"} {
			f.rdb.LPush(f.ctx(), "asynq:{low}:pending", ghost)
		}
		id := f.create()
		if a := f.take(); a.Task.ID != id {
			t.Errorf("took %s, want %s", a.Task.ID, id)
		}
	})
}

// A record whose message is gone cannot run: it fails, visibly.
func TestStore_Take_LostMessage(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		id := f.create()
		f.rdb.Del(f.ctx(), "asynq:{low}:t:"+id)
		if got := f.takeAll(worker, 1); len(got) != 0 {
			t.Errorf("took %+v", got[0])
		}
		task := f.get(id)
		if task.Status != tasks.Failed || task.Error == nil || task.Error.Kind != tasks.KindLost {
			t.Errorf("task = %s %+v, want failed with kind lost", task.Status, task.Error)
		}
		events, err := f.store.Events(f.ctx(), id, 0, 10)
		if err != nil || len(events) != 2 || events[1].Error == nil || events[1].Error.Kind != tasks.KindLost {
			t.Errorf("events = %+v, %v", events, err)
		}
	})
}

func TestStore_Take_Expired(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		soon := time.Now().Add(20 * time.Millisecond)
		id := f.create(func(c *bridge.Creation) { c.Spec.DeadlineMS = soon.UnixMilli() })
		later := f.create(func(c *bridge.Creation) { c.Spec.DeadlineMS = time.Now().Add(time.Hour).UnixMilli() })
		time.Sleep(time.Until(soon) + 30*time.Millisecond)
		if a := f.take(); a.Task.ID != later {
			t.Errorf("took %s, want %s", a.Task.ID, later)
		}
		task := f.want(id, tasks.Failed)
		if task.Error == nil || task.Error.Kind != tasks.KindExpired || task.Error.Retryable {
			t.Errorf("error = %+v, want kind expired", task.Error)
		}
		if task.Attempt != 0 || !task.StartedAt.IsZero() {
			t.Errorf("it started: %+v", task)
		}
	})
}

// A task of a plain asynq producer gets its record when it is taken.
func TestStore_Take_Adopted(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		deadline := time.Now().Add(time.Hour).Truncate(time.Second)
		info, err := f.plain.Enqueue(
			asynq.NewTaskWithHeaders("plain", []byte(payload), map[string]string{"offstage-owner": "carl", "trace": "1"}),
			asynq.Queue(f.queue), asynq.MaxRetry(7), asynq.Timeout(90*time.Second), asynq.Deadline(deadline),
			asynq.Retention(2*time.Hour), asynq.TaskID("9b2e4a4e-0d49-4a3c-9d1f-0a6d1c1f3c11"))
		if err != nil {
			t.Fatal(err)
		}
		id := "low." + info.ID
		a := f.take()
		task := f.want(id, tasks.Running)
		want := &tasks.Task{
			ID: id, Handle: "low_0", Owner: "carl", Type: "plain", Queue: "low", Status: tasks.Running, Attempt: 1,
			MaxRetries: 7, Payload: []byte(payload), Timeout: tasks.Duration(90 * time.Second),
			Deadline: tasks.At(deadline), Retention: tasks.Duration(2 * time.Hour), Worker: worker, Version: 1,
			CreatedAt: task.CreatedAt, StartedAt: task.StartedAt,
		}
		if d := cmp.Diff(want, task); d != "" {
			t.Errorf("record (-want +got):\n%s", d)
		}
		if d := cmp.Diff(want, a.Task); d != "" {
			t.Errorf("attempt's task (-want +got):\n%s", d)
		}
		if a.Epoch < a.Began.UnixMilli()-1000 || a.Headers["trace"] != "1" || string(a.Payload) != payload {
			t.Errorf("attempt = %+v", a)
		}
		f.end(a, bridge.End{Outcome: bridge.Completed, Result: []byte(`1`)})
		f.want(id, tasks.Completed)
	})
}

// Without the header, or with one that is no owner, the owner is asynq; without a retention it is the default.
func TestStore_Take_AdoptedDefaults(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		long := make([]byte, tasks.MaxOwnerBytes+1)
		for i := range long {
			long[i] = 'o'
		}
		for _, headers := range []map[string]string{nil, {"offstage-owner": ""}, {"offstage-owner": string(long)}} {
			if _, err := f.plain.Enqueue(asynq.NewTaskWithHeaders("plain", nil, headers), asynq.Queue(f.queue)); err != nil {
				t.Fatal(err)
			}
			a := f.take()
			if a.Task.Owner != "asynq" || time.Duration(a.Task.Retention) != tasks.DefaultLimits().Retention || a.Task.Payload != nil {
				t.Errorf("headers %v: adopted as %+v", headers, a.Task)
			}
		}
	})
}

// The adoption's reply was lost: the record that it made is used.
func TestStore_Take_AdoptedReplyLost(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		f.plainTask()
		f.take() // Redis knows both scripts now
		id := f.plainTask()
		f.wire.loseAfter(bridge.Scripts()["adopt"], 2)
		a := f.take()
		if a.Task.ID != id || a.Epoch <= 0 || a.Task.Attempt != 1 {
			t.Errorf("attempt = %+v of %+v", a, a.Task)
		}
		f.want(id, tasks.Running)
	})
}

// A payload that is not JSON is shown as text, and given to the handler as it is.
func TestStore_Take_BinaryPayload(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		raw := []byte{0, 0xff, '\r', '\n', 'x'}
		if _, err := f.plain.Enqueue(asynq.NewTask("plain", raw), asynq.Queue(f.queue)); err != nil {
			t.Fatal(err)
		}
		a := f.take()
		if string(a.Payload) != string(raw) || string(a.Task.Payload) != "\"\\u0000\ufffd\\r\\nx\"" {
			t.Errorf("payload = %q, shown %s", a.Payload, a.Task.Payload)
		}
	})
}

// A message that cannot be read must not stay on the active list for ever, nor keep those behind it from running.
func TestStore_Take_Undecodable(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		bad := f.create()
		f.rdb.HSet(f.ctx(), "asynq:{low}:t:"+bad, "msg", "\xff\xff\xff")
		foreign := f.plainTask()
		_, foreignID, _ := bridge.Locate(foreign)
		f.rdb.HSet(f.ctx(), "asynq:{low}:t:"+foreignID, "msg", "\xff\xff\xff")
		good := f.create()
		attempts, _, err := f.store.Take(f.ctx(), f.queue, worker, 10)
		if err != nil {
			t.Errorf("Take: %v", err)
		}
		if len(attempts) != 1 || attempts[0].Task.ID != good {
			t.Fatalf("took %+v, want only %s", attempts, good)
		}
		for _, id := range []string{bad, foreign} {
			if task := f.get(id); task.Status != tasks.Failed || task.Error == nil || task.Error.Kind != tasks.KindLost {
				t.Errorf("task %s = %s %+v, want failed, kind lost", id, task.Status, task.Error)
			}
		}
		f.rdb.FlushDB(f.ctx()) // asynq's tools cannot show such a message either
	})
}
