package bridge_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"offstage/queue/bridge"
	"offstage/tasks"
)

func TestStore_End_Completed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		exit := 0
		ended := f.end(a, bridge.End{
			Outcome: bridge.Completed, Result: json.RawMessage(`{"sent":2}`), Output: "hello", Notice: &tasks.Notice{ExitCode: &exit},
		})
		if ended.Status != tasks.Completed || ended.CancelLatency != 0 {
			t.Errorf("ended = %+v", ended)
		}
		task := f.want(a.Task.ID, tasks.Completed)
		if string(task.Result) != `{"sent":2}` || task.Output != "hello" || task.OutputCut != 0 || task.Progress != 1 || task.Version != 3 {
			t.Errorf("task = %+v", task)
		}
		if want := task.CompletedAt.Add(time.Hour); !task.ExpiresAt.Equal(want) {
			t.Errorf("expires %v, want %v", task.ExpiresAt, want)
		}
		info := f.info(a.Task.ID)
		if string(info.Result) != `{"sent":2}` || info.CompletedAt.Unix() < task.CompletedAt.Unix()-2 || info.LastErr != "" {
			t.Errorf("asynq shows %+v", info)
		}
		events, err := f.store.Events(f.ctx(), a.Task.ID, 2, 10)
		if err != nil || len(events) != 1 || events[0].Kind != tasks.EventCompleted || string(events[0].Result) != `{"sent":2}` ||
			events[0].ExitCode == nil || *events[0].ExitCode != 0 || events[0].Error != nil {
			t.Errorf("events = %+v, %v", events, err)
		}
		f.stats(1, 0)
	})
}

func TestStore_End_Failed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		failures := []tasks.Failure{{Attempt: 1, Kind: tasks.KindTimeout, Message: "slow", At: tasks.AtMilli(1)}}
		timeout := &tasks.Error{Kind: tasks.KindTimeout, Message: "slow \xff", Retryable: true}
		if ended := f.end(a, bridge.End{Outcome: bridge.Failed, Error: timeout, Failures: failures}); ended.Status != tasks.Failed {
			t.Errorf("ended = %+v", ended)
		}
		task := f.want(a.Task.ID, tasks.Failed)
		want := &tasks.Error{Kind: tasks.KindTimeout, Message: "slow \ufffd", Retryable: true}
		if d := cmp.Diff(want, task.Error); d != "" {
			t.Errorf("error (-want +got):\n%s", d)
		}
		if d := cmp.Diff(failures, task.Errors); d != "" {
			t.Errorf("errors (-want +got):\n%s", d)
		}
		if info := f.info(a.Task.ID); info.LastErr != "timeout: slow \ufffd" || info.Retried != 0 || info.LastFailedAt.IsZero() {
			t.Errorf("asynq shows %+v", info)
		}
		events, err := f.store.Events(f.ctx(), a.Task.ID, 2, 10)
		if err != nil || len(events) != 1 || cmp.Diff(want, events[0].Error) != "" {
			t.Errorf("events = %+v, %v", events, err)
		}
		f.stats(1, 1)
	})
}

func TestStore_End_Retry(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		id := a.Task.ID
		failures := []tasks.Failure{{Attempt: 1, Kind: tasks.KindError, Message: "boom", At: tasks.AtMilli(1)}}
		ended := f.end(a, bridge.End{Outcome: bridge.Retry, Error: boom(), Failures: failures, Delay: 30 * time.Millisecond})
		if ended.Status != tasks.Retrying {
			t.Errorf("ended = %+v", ended)
		}
		task := f.want(id, tasks.Retrying)
		if task.Error != nil || len(task.Errors) != 1 || task.Interruptions != 0 || task.Attempt != 1 {
			t.Errorf("task = %+v", task)
		}
		if wait := task.ScheduledAt.Sub(a.Began); wait < 30*time.Millisecond || wait > time.Minute {
			t.Errorf("due %v after the attempt began, want 30ms", wait)
		}
		if info := f.info(id); info.LastErr != "error: boom" || info.Retried != 1 {
			t.Errorf("asynq shows %+v", info)
		}
		f.stats(1, 1)

		time.Sleep(50 * time.Millisecond)
		f.forward(1)
		f.want(id, tasks.Pending)
		b := f.take()
		if b.Epoch <= a.Epoch || b.Tries != 1 || b.Task.Attempt != 2 {
			t.Errorf("second attempt = %+v of %+v", b, b.Task)
		}
		f.end(b, bridge.End{Outcome: bridge.Completed})
		if info := f.info(id); info.LastErr != "" || info.Retried != 1 {
			t.Errorf("asynq shows %+v after the second attempt", info)
		}
		want := []tasks.EventKind{tasks.EventCreated, tasks.EventRunning, tasks.EventRetrying, tasks.EventRunning, tasks.EventCompleted}
		if d := cmp.Diff(want, f.kinds(id)); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		f.stats(2, 1)
	})
}

