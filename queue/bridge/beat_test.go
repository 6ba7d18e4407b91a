package bridge_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// life of a heartbeat in these tests; a worker that beats now is alive for all of a test.
const life = time.Minute

func (f *fixture) beat(worker string, held ...bridge.Held) bridge.Beat {
	f.t.Helper()
	b, err := f.store.Beat(f.ctx(), f.queue, worker, json.RawMessage(`{"id":"`+worker+`"}`), life, held)
	if err != nil {
		f.t.Fatalf("Beat: %v", err)
	}
	return b
}

func TestStore_Beat(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		if b := f.beat(worker); len(b.Cancel) != 0 || len(b.Lost) != 0 || time.Since(b.Now).Abs() > time.Minute {
			t.Errorf("Beat = %+v", b)
		}
		fine, asked, over, lost, deleted := f.running(), f.running(), f.running(), f.running(), f.running()
		f.cancel(asked.Task.ID)
		f.end(over, bridge.End{Outcome: bridge.Completed})
		f.end(lost, bridge.End{Outcome: bridge.Release})
		again := f.take()
		f.end(deleted, bridge.End{Outcome: bridge.Completed})
		if err := f.store.Delete(f.ctx(), deleted.Task.ID, ""); err != nil {
			t.Fatal(err)
		}
		got := f.beat(worker, fine.Held(), asked.Held(), over.Held(), lost.Held(), again.Held(), deleted.Held())
		want := bridge.Beat{
			Now: got.Now, Keyspace: got.Keyspace, Cancel: []string{asked.Task.ID}, Lost: []string{over.Task.ID, lost.Task.ID, deleted.Task.ID},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("Beat (-want +got):\n%s", d)
		}
	})
}

func TestStore_Workers(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		f.plainTask() // makes the queue known
		f.beat("w1")
		f.beat("w2")
		got, err := f.store.Workers(f.ctx(), f.queue)
		if err != nil || len(got) != 2 || string(got["w1"].Info) != `{"id":"w1"}` || time.Since(got["w2"].Seen).Abs() > time.Minute {
			t.Errorf("Workers = %+v, %v", got, err)
		}
		for range 2 {
			if err := f.store.Leave(f.ctx(), f.queue, "w1"); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := f.store.Workers(f.ctx(), f.queue); err != nil || len(got) != 1 {
			t.Errorf("Workers after one left = %+v, %v", got, err)
		}
		if _, err := f.store.Beat(f.ctx(), f.queue, "w3", json.RawMessage(`{}`), 10*time.Millisecond, nil); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			got, err := f.store.Workers(f.ctx(), f.queue)
			if err == nil && len(got) == 1 {
				break
			}
			if time.Since(began) > 5*time.Second {
				t.Fatalf("a silent worker is listed still: %+v, %v", got, err)
			}
		}
	})
}

func TestStore_Silent(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		silent := func(life time.Duration, want bool) {
			t.Helper()
			if got, err := f.store.Silent(f.ctx(), f.queue, life); err != nil || got != want {
				t.Errorf("Silent(%v) = %v, %v, want %v", life, got, err, want)
			}
		}
		f.plainTask()
		silent(0, false)
		f.beat("w1")
		time.Sleep(5 * time.Millisecond)
		silent(time.Minute, false)
		silent(time.Millisecond, true)
		if err := f.store.Leave(f.ctx(), f.queue, "w1"); err != nil {
			t.Fatal(err)
		}
		silent(time.Millisecond, false)
	})
}

// 0: who leaves and holds a task nevertheless is silent from now on, so that the task is freed.
func TestStore_Leave_Holding(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		f.beat(worker)
		a := f.running()
		for range 2 {
			if err := f.store.Leave(f.ctx(), f.queue, worker); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := f.store.Workers(f.ctx(), f.queue); err != nil || len(got) != 0 {
			t.Errorf("Workers = %+v, %v, want none", got, err)
		}
		if silent, err := f.store.Silent(f.ctx(), f.queue, life); err != nil || !silent {
			t.Errorf("Silent = %v, %v, want true", silent, err)
		}
		f.takeover(1)
		f.want(a.Task.ID, tasks.Pending)
		if silent, err := f.store.Silent(f.ctx(), f.queue, life); err != nil || silent {
			t.Errorf("Silent after the takeover = %v, %v, want false", silent, err)
		}
	})
}

