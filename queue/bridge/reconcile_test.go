package bridge_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"offstage/queue/bridge"
	"offstage/tasks"
)

func (f *fixture) reconcile() int {
	f.t.Helper()
	time.Sleep(2 * time.Millisecond) // the turn of the last round is over
	next, n, err := f.store.Reconcile(f.ctx(), f.queue, worker, time.Millisecond, 0)
	if err != nil || next != 0 {
		f.t.Fatalf("Reconcile = %d, %d, %v", next, n, err)
	}
	return n
}

// A queue that our scripts alone have written to has nothing to repair, whatever state its tasks are in.
func TestStore_Reconcile_Healthy(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		newScene(f)
		waiting := f.create()
		tomb := f.create()
		f.create()
		f.cancel(tomb)
		if err := f.store.Delete(f.ctx(), tomb, ""); err != nil { // leaves its entry
			t.Fatal(err)
		}
		f.plainTask()
		f.plainTask(asynq.ProcessIn(time.Hour))
		f.wire.cutAt(bridge.Scripts()["adopt"], 3)
		f.plainTask()
		if got, _, err := f.store.Take(f.ctx(), f.queue, "w2", 100); err == nil { // taken, and not adopted yet
			t.Fatalf("Take = %d tasks", len(got))
		}
		before := f.dump()
		if n := f.reconcile(); n != 0 {
			t.Errorf("repaired %v", f.seen.counts())
		}
		if d := cmp.Diff(before, f.dump()); d != "" {
			t.Errorf("it changed (-before +after):\n%s", d)
		}
		if got := f.get(waiting).Status; got != tasks.Running {
			t.Errorf("the task that was taken with them is %s", got)
		}
		if got, _, err := f.store.Take(f.ctx(), f.queue, "w2", 100); err != nil || len(got) == 0 {
			t.Errorf("next Take = %d, %v", len(got), err)
		}
	})
}

// -1: one worker at a time looks after a queue.
func TestStore_Reconcile_Turn(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		f.rdb.Del(f.ctx(), "asynq:{low}:t:"+f.create())
		if next, n, err := f.store.Reconcile(f.ctx(), f.queue, "w1", time.Hour, 0); err != nil || n != 1 || next != 0 {
			t.Errorf("first = %d, %d, %v", next, n, err)
		}
		f.rdb.Del(f.ctx(), "asynq:{low}:t:"+f.create())
		if next, n, err := f.store.Reconcile(f.ctx(), f.queue, "w2", time.Hour, 7); err != nil || n != 0 || next != 7 {
			t.Errorf("second = %d, %d, %v, want nothing done", next, n, err)
		}
		f.rdb.FlushDB(f.ctx())
	})
}

// What tools without the bridge do to tasks of ours is followed, and everything agrees again.
func TestStore_Reconcile_Repairs(t *testing.T) {
	t.Parallel()
	plain := func(f *fixture) *asynq.Inspector { return asynq.NewInspectorFromRedisClient(f.rdb) }
	key := func(name string) func(*fixture, string) error {
		return func(f *fixture, _ string) error { return f.rdb.Del(f.ctx(), "asynq:{low}:"+name).Err() }
	}
	all := func(do func(*asynq.Inspector) (int, error)) func(*fixture, string) error {
		return func(f *fixture, _ string) error { return none(do(plain(f))) }
	}
	one := func(do func(*asynq.Inspector, string) error) func(*fixture, string) error {
		return func(f *fixture, id string) error { return do(plain(f), id) }
	}
	archive := one(func(i *asynq.Inspector, id string) error { return i.ArchiveTask("low", id) })
	run := one(func(i *asynq.Inspector, id string) error { return i.RunTask("low", id) })
	del := one(func(i *asynq.Inspector, id string) error { return i.DeleteTask("low", id) })
	for _, tc := range []struct {
		name   string
		status tasks.Status
		do     func(f *fixture, id string) error
		want   tasks.Status
	}{
		{"archive pending", tasks.Pending, archive, tasks.Cancelled},
		{"archive scheduled", tasks.Scheduled, archive, tasks.Cancelled},
		{"archive retrying", tasks.Retrying, archive, tasks.Cancelled},
		{"archive all pending", tasks.Pending, all(func(i *asynq.Inspector) (int, error) { return i.ArchiveAllPendingTasks("low") }), tasks.Cancelled},
		{"run scheduled", tasks.Scheduled, run, tasks.Pending},
		{"run retrying", tasks.Retrying, run, tasks.Pending},
		{"run all retrying", tasks.Retrying, all(func(i *asynq.Inspector) (int, error) { return i.RunAllRetryTasks("low") }), tasks.Pending},
		{"delete pending", tasks.Pending, del, tasks.Failed},
		{"delete scheduled", tasks.Scheduled, del, tasks.Failed},
		{"delete retrying", tasks.Retrying, del, tasks.Failed},
		{"pending list gone", tasks.Pending, key("pending"), tasks.Pending},
		{"scheduled set gone", tasks.Scheduled, key("scheduled"), tasks.Scheduled},
		{"retry set gone", tasks.Retrying, key("retry"), tasks.Retrying},
		{"lease set gone", tasks.Running, key("lease"), tasks.Running},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, f *fixture) {
				ids := f.inEach()
				check(t, tc.do(f, ids[tc.status]))
				if n := f.reconcile(); n == 0 {
					t.Error("nothing was repaired")
				}
				for status, id := range ids {
					want := status
					if status == tc.status {
						want = tc.want
					}
					if got := f.get(id); got.Status != want || want == tasks.Failed && status != want && got.Error.Kind != tasks.KindLost {
						t.Errorf("the %s task is %s %+v, want %s", status, got.Status, got.Error, want)
					}
				}
				f.check()
				if n := f.reconcile(); n != 0 {
					t.Errorf("a second round repaired %d", n)
				}
			})
		})
	}
}
