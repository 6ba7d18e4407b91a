package bridge_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// 1: a task that failed or was cancelled starts a new run, its retries unspent.
func TestStore_Rerun(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		f.end(a, bridge.End{
			Outcome: bridge.Failed, Error: boom(), Result: json.RawMessage(`"old"`), Output: "first ",
			Failures: []tasks.Failure{{Attempt: 1, Kind: tasks.KindError, Message: "boom"}},
		})
		id := a.Task.ID
		if err := f.store.Rerun(f.ctx(), id, "ann", false); err != nil {
			t.Fatalf("Rerun: %v", err)
		}
		task := f.want(id, tasks.Pending)
		if task.Error != nil || task.Result != nil || !task.CompletedAt.IsZero() || !task.ExpiresAt.IsZero() || task.Attempt != 1 || len(task.Errors) != 1 {
			t.Errorf("task = %+v", task)
		}
		if info := f.info(id); info.LastErr != "" || info.Result != nil || info.Retried != 0 {
			t.Errorf("asynq shows %+v", info)
		}
		b := f.take()
		if b.Task.ID != id || b.Tries != 0 || b.Task.Attempt != 2 || b.Epoch <= a.Epoch || b.Written != int64(len("first ")) {
			t.Errorf("attempt = %+v of %+v", b, b.Task)
		}
		f.end(b, bridge.End{Outcome: bridge.Completed, Result: json.RawMessage(`"new"`), Output: "second", OutputAt: 6})
		if task := f.want(id, tasks.Completed); string(task.Result) != `"new"` || task.Output != "first second" {
			t.Errorf("task = %+v", task)
		}
		want := []tasks.EventKind{
			tasks.EventCreated, tasks.EventRunning, tasks.EventFailed, tasks.EventRetrying, tasks.EventRunning, tasks.EventCompleted,
		}
		if d := cmp.Diff(want, f.kinds(id)); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		events, err := f.store.Events(f.ctx(), id, 0, 100)
		if err != nil || events[2].Result != nil || string(events[5].Result) != `"new"` {
			t.Errorf("the ends carry %s and %s, %v", events[2].Result, events[5].Result, err)
		}
	})
}

func TestStore_Rerun_Cancelled(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		running := f.running()
		f.cancel(running.Task.ID)
		f.end(running, bridge.End{Outcome: bridge.Cancelled, Abandoned: true})
		front := f.create()
		behind := f.create() // its entry is still in asynq's list when it is run again
		back := f.create()
		f.cancel(behind)
		for _, id := range []string{running.Task.ID, behind} {
			if err := f.store.Rerun(f.ctx(), id, "", false); err != nil {
				t.Fatalf("Rerun: %v", err)
			}
			if task := f.want(id, tasks.Pending); task.Cancel != nil {
				t.Errorf("cancel = %+v", task.Cancel)
			}
		}
		seen := map[string]int{}
		for _, a := range f.takeAll(worker, 10) {
			seen[a.Task.ID]++
			f.end(a, bridge.End{Outcome: bridge.Completed})
		}
		if d := cmp.Diff(map[string]int{running.Task.ID: 1, front: 1, behind: 1, back: 1}, seen); d != "" {
			t.Errorf("runs (-want +got):\n%s", d)
		}
	})
}

// Delayed tasks run at once when that is asked for.
func TestStore_Rerun_Delayed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		scheduled := f.create(func(c *bridge.Creation) { c.Delay = time.Hour })
		a := f.running()
		f.end(a, bridge.End{Outcome: bridge.Retry, Error: boom(), Delay: time.Hour})
		for id, status := range map[string]tasks.Status{scheduled: tasks.Scheduled, a.Task.ID: tasks.Retrying} {
			if err := f.store.Rerun(f.ctx(), id, "", false); !errors.Is(err, tasks.ErrNotTerminated) {
				t.Errorf("Rerun of a %s task = %v, want %v", status, err, tasks.ErrNotTerminated)
			}
			f.want(id, status)
			if err := f.store.Rerun(f.ctx(), id, "", true); err != nil {
				t.Errorf("Rerun of a %s task, delayed = %v", status, err)
			}
			f.want(id, tasks.Pending)
		}
		for _, b := range f.takeAll(worker, 10) {
			if want := map[string]int{scheduled: 0, a.Task.ID: 1}[b.Task.ID]; b.Tries != want {
				t.Errorf("task %s has %d failed attempts, want %d", b.Task.ID, b.Tries, want)
			}
		}
	})
}

// 0: the status does not allow it, and nothing changes.
func TestStore_Rerun_Refused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		running := f.running().Task.ID
		completed := f.ended(bridge.Completed)
		for id, tc := range map[string]struct {
			status tasks.Status
			want   error
		}{
			f.create(): {tasks.Pending, tasks.ErrNotTerminated},
			running:    {tasks.Running, tasks.ErrNotTerminated},
			completed:  {tasks.Completed, tasks.ErrTerminated},
		} {
			task := f.want(id, tc.status)
			for _, delayed := range []bool{false, true} {
				if err := f.store.Rerun(f.ctx(), id, "ann", delayed); !errors.Is(err, tc.want) {
					t.Errorf("Rerun of a %s task = %v, want %v", tc.status, err, tc.want)
				}
			}
			if d := cmp.Diff(task, f.want(id, tc.status)); d != "" {
				t.Errorf("%s: it changed the task:\n%s", tc.status, d)
			}
		}
	})
}

