package bridge_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/internal/redistest"
	"offstage/queue/bridge"
	"offstage/tasks"
)

// 1 for a task that waits: it is cancelled at once, and nothing of it runs.
func TestStore_Cancel_Waiting(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		waiting := map[tasks.Status]func() string{
			tasks.Scheduled: func() string { return f.create(func(c *bridge.Creation) { c.Delay = time.Hour }) },
			tasks.Retrying: func() string {
				a := f.running()
				f.end(a, bridge.End{Outcome: bridge.Retry, Error: boom(), Delay: time.Hour})
				return a.Task.ID
			},
			tasks.Pending: func() string { return f.create() },
		}
		for _, status := range []tasks.Status{tasks.Scheduled, tasks.Retrying, tasks.Pending} {
			id := waiting[status]()
			version := f.want(id, status).Version
			from, done, err := f.store.Cancel(f.ctx(), id, "ann", "tester", "no need")
			if err != nil || !done || from != status {
				t.Errorf("Cancel of a %s task = %s, %v, %v", status, from, done, err)
			}
			task := f.want(id, tasks.Cancelled)
			if c := task.Cancel; c == nil || c.By != "tester" || c.Reason != "no need" || c.RequestedAt.IsZero() || c.Abandoned {
				t.Errorf("%s: cancel = %+v", status, c)
			}
			if task.Version <= version || task.CompletedAt.IsZero() || task.Error != nil {
				t.Errorf("%s: task = %+v", status, task)
			}
			if info := f.info(id); info.LastErr != "cancelled: no need" {
				t.Errorf("%s: asynq shows error %q", status, info.LastErr)
			}
			if kinds := f.kinds(id); kinds[len(kinds)-1] != tasks.EventCancelled {
				t.Errorf("%s: events = %v", status, kinds)
			}
		}
		f.forward(0)
		if got := f.takeAll(worker, 10); len(got) != 0 {
			t.Errorf("took %+v", got[0].Task)
		}
	})
}

// 1 for a running task: it is asked to stop, and its worker learns of it.
func TestStore_Cancel_Running(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		hints := f.rdb.Subscribe(f.ctx(), bridge.CancelHints)
		defer func() { _ = hints.Close() }()
		if _, err := hints.Receive(f.ctx()); err != nil {
			t.Fatal(err)
		}
		from, done, err := f.store.Cancel(f.ctx(), a.Task.ID, "", "tester", "")
		if err != nil || !done || from != tasks.Running {
			t.Errorf("Cancel = %s, %v, %v", from, done, err)
		}
		task := f.want(a.Task.ID, tasks.Running)
		if task.Cancel == nil || task.Version != a.Task.Version+1 {
			t.Errorf("task = %+v", task)
		}
		beat, err := f.store.Beat(f.ctx(), f.queue, worker, nil, time.Minute, []bridge.Held{a.Held()})
		if err != nil || len(beat.Cancel) != 1 || beat.Cancel[0] != a.Task.ID || len(beat.Lost) != 0 {
			t.Errorf("Beat = %+v, %v", beat, err)
		}
		m, err := hints.ReceiveMessage(f.ctx())
		for err == nil && m.Payload != a.Task.ID { // channels are shared by all databases
			m, err = hints.ReceiveMessage(f.ctx())
		}
		if err != nil {
			t.Errorf("no hint: %v", err)
		}

		// Asking again changes nothing: the first request stands.
		if from, done, err := f.store.Cancel(f.ctx(), a.Task.ID, "", "other", "later"); err != nil || !done || from != tasks.Running {
			t.Errorf("second Cancel = %s, %v, %v", from, done, err)
		}
		if d := cmp.Diff(task, f.get(a.Task.ID)); d != "" {
			t.Errorf("the second request changed the task:\n%s", d)
		}
	})
}

// 0: it has ended.
func TestStore_Cancel_Ended(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		cancelled := f.create()
		f.cancel(cancelled)
		for id, status := range map[string]tasks.Status{
			f.ended(bridge.Completed): tasks.Completed, f.ended(bridge.Failed): tasks.Failed, cancelled: tasks.Cancelled,
		} {
			task := f.want(id, status)
			from, done, err := f.store.Cancel(f.ctx(), id, "ann", "tester", "late")
			if err != nil || done || from != status {
				t.Errorf("Cancel of a %s task = %s, %v, %v", status, from, done, err)
			}
			if d := cmp.Diff(task, f.want(id, status)); d != "" {
				t.Errorf("%s: it changed the task:\n%s", status, d)
			}
		}
	})
}

