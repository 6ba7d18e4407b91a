package bridge_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"offstage/internal/redistest"
	"offstage/queue/bridge"
	"offstage/tasks"
)

// inEach makes one task in each status.
func (f *fixture) inEach() map[tasks.Status]string {
	f.t.Helper()
	ids := map[tasks.Status]string{
		tasks.Completed: f.ended(bridge.Completed), tasks.Failed: f.ended(bridge.Failed),
		tasks.Scheduled: f.create(func(c *bridge.Creation) { c.Delay = time.Hour }),
	}
	a := f.running()
	f.end(a, bridge.End{Outcome: bridge.Retry, Error: boom(), Delay: time.Hour})
	ids[tasks.Retrying], ids[tasks.Running] = a.Task.ID, f.running().Task.ID
	ids[tasks.Cancelled] = f.create()
	f.cancel(ids[tasks.Cancelled])
	ids[tasks.Pending] = f.create()
	for status, id := range ids {
		f.want(id, status)
	}
	return ids
}

// gone stands for a task that is not there any more; refused for one that stayed as it was, with an error.
const (
	gone    tasks.Status = "gone"
	refused tasks.Status = "refused"
)

// operate does something to a task in each status through asynq's inspector, and checks what became of them.
func (f *fixture) operate(do func(queue, id string) error, want map[tasks.Status]tasks.Status) {
	f.t.Helper()
	for status, id := range f.inEach() {
		before := f.get(id)
		err := do(f.queue, id)
		switch to := want[status]; to {
		case gone:
			f.gone(id)
		case refused:
			if err == nil {
				f.t.Errorf("%s: no error", status)
			}
			if d := cmp.Diff(before, f.want(id, status)); d != "" {
				f.t.Errorf("%s: it changed (-before +after):\n%s", status, d)
			}
			continue
		default:
			task := f.want(id, to)
			if to == tasks.Cancelled && (task.Cancel == nil || task.Cancel.By != "asynq") {
				f.t.Errorf("%s: cancel = %+v, want it by asynq", status, task.Cancel)
			}
		}
		if err != nil {
			f.t.Errorf("%s: %v", status, err)
		}
		f.check()
	}
}

func TestInspector_RunTask(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		f.operate(f.inspector.RunTask, map[tasks.Status]tasks.Status{
			tasks.Scheduled: tasks.Pending, tasks.Retrying: tasks.Pending, tasks.Failed: tasks.Pending,
			tasks.Cancelled: tasks.Pending, tasks.Pending: refused, tasks.Running: refused, tasks.Completed: refused,
		})
	})
}

func TestInspector_ArchiveTask(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		f.operate(f.inspector.ArchiveTask, map[tasks.Status]tasks.Status{
			tasks.Scheduled: tasks.Cancelled, tasks.Retrying: tasks.Cancelled, tasks.Pending: tasks.Cancelled,
			tasks.Failed: refused, tasks.Cancelled: refused, tasks.Running: refused, tasks.Completed: refused,
		})
	})
}

// A task that waits is cancelled; only one that has ended is removed.
func TestInspector_DeleteTask(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		f.operate(f.inspector.DeleteTask, map[tasks.Status]tasks.Status{
			tasks.Scheduled: tasks.Cancelled, tasks.Retrying: tasks.Cancelled, tasks.Pending: tasks.Cancelled,
			tasks.Failed: gone, tasks.Cancelled: gone, tasks.Completed: gone, tasks.Running: refused,
		})
	})
}

// CancelProcessing has asynq's bare id only, and no answer.
func TestInspector_CancelProcessing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		for status, id := range f.inEach() {
			if err := f.inspector.CancelProcessing(id); err != nil {
				t.Errorf("%s: %v", status, err)
			}
			want := tasks.Cancelled
			if status.Terminal() || status == tasks.Running {
				want = status
			}
			task := f.want(id, want)
			if asked := task.Cancel != nil && task.Cancel.By == "asynq"; asked != (!status.Terminal()) {
				t.Errorf("%s: cancel = %+v", status, task.Cancel)
			}
		}
		f.plainTask(asynq.TaskID("bare"))
		a := f.take()
		for _, id := range []string{"bare", "unknown", "", "a.b", "~"} {
			if err := f.inspector.CancelProcessing(id); err != nil {
				t.Errorf("%q: %v", id, err)
			}
		}
		if task := f.want(a.Task.ID, tasks.Running); task.Cancel == nil {
			t.Error("a plain producer's task was not asked to stop")
		}
	})
}