// Released at once: first in line again, no retry spent.
func TestStore_End_Release(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		f.create()
		if ended := f.end(a, bridge.End{Outcome: bridge.Release}); ended.Status != tasks.Pending {
			t.Errorf("ended = %+v", ended)
		}
		if task := f.want(a.Task.ID, tasks.Pending); task.Interruptions != 1 || task.Error != nil {
			t.Errorf("task = %+v", task)
		}
		b := f.take()
		if b.Task.ID != a.Task.ID || b.Tries != 0 || b.Epoch <= a.Epoch {
			t.Errorf("next is %+v of %s, want the released one", b, b.Task.ID)
		}
		f.stats(0, 0)
	})
}

func TestStore_End_ReleaseDelayed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		if ended := f.end(a, bridge.End{Outcome: bridge.Release, Delay: 20 * time.Millisecond}); ended.Status != tasks.Scheduled {
			t.Errorf("ended = %+v", ended)
		}
		if task := f.want(a.Task.ID, tasks.Scheduled); task.Interruptions != 0 || task.Attempt != 0 { // its body never began
			t.Errorf("task = %+v", task)
		}
		if got := f.takeAll(worker, 1); len(got) != 0 {
			t.Errorf("took %+v before its time", got[0].Task)
		}
		time.Sleep(40 * time.Millisecond)
		f.forward(1)
		if b := f.take(); b.Task.ID != a.Task.ID || b.Tries != 0 {
			t.Errorf("took %+v", b)
		}
	})
}

// 1 with another outcome: who was asked to cancel ends cancelled, whatever the body did.
func TestStore_End_CancelWins(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		for _, e := range []bridge.End{
			{Outcome: bridge.Completed, Result: json.RawMessage(`1`)},
			{Outcome: bridge.Failed, Error: boom(), Failures: []tasks.Failure{{Attempt: 1, Message: "boom"}}},
			{Outcome: bridge.Retry, Error: boom(), Delay: time.Hour},
			{Outcome: bridge.Release},
			{Outcome: bridge.Release, Delay: time.Hour},
			{Outcome: bridge.Cancelled, Abandoned: true},
		} {
			a := f.running()
			f.cancel(a.Task.ID)
			f.want(a.Task.ID, tasks.Running)
			time.Sleep(2 * time.Millisecond)
			ended := f.end(a, e)
			if ended.Status != tasks.Cancelled || ended.CancelLatency < time.Millisecond || ended.CancelLatency > time.Minute {
				t.Errorf("%s: ended = %+v", e.Outcome, ended)
			}
			task := f.want(a.Task.ID, tasks.Cancelled)
			if task.Error != nil || len(task.Errors) != 0 || task.Interruptions != 0 || task.Cancel == nil || task.Cancel.Abandoned != e.Abandoned {
				t.Errorf("%s: task = %+v, cancel %+v", e.Outcome, task, task.Cancel)
			}
			if info := f.info(a.Task.ID); !strings.HasPrefix(info.LastErr, "cancelled") || !info.CompletedAt.IsZero() {
				t.Errorf("%s: asynq shows error %q, completed %v", e.Outcome, info.LastErr, info.CompletedAt)
			}
		}
	})
}

// 2: the reply was lost, the end is written once.
func TestStore_End_ReplyLost(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		f.ended(bridge.Completed)
		f.stats(1, 0)
		for i, tc := range []struct {
			end  bridge.End
			want tasks.Status
		}{
			{bridge.End{Outcome: bridge.Completed, Result: json.RawMessage(`1`), Output: "x"}, tasks.Completed},
			{bridge.End{Outcome: bridge.Failed, Error: boom()}, tasks.Failed},
			{bridge.End{Outcome: bridge.Retry, Error: boom(), Delay: time.Hour}, tasks.Retrying},
			{bridge.End{Outcome: bridge.Release, Delay: time.Hour}, tasks.Scheduled},
			{bridge.End{Outcome: bridge.Release}, tasks.Pending}, // last: it would be taken before the next one
		} {
			a := f.running()
			f.wire.lose.Store(2)
			if ended := f.end(a, tc.end); ended.Status != tc.want {
				t.Errorf("case %d: ended = %+v, want %s", i, ended, tc.want)
			}
			task := f.want(a.Task.ID, tc.want)
			again := f.end(a, tc.end) // from the spool, say
			if after := f.want(a.Task.ID, tc.want); again.Status != tc.want || cmp.Diff(task, after) != "" {
				t.Errorf("case %d: ended again = %+v, it changed the task:\n%s", i, again, cmp.Diff(task, after))
			}
		}
		f.stats(4, 2)
		if n := len(f.seen.counts()); n != 0 {
			t.Errorf("counted %v, want nothing", f.seen.counts())
		}
	})
}