// -2: there is nothing to run.
func TestStore_Rerun_MessageGone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		id := f.create()
		f.rdb.Del(f.ctx(), "asynq:{low}:t:"+id)
		f.takeAll(worker, 1) // finds it lost
		if err := f.store.Rerun(f.ctx(), id, "ann", false); !errors.Is(err, tasks.ErrNotFound) || !strings.Contains(err.Error(), "message") {
			t.Errorf("Rerun = %v, want %v", err, tasks.ErrNotFound)
		}
		if got := f.get(id).Status; got != tasks.Failed {
			t.Errorf("it is %s now", got)
		}
	})
}

// The call is sent again when its reply is lost, and reports what it did.
func TestStore_Rerun_ReplyLost(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		known := f.ended(bridge.Failed)
		if err := f.store.Rerun(f.ctx(), known, "", false); err != nil {
			t.Fatal(err)
		}
		f.take()
		id := f.ended(bridge.Failed)
		f.wire.lose.Store(2)
		if err := f.store.Rerun(f.ctx(), id, "", false); err != nil {
			t.Errorf("Rerun = %v", err)
		}
		f.want(id, tasks.Pending)
		f.take()
		if got := f.takeAll(worker, 1); len(got) != 0 {
			t.Errorf("it is queued twice: %+v", got[0].Task)
		}
	})
}

func TestStore_Delete(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		f.end(a, bridge.End{Outcome: bridge.Completed, Output: "out", Result: json.RawMessage(`1`)})
		cancelled := f.create()
		f.cancel(cancelled)
		for _, id := range []string{a.Task.ID, f.ended(bridge.Failed), cancelled} {
			if err := f.store.Delete(f.ctx(), id, "ann"); err != nil {
				t.Errorf("Delete: %v", err)
			}
			f.gone(id)
			f.check()
			if err := f.store.Delete(f.ctx(), id, "ann"); !errors.Is(err, tasks.ErrNotFound) {
				t.Errorf("Delete again = %v, want %v", err, tasks.ErrNotFound)
			}
		}
		if keys := f.rdb.Keys(f.ctx(), "*:t:*").Val(); len(keys) != 0 {
			t.Errorf("left over: %v", keys)
		}
	})
}

// A task that was cancelled while it waited has its entry in asynq's list still. The entry must neither break asynq's
// tools nor run.
func TestStore_Delete_Tombstone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		first, second := f.create(), f.create()
		id := f.create()
		last := f.create()
		f.cancel(id)
		if err := f.store.Delete(f.ctx(), id, ""); err != nil {
			t.Fatal(err)
		}
		f.gone(id)
		f.check()
		f.cancel(second)
		if n, err := f.inspector.ListPendingTasks(f.queue); err != nil || len(n) != 4 {
			t.Errorf("ListPendingTasks = %d, %v", len(n), err)
		}
		for _, want := range []string{first, last} {
			if a := f.take(); a.Task.ID != want {
				t.Errorf("took %s, want %s", a.Task.ID, want)
			}
		}
		if n := f.rdb.Exists(f.ctx(), "asynq:{low}:t:"+id).Val(); n != 0 {
			t.Error("its hash is left over when the entry is gone")
		}
	})
}

// 0: it lives.
func TestStore_Delete_Refused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		retrying := f.running()
		f.end(retrying, bridge.End{Outcome: bridge.Retry, Error: boom(), Delay: time.Hour})
		running := f.running()
		for id, status := range map[string]tasks.Status{
			f.create(): tasks.Pending, f.create(func(c *bridge.Creation) { c.Delay = time.Hour }): tasks.Scheduled,
			retrying.Task.ID: tasks.Retrying, running.Task.ID: tasks.Running,
		} {
			if err := f.store.Delete(f.ctx(), id, "ann"); !errors.Is(err, tasks.ErrNotTerminated) {
				t.Errorf("Delete of a %s task = %v, want %v", status, err, tasks.ErrNotTerminated)
			}
			f.want(id, status)
		}
	})
}

// A deletion whose reply is lost is not sent again: the second would say that there is no such task.
func TestStore_Delete_ReplyLost(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		if err := f.store.Delete(f.ctx(), f.ended(bridge.Completed), ""); err != nil {
			t.Fatal(err)
		}
		id := f.ended(bridge.Completed)
		f.wire.lose.Store(1)
		if err := f.store.Delete(f.ctx(), id, ""); !errors.Is(err, tasks.ErrUnavailable) {
			t.Errorf("Delete = %v, want %v", err, tasks.ErrUnavailable)
		}
		f.gone(id)
	})
}