// The worker hears of it, whichever client published: with the bridge or without.
func TestStore_Listen(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		hints := make(chan string, 100)
		stop := f.listen(hints)
		defer stop()
		heard := func(id string) {
			t.Helper()
			for end := time.After(5 * time.Second); ; {
				select {
				case got := <-hints:
					if got == id { // other tests publish as well
						return
					}
				case <-end:
					t.Fatalf("no hint of %s", id)
				}
			}
		}
		a, b, c := f.running(), f.running(), f.running()
		f.cancel(a.Task.ID)
		heard(a.Task.ID)
		if err := f.inspector.CancelProcessing(b.Task.ID); err != nil {
			t.Fatal(err)
		}
		heard(b.Task.ID)
		if err := f.rdb.Publish(f.ctx(), "asynq:cancel", c.Task.ID).Err(); err != nil {
			t.Fatal(err)
		}
		heard(c.Task.ID)
		for _, x := range []*bridge.Attempt{a, b, c} {
			if task := f.want(x.Task.ID, tasks.Running); task.Cancel == nil {
				t.Errorf("%s was not asked to stop", task.ID)
			}
		}
	})
}

// Tasks that no worker has taken have no record: asynq's own scripts do what was asked.
func TestInspector_Plain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		later := func() string {
			_, id, _ := bridge.Locate(f.plainTask(asynq.ProcessIn(time.Hour)))
			return id
		}
		run, archive, del := later(), later(), later()
		if err := errors.Join(f.inspector.RunTask(f.queue, run), f.inspector.ArchiveTask(f.queue, archive), f.inspector.DeleteTask(f.queue, del)); err != nil {
			t.Error(err)
		}
		for id, want := range map[string]asynq.TaskState{run: asynq.TaskStatePending, archive: asynq.TaskStateArchived} {
			if info, err := f.inspector.GetTaskInfo(f.queue, id); err != nil || info.State != want {
				t.Errorf("task is %+v, %v, want %s", info, err, want)
			}
		}
		if _, err := f.inspector.GetTaskInfo(f.queue, del); !errors.Is(err, asynq.ErrTaskNotFound) {
			t.Errorf("deleted task: %v", err)
		}
		for _, err := range []error{f.inspector.RunTask(f.queue, "none"), f.inspector.ArchiveTask(f.queue, "none"), f.inspector.DeleteTask(f.queue, "none")} {
			if !errors.Is(err, asynq.ErrTaskNotFound) {
				t.Errorf("unknown id: %v, want %v", err, asynq.ErrTaskNotFound)
			}
		}
	})
}

// A queue name with a dot cannot be one of ours: nothing of ours is meant by an id that looks alike.
func TestInspector_ForeignQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t, server.FreshDB(t))
	f.plainTask(asynq.TaskID("b.x"))
	a := f.take() // record of "b.x" in queue "low"
	if _, err := f.plain.Enqueue(asynq.NewTask("plain", nil), asynq.Queue("low.b"), asynq.TaskID("x")); err != nil {
		t.Fatal(err)
	}
	if err := f.inspector.DeleteTask("low.b", "x"); err != nil {
		t.Error(err)
	}
	if task := f.want(a.Task.ID, tasks.Running); task.Cancel != nil {
		t.Errorf("cancel = %+v", task.Cancel)
	}
}

// What would leave records behind is refused.
func TestInspector_Refused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		id := f.create(func(c *bridge.Creation) { c.Delay = time.Hour })
		for name, err := range map[string]error{
			"UpdateTaskPayload":  f.inspector.UpdateTaskPayload(f.queue, id, []byte("1")),
			"DeleteQueue":        f.inspector.DeleteQueue(f.queue, false),
			"DeleteQueue, force": f.inspector.DeleteQueue(f.queue, true),
		} {
			if err == nil {
				t.Errorf("%s works", name)
			}
		}
		if task := f.want(id, tasks.Scheduled); string(task.Payload) != payload {
			t.Errorf("payload = %s", task.Payload)
		}
	})
}