// -1: another owner's task looks like none, and stays as it is.
func TestStore_Change_NotFound(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		ended := f.ended(bridge.Failed)
		waiting := f.create()
		for _, tc := range []struct{ id, owner string }{
			{waiting, "bob"}, {waiting, "an"}, {waiting, "ANN"}, {ended, "bob"}, {newID(f.queue), "ann"}, {newID(f.queue), ""},
			{newID("other"), ""}, {"low.", ""}, {"", ""}, {"nodot", ""}, {".x", ""}, {"l{o}w.x", ""}, {"low.x\x00\xff", ""},
			{"low." + strings.Repeat("x", 10000), ""},
		} {
			if from, done, err := f.store.Cancel(f.ctx(), tc.id, tc.owner, "tester", ""); !errors.Is(err, tasks.ErrNotFound) || done {
				t.Errorf("Cancel(%.40q for %q) = %s, %v, %v, want %v", tc.id, tc.owner, from, done, err, tasks.ErrNotFound)
			}
			if err := f.store.Rerun(f.ctx(), tc.id, tc.owner, true); !errors.Is(err, tasks.ErrNotFound) {
				t.Errorf("Rerun(%.40q for %q) = %v, want %v", tc.id, tc.owner, err, tasks.ErrNotFound)
			}
			if err := f.store.Delete(f.ctx(), tc.id, tc.owner); !errors.Is(err, tasks.ErrNotFound) {
				t.Errorf("Delete(%.40q for %q) = %v, want %v", tc.id, tc.owner, err, tasks.ErrNotFound)
			}
		}
		if got := f.want(waiting, tasks.Pending); got.Version != 1 || got.Cancel != nil {
			t.Errorf("it changed: %+v", got)
		}
		f.want(ended, tasks.Failed)
	})
}

// A record without an owner is nobody's.
func TestStore_Change_NoOwner(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		id := f.create()
		f.rdb.HDel(f.ctx(), "offstage:{low}:t:"+id, "owner")
		for _, owner := range []string{"ann", ""} {
			if _, _, err := f.store.Cancel(f.ctx(), id, owner, "tester", ""); !errors.Is(err, tasks.ErrNotFound) {
				t.Errorf("Cancel for %q = %v, want %v", owner, err, tasks.ErrNotFound)
			}
		}
		f.rdb.FlushDB(f.ctx())
	})
}

// A lost reply makes the request be sent again; the answer to the second is "it has ended", and must not be taken for
// the answer to the request.
func TestStore_Cancel_ReplyLost(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		f.cancel(f.create())
		id := f.create()
		f.wire.lose.Store(1)
		from, done, err := f.store.Cancel(f.ctx(), id, "", "tester", "")
		if err != nil || !done || from != tasks.Pending {
			t.Errorf("Cancel = %s, %v, %v, want from pending, done", from, done, err)
		}
		f.want(id, tasks.Cancelled)
		a := f.running()
		f.wire.lose.Store(1)
		if from, done, err := f.store.Cancel(f.ctx(), a.Task.ID, "", "tester", ""); err != nil || !done || from != tasks.Running {
			t.Errorf("Cancel = %s, %v, %v, want from running, done", from, done, err)
		}
	})
}

// Text of unknown origin must not spoil asynq's message.
func TestStore_Cancel_BinaryReason(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		id := f.create()
		if _, _, err := f.store.Cancel(f.ctx(), id, "", "\xff\x00", strings.Repeat("\xfe\x1b[2J", 5000)); err != nil {
			t.Fatal(err)
		}
		task := f.want(id, tasks.Cancelled)
		if len(task.Cancel.Reason) > tasks.MaxMessageBytes || task.Cancel.By != "\ufffd\ufffd" {
			t.Errorf("cancel = by %q, reason of %d bytes", task.Cancel.By, len(task.Cancel.Reason))
		}
	})
}

// Neither cancelling a task nor deleting it afterwards searches asynq's list, which may be very long.
func TestStore_Cancel_Deep(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t) // its statistics are this test's own
	f := newFixture(t, own.URLDB(1))
	f.create()
	id := f.create()
	f.create()
	check(t, f.rdb.ConfigResetStat(f.ctx()).Err())
	f.cancel(id)
	check(t, f.store.Delete(f.ctx(), id, ""))
	stats := f.rdb.InfoMap(f.ctx(), "commandstats").Val()["Commandstats"]
	if stats["cmdstat_evalsha"] == "" && stats["cmdstat_eval"] == "" {
		t.Fatalf("no scripts in the statistics: %v", stats)
	}
	for _, cmd := range []string{"lrem", "lpos", "lrange", "linsert", "lset"} {
		if s := stats["cmdstat_"+cmd]; s != "" {
			t.Errorf("%s was called: %s", cmd, s)
		}
	}
	if _, err := f.store.Get(f.ctx(), id); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("Get = %v", err)
	}
}