func TestStore_Purge(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		if n, err := f.store.Purge(f.ctx(), f.queue); err != nil || n != 0 {
			t.Errorf("Purge of an empty queue = %d, %v", n, err)
		}
		brief := func(c *bridge.Creation) { c.Retention = time.Millisecond }
		var over []string
		for i := range 130 {
			id := f.create(brief)
			if i%2 == 0 {
				f.cancel(id)
			} else {
				f.end(f.take(), bridge.End{Outcome: bridge.Completed, Output: "x"})
			}
			over = append(over, id)
		}
		kept := f.ended(bridge.Completed)
		waiting := f.create(brief)
		time.Sleep(10 * time.Millisecond)
		for _, want := range []int64{100, 30, 0} {
			if n, err := f.store.Purge(f.ctx(), f.queue); err != nil || n != want {
				t.Errorf("Purge = %d, %v, want %d", n, err, want)
			}
			f.check()
		}
		for _, id := range over {
			f.gone(id)
		}
		f.want(kept, tasks.Completed)
		f.want(waiting, tasks.Pending)
	})
}

// What plain asynq servers completed is purged by Redis' clock, too.
func TestStore_Purge_Plain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		f.plainTask()
		now := f.rdb.Time(f.ctx()).Val()
		for id, at := range map[string]time.Time{"old": now.Add(-time.Second), "new": now.Add(time.Hour)} {
			f.rdb.HSet(f.ctx(), "asynq:{low}:t:"+id, "msg", "", "state", "completed")
			f.rdb.ZAdd(f.ctx(), "asynq:{low}:completed", redis.Z{Member: id, Score: float64(at.Unix())})
		}
		if n, err := f.store.Purge(f.ctx(), f.queue); err != nil || n != 1 {
			t.Errorf("Purge = %d, %v, want 1", n, err)
		}
		if left := f.rdb.ZRange(f.ctx(), "asynq:{low}:completed", 0, -1).Val(); len(left) != 1 || left[0] != "new" {
			t.Errorf("left: %v", left)
		}
		f.check()
	})
}

func TestStore_Forward(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		at := time.Now().Add(time.Second).Truncate(time.Millisecond)
		var due []string
		for i := range 3 {
			due = append(due, f.create(func(c *bridge.Creation) { c.RunAt = at.Add(time.Duration(i) * time.Millisecond) }))
		}
		later := f.create(func(c *bridge.Creation) { c.RunAt = at.Add(time.Hour) })
		f.forward(0)
		time.Sleep(time.Until(at) + 20*time.Millisecond)
		f.forward(3)
		f.forward(0)
		for i, id := range due {
			task := f.want(id, tasks.Pending)
			if want := at.Add(time.Duration(i) * time.Millisecond); !task.ScheduledAt.Equal(want) || task.Version != 2 {
				t.Errorf("task = %+v, want it scheduled at %v", task, want)
			}
		}
		f.want(later, tasks.Scheduled)
		for _, id := range due {
			if a := f.take(); a.Task.ID != id || a.Waited <= 0 || a.Waited > time.Minute {
				t.Errorf("took %s, which waited %v, want %s", a.Task.ID, a.Waited, id)
			}
		}
	})
}

// At most 100 of each kind at a time.
func TestStore_Forward_Bounded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		for range 230 {
			f.create(func(c *bridge.Creation) { c.Delay = 5 * time.Millisecond })
		}
		time.Sleep(20 * time.Millisecond)
		total := int64(0)
		for {
			n, err := f.store.Forward(f.ctx(), f.queue)
			if err != nil || n > 300 {
				t.Fatalf("Forward = %d, %v", n, err)
			}
			if total += n; n == 0 {
				break
			}
		}
		if total != 230 {
			t.Errorf("forwarded %d, want 230", total)
		}
	})
}

// Tasks of plain asynq producers have no record yet, and go where asynq would put them.
func TestStore_Forward_Plain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		plain := f.plainTask(asynq.ProcessIn(time.Hour))
		grouped := f.plainTask(asynq.ProcessIn(time.Hour))
		later := f.plainTask(asynq.ProcessIn(2 * time.Hour))
		past := float64(f.rdb.Time(f.ctx()).Val().Add(-time.Second).Unix())
		for _, id := range []string{plain, grouped} {
			_, bare, _ := bridge.Locate(id)
			f.rdb.ZAdd(f.ctx(), "asynq:{low}:scheduled", redis.Z{Member: bare, Score: past})
		}
		_, bare, _ := bridge.Locate(grouped)
		f.rdb.HSet(f.ctx(), "asynq:{low}:t:"+bare, "group", "g1") // as asynq's own retry of an aggregated task has it
		f.rdb.ZAdd(f.ctx(), "asynq:{low}:scheduled", redis.Z{Member: "ghost", Score: past})
		f.forward(2)
		for id, want := range map[string]asynq.TaskState{
			plain: asynq.TaskStatePending, grouped: asynq.TaskStateAggregating, later: asynq.TaskStateScheduled,
		} {
			if info := f.info(id); info.State != want {
				t.Errorf("%s is %s, want %s", id, info.State, want)
			}
		}
		if a := f.take(); a.Task.ID != plain {
			t.Errorf("took %s, want %s", a.Task.ID, plain)
		}
	})
}