func TestInspector_Bulk(t *testing.T) {
	t.Parallel()
	i := func(f *fixture) *asynq.Inspector { return f.inspector }
	for _, tc := range []struct {
		name string
		do   func(f *fixture) (int, error)
		want map[tasks.Status]tasks.Status // those that change
	}{
		{"RunAllScheduledTasks", func(f *fixture) (int, error) { return i(f).RunAllScheduledTasks(f.queue) },
			map[tasks.Status]tasks.Status{tasks.Scheduled: tasks.Pending}},
		{"RunAllRetryTasks", func(f *fixture) (int, error) { return i(f).RunAllRetryTasks(f.queue) },
			map[tasks.Status]tasks.Status{tasks.Retrying: tasks.Pending}},
		{"RunAllArchivedTasks", func(f *fixture) (int, error) { return i(f).RunAllArchivedTasks(f.queue) },
			map[tasks.Status]tasks.Status{tasks.Failed: tasks.Pending, tasks.Cancelled: tasks.Pending}},
		{"ArchiveAllPendingTasks", func(f *fixture) (int, error) { return i(f).ArchiveAllPendingTasks(f.queue) },
			map[tasks.Status]tasks.Status{tasks.Pending: tasks.Cancelled}},
		{"ArchiveAllScheduledTasks", func(f *fixture) (int, error) { return i(f).ArchiveAllScheduledTasks(f.queue) },
			map[tasks.Status]tasks.Status{tasks.Scheduled: tasks.Cancelled}},
		{"ArchiveAllRetryTasks", func(f *fixture) (int, error) { return i(f).ArchiveAllRetryTasks(f.queue) },
			map[tasks.Status]tasks.Status{tasks.Retrying: tasks.Cancelled}},
		{"DeleteAllPendingTasks", func(f *fixture) (int, error) { return i(f).DeleteAllPendingTasks(f.queue) },
			map[tasks.Status]tasks.Status{tasks.Pending: tasks.Cancelled}},
		{"DeleteAllScheduledTasks", func(f *fixture) (int, error) { return i(f).DeleteAllScheduledTasks(f.queue) },
			map[tasks.Status]tasks.Status{tasks.Scheduled: tasks.Cancelled}},
		{"DeleteAllRetryTasks", func(f *fixture) (int, error) { return i(f).DeleteAllRetryTasks(f.queue) },
			map[tasks.Status]tasks.Status{tasks.Retrying: tasks.Cancelled}},
		{"DeleteAllArchivedTasks", func(f *fixture) (int, error) { return i(f).DeleteAllArchivedTasks(f.queue) },
			map[tasks.Status]tasks.Status{tasks.Failed: gone, tasks.Cancelled: gone}},
		{"DeleteAllCompletedTasks", func(f *fixture) (int, error) { return i(f).DeleteAllCompletedTasks(f.queue) },
			map[tasks.Status]tasks.Status{tasks.Completed: gone}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, f *fixture) {
				ids := f.inEach()
				behind := f.create() // keeps the entry of the next one in the list
				tomb := f.create()
				f.cancel(tomb)
				f.cancel(behind)
				f.plainTask()
				want := len(tc.want)
				if tc.want[tasks.Cancelled] != "" {
					want += 2
				}
				if n, err := tc.do(f); err != nil || n != want {
					t.Errorf("%s = %d, %v, want %d", tc.name, n, err, want)
				}
				for status, id := range ids {
					to := status
					if tc.want[status] != "" {
						to = tc.want[status]
					}
					if to == gone {
						f.gone(id)
						continue
					}
					f.want(id, to)
				}
				if to := tc.want[tasks.Cancelled]; to == "" {
					f.want(tomb, tasks.Cancelled)
				}
				f.check()
			})
		})
	}
}

// asynq's own bulk scripts lose all that is beyond the archive's 10,000, and hold Redis for as long as it takes.
func TestInspector_BulkMany(t *testing.T) {
	t.Parallel()
	const many = 12_000
	own := redistest.Start(t) // its scripts and statistics are this test's own
	f := newFixture(t, own.URLDB(1))
	for range many / 1000 {
		var cs []*bridge.Creation
		for range 1000 {
			c := f.creation(func(c *bridge.Creation) { c.Hold = true })
			if err := f.enqueue(c); err != nil {
				t.Fatal(err)
			}
			cs = append(cs, c)
		}
		if err := errors.Join(f.store.CreateAll(f.ctx(), cs)...); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name string
		do   func(string) (int, error)
		want map[tasks.Status]int64
	}{
		{"ArchiveAllPendingTasks", f.inspector.ArchiveAllPendingTasks, map[tasks.Status]int64{tasks.Cancelled: many}},
		{"RunAllArchivedTasks", f.inspector.RunAllArchivedTasks, map[tasks.Status]int64{tasks.Pending: many}},
		{"DeleteAllPendingTasks", f.inspector.DeleteAllPendingTasks, map[tasks.Status]int64{tasks.Cancelled: many}},
		{"DeleteAllArchivedTasks", f.inspector.DeleteAllArchivedTasks, map[tasks.Status]int64{}},
	} {
		if n, err := step.do(f.queue); err != nil || n != many {
			t.Fatalf("%s = %d, %v, want %d", step.name, n, err, many)
		}
		state, err := f.store.QueueState(f.ctx(), f.queue)
		if err != nil {
			t.Fatal(err)
		}
		for _, status := range tasks.Statuses() {
			if state.Counts[status] != step.want[status] {
				t.Errorf("after %s: %d tasks are %s, want %d", step.name, state.Counts[status], status, step.want[status])
			}
		}
		if n := f.rdb.ZCard(f.ctx(), "asynq:{low}:archived").Val(); n != step.want[tasks.Cancelled] {
			t.Errorf("after %s: asynq has %d archived, want %d", step.name, n, step.want[tasks.Cancelled])
		}
	}
	f.check()
	for sha, name := range bridge.AsynqScripts() {
		switch name {
		case "run all", "archive all", "archive all pending", "delete all", "delete all pending":
			if known := f.rdb.ScriptExists(f.ctx(), sha).Val(); len(known) != 1 || known[0] {
				t.Errorf("asynq's %q reached Redis", name)
			}
		}
	}
	if a := f.takeAll(worker, 1); len(a) != 0 {
		t.Errorf("took %+v", a[0].Task)
	}
	if n := f.rdb.DBSize(f.ctx()).Val(); n > 10 {
		t.Errorf("%d keys are left over: %v", n, f.rdb.Keys(f.ctx(), "*").Val()[:10])
	}
}