// Only the tasks of silent workers are freed, to the front of the queue, in their old order.
func TestStore_Takeover(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		f.beat("alive")
		var mine, theirs []string
		for range 4 {
			mine = append(mine, f.create())
			if got := f.takeAll("alive", 1); len(got) != 1 {
				t.Fatal("nothing to take")
			}
			theirs = append(theirs, f.create())
			if got := f.takeAll("dead", 1); len(got) != 1 {
				t.Fatal("nothing to take")
			}
		}
		waiting := f.create()
		f.takeover(4)
		for _, id := range mine {
			f.want(id, tasks.Running)
		}
		for _, id := range theirs {
			task := f.want(id, tasks.Pending)
			if task.Interruptions != 1 || task.Attempt != 1 || task.Error != nil || task.Version != 3 {
				t.Errorf("task = %+v", task)
			}
		}
		var order []string
		for _, a := range f.takeAll(worker, 10) {
			order = append(order, a.Task.ID)
			if a.Task.ID != waiting && (a.Epoch < a.Began.UnixMilli() || a.Tries != 0 || a.Task.Attempt != 2) {
				t.Errorf("next attempt = %+v of %+v", a, a.Task)
			}
		}
		if d := cmp.Diff(append(theirs, waiting), order); d != "" {
			t.Errorf("order (-want +got):\n%s", d)
		}
		f.beat(worker)
		f.takeover(0)
	})
}

// Tasks that were interrupted before start one after the other, lest one that kills workers takes the others along.
func TestStore_Takeover_Suspects(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		ids := map[string]bool{f.create(): true, f.create(): true, f.create(): true}
		for _, want := range []int{3, 1} { // ready at once after the first crash, after the second
			f.takeAll(worker, 3)
			if got, err := f.store.Takeover(f.ctx(), f.queue, life, 9); err != nil || got != (bridge.Takeover{Freed: 3}) {
				t.Fatalf("Takeover = %+v, %v", got, err)
			}
			ready, due := 0, map[time.Duration]bool{}
			for id := range ids {
				task, err := f.store.Get(f.ctx(), id)
				if err != nil {
					t.Fatal(err)
				}
				switch task.Status {
				case tasks.Pending:
					ready++
				case tasks.Scheduled:
					due[task.ScheduledAt.Sub(task.StartedAt.Time).Truncate(time.Second)] = true
				}
			}
			if ready != want || len(due) != 3-want {
				t.Errorf("%d tasks are ready, the others due after %v; want %d ready, the others apart", ready, due, want)
			}
		}
	})
}

func TestStore_Takeover_Orphaned(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		id := f.create()
		for range 2 {
			f.take()
			if got, err := f.store.Takeover(f.ctx(), f.queue, life, 2); err != nil || got != (bridge.Takeover{Freed: 1}) {
				t.Fatalf("Takeover = %+v, %v", got, err)
			}
		}
		f.take()
		if got, err := f.store.Takeover(f.ctx(), f.queue, life, 2); err != nil || got != (bridge.Takeover{Failed: 1}) {
			t.Errorf("Takeover = %+v, %v", got, err)
		}
		task := f.want(id, tasks.Failed)
		if task.Error == nil || task.Error.Kind != tasks.KindOrphaned || task.Interruptions != 3 || task.Attempt != 3 {
			t.Errorf("task = %+v, error %+v", task, task.Error)
		}
		events, err := f.store.Events(f.ctx(), id, 0, 100)
		if last := events[len(events)-1]; err != nil || last.Kind != tasks.EventFailed || last.Error == nil || last.Error.Kind != tasks.KindOrphaned {
			t.Errorf("last event = %+v, %v", last, err)
		}
		f.stats(1, 1)
	})
}

// A run that an operator asked for has its interruptions to spend again, like its retries.
func TestStore_Takeover_AfterRerun(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		id := f.create()
		f.take()
		if got, err := f.store.Takeover(f.ctx(), f.queue, life, 0); err != nil || got.Failed != 1 {
			t.Fatalf("Takeover = %+v, %v", got, err)
		}
		if err := f.store.Rerun(f.ctx(), id, "", false); err != nil {
			t.Fatal(err)
		}
		f.take()
		if got, err := f.store.Takeover(f.ctx(), f.queue, life, 1); err != nil || got != (bridge.Takeover{Freed: 1}) {
			t.Errorf("Takeover = %+v, %v, want it freed", got, err)
		}
	})
}

func TestStore_Takeover_Cancelled(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		f.cancel(a.Task.ID)
		if got, err := f.store.Takeover(f.ctx(), f.queue, life, 0); err != nil || got != (bridge.Takeover{Cancelled: 1}) {
			t.Errorf("Takeover = %+v, %v", got, err)
		}
		if task := f.want(a.Task.ID, tasks.Cancelled); task.Error != nil {
			t.Errorf("error = %+v", task.Error)
		}
		f.stats(1, 0)
	})
}