// 0 and -1: another attempt has the task, or it has ended, or it is gone. Nothing changes, and it is counted.
func TestStore_End_Stale(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		stale := func(name string, a *bridge.Attempt, want tasks.Status) {
			t.Helper()
			var was *tasks.Task
			if want != "" {
				was = f.get(a.Task.ID)
			}
			for _, e := range []bridge.End{
				{Outcome: bridge.Completed, Result: json.RawMessage(`"stale"`), Output: "stale"},
				{Outcome: bridge.Failed, Error: boom()}, {Outcome: bridge.Retry, Error: boom()}, {Outcome: bridge.Release},
			} {
				ended, err := f.store.End(f.ctx(), a, e)
				if err != nil || !ended.Stale || ended.Status != want {
					t.Errorf("%s: End(%s) = %+v, %v, want stale, %q", name, e.Outcome, ended, err, want)
				}
			}
			if want != "" {
				if d := cmp.Diff(was, f.get(a.Task.ID)); d != "" {
					t.Errorf("%s: a stale end changed the task:\n%s", name, d)
				}
			}
			f.check()
		}
		a := f.running()
		f.takeover(1)
		stale("after the takeover", a, tasks.Pending)
		b := f.take()
		stale("while the next attempt runs", a, tasks.Running)
		f.end(b, bridge.End{Outcome: bridge.Failed, Error: boom()})
		stale("after another attempt's end", a, tasks.Failed)
		if err := f.store.Rerun(f.ctx(), a.Task.ID, "", false); err != nil {
			t.Fatal(err)
		}
		c := f.take()
		stale("in the next run", a, tasks.Running)
		f.end(c, bridge.End{Outcome: bridge.Completed})
		if err := f.store.Delete(f.ctx(), a.Task.ID, ""); err != nil {
			t.Fatal(err)
		}
		stale("after the deletion", a, "")
		want := map[string]int{"stale task_completion": 10, "stale task_retry": 5, "stale task_release": 5}
		if d := cmp.Diff(want, f.seen.counts()); d != "" {
			t.Errorf("counted (-want +got):\n%s", d)
		}
	})
}

// When Redis does not answer, End says so and may be called again.
func TestStore_End_Unavailable(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		f.ended(bridge.Completed)
		for outcome, op := range map[bridge.Outcome]string{
			bridge.Completed: bridge.OpComplete, bridge.Failed: bridge.OpComplete, bridge.Cancelled: bridge.OpComplete,
			bridge.Retry: bridge.OpRetry,
		} {
			a := f.running()
			if outcome == bridge.Cancelled {
				f.cancel(a.Task.ID)
			}
			f.wire.lose.Store(3)
			e := bridge.End{Outcome: outcome, Delay: time.Hour}
			if outcome == bridge.Failed {
				e.Error = boom()
			}
			_, err := f.store.End(f.ctx(), a, e)
			if op2 := (*bridge.OpError)(nil); !errors.As(err, &op2) || op2.Op != op || !errors.Is(err, tasks.ErrUnavailable) {
				t.Errorf("End(%s) = %v, want %s unavailable", outcome, err, op)
			}
			if ended, err := f.store.End(f.ctx(), a, e); err != nil || ended.Stale {
				t.Errorf("End(%s) again = %+v, %v", outcome, ended, err)
			}
		}
		want := map[string]int{"failed task_completion unavailable": 3, "failed task_retry unavailable": 1}
		if d := cmp.Diff(want, f.seen.counts()); d != "" {
			t.Errorf("counted (-want +got):\n%s", d)
		}
	})
}

// A plain producer's uniqueness lock goes with the end of its task, as in asynq.
func TestStore_End_Unique(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		for _, e := range []bridge.End{{Outcome: bridge.Completed}, {Outcome: bridge.Failed, Error: boom()}} {
			f.plainTask(asynq.Unique(time.Hour))
			if _, err := f.plain.Enqueue(asynq.NewTask("plain", []byte(payload)), asynq.Queue(f.queue), asynq.Unique(time.Hour)); !errors.Is(err, asynq.ErrDuplicateTask) {
				t.Fatalf("second enqueue = %v, want %v", err, asynq.ErrDuplicateTask)
			}
			a := f.take()
			f.end(a, e)
		}
		f.plainTask(asynq.Unique(time.Hour))
	})
}

// stats checks asynq's counters of processed and failed tasks.
func (f *fixture) stats(processed, failed int) {
	f.t.Helper()
	q, err := f.inspector.GetQueueInfo(f.queue)
	if err != nil {
		f.t.Fatal(err)
	}
	if q.ProcessedTotal != processed || q.FailedTotal != failed || q.Processed != processed || q.Failed != failed {
		f.t.Errorf("asynq counts %d processed and %d failed (today %d, %d), want %d and %d",
			q.ProcessedTotal, q.FailedTotal, q.Processed, q.Failed, processed, failed)
	}
}

// forward forwards what is due, which must be want tasks.
func (f *fixture) forward(want int64) {
	f.t.Helper()
	if n, err := f.store.Forward(f.ctx(), f.queue); err != nil || n != want {
		f.t.Fatalf("Forward = %d, %v, want %d", n, err, want)
	}
}

// takeover frees the tasks of silent workers, which must be want.
func (f *fixture) takeover(want int64) {
	f.t.Helper()
	took, err := f.store.Takeover(f.ctx(), f.queue, time.Minute, 3)
	if err != nil || took != (bridge.Takeover{Freed: want}) {
		f.t.Fatalf("Takeover = %+v, %v, want %d freed", took, err, want)
	}
}