// One script frees a bounded number; the worker stays known as silent until all of its tasks are free.
func TestStore_Takeover_Bounded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		const many = 450
		for range many {
			f.create()
		}
		if _, err := f.store.Beat(f.ctx(), f.queue, worker, json.RawMessage(`{}`), time.Millisecond, nil); err != nil {
			t.Fatal(err)
		}
		if got := f.takeAll(worker, many); len(got) != many {
			t.Fatalf("took %d", len(got))
		}
		time.Sleep(10 * time.Millisecond)
		total := int64(0)
		for _, want := range []int64{200, 200, 50} {
			if silent, err := f.store.Silent(f.ctx(), f.queue, 5*time.Millisecond); err != nil || !silent {
				t.Errorf("with %d of %d tasks freed: Silent = %v, %v, want true", total, many, silent, err)
			}
			got, err := f.store.Takeover(f.ctx(), f.queue, 5*time.Millisecond, 3)
			if err != nil || got != (bridge.Takeover{Freed: want}) {
				t.Errorf("Takeover = %+v, %v, want %d", got, err, want)
			}
			total += got.Freed
		}
		if silent, err := f.store.Silent(f.ctx(), f.queue, 5*time.Millisecond); err != nil || silent {
			t.Errorf("in the end: Silent = %v, %v, want false", silent, err)
		}
	})
}

// A task without a record was taken, and Redis went away before it was adopted. The worker gets it with its next take;
// when the worker is gone, too, the task is freed.
func TestStore_Takeover_NotAdopted(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		f.plainTask()
		f.take() // Redis knows the scripts now
		f.beat(worker)
		for _, crash := range []bool{false, true} {
			id := f.plainTask()
			f.wire.cutAt(bridge.Scripts()["adopt"], 3)
			if got, _, err := f.store.Take(f.ctx(), f.queue, "w2", 5); err == nil {
				t.Fatalf("Take = %+v, want an error", got)
			}
			if crash {
				f.takeover(1)
				if info := f.info(id); info.State != asynq.TaskStatePending {
					t.Errorf("freed, it is %s", info.State)
				}
				f.check()
			}
			got, _, err := f.store.Take(f.ctx(), f.queue, "w2", 5)
			if err != nil || len(got) != 1 || got[0].Task.ID != id || got[0].Task.Attempt != 1 {
				t.Fatalf("next Take = %+v, %v, want %s", got, err, id)
			}
			f.want(id, tasks.Running)
			f.end(got[0], bridge.End{Outcome: bridge.Completed})
		}
	})
}

// What a plain asynq server runs is none of ours.
func TestStore_Takeover_Plain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		_, id, _ := bridge.Locate(f.plainTask())
		f.rdb.LMove(f.ctx(), "asynq:{low}:pending", "asynq:{low}:active", "RIGHT", "LEFT")
		f.rdb.HSet(f.ctx(), "asynq:{low}:t:"+id, "state", "active")
		f.rdb.HDel(f.ctx(), "asynq:{low}:t:"+id, "pending_since")
		f.rdb.ZAdd(f.ctx(), "asynq:{low}:lease", redis.Z{Member: id, Score: 1})
		f.takeover(0)
		if err := f.store.Leave(f.ctx(), f.queue, worker); err != nil {
			t.Fatal(err)
		}
		if n := f.rdb.LLen(f.ctx(), "asynq:{low}:active").Val(); n != 1 {
			t.Errorf("%d tasks are active, want 1", n)
		}
	})
}

// The reply to a take is lost: the worker lives and does not know that it has the task. Nobody else will take it over,
// so the next take must bring it again, as the same attempt.
func TestStore_Take_ReplyLost(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		f.running()
		id := f.create()
		plain := f.plainTask()
		behind := f.create()
		f.beat(worker)
		f.wire.loseAfter(bridge.Scripts()["take"], 1)
		got, _, err := f.store.Take(f.ctx(), f.queue, worker, 2)
		if err != nil {
			got, _, err = f.store.Take(f.ctx(), f.queue, worker, 2)
		}
		if err != nil || len(got) != 2 || got[0].Task.ID != id || got[1].Task.ID != plain {
			t.Fatalf("Take = %+v, %v, want %s and %s", got, err, id, plain)
		}
		for _, a := range got {
			if a.Epoch <= 0 || a.Task.Attempt != 1 {
				t.Errorf("attempt = %+v of %+v, want the first", a, a.Task)
			}
		}
		f.want(id, tasks.Running)
		f.want(plain, tasks.Running)
		if a := f.take(); a.Task.ID != behind {
			t.Errorf("took %s, want %s", a.Task.ID, behind)
		}
	})
}
