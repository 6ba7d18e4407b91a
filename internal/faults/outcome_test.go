package faults_test

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"offstage/internal/faults"
	"offstage/tasks"
)

// TestCheck07 is check 7: writes are refused for 2 s while bodies end. They are recorded and do not run again.
func TestCheck07_WriteRefusal(t *testing.T) {
	t.Parallel()
	r := rig(t, faults.RigConfig{})
	r.EnqueueMany(4, "task", faults.Work{For: time.Second})
	r.Started(4, keys("task", 4)...)
	began := time.Now()
	r.Must(r.Redis.RefuseWrites().For(t.Context(), 2*time.Second))
	report := r.Check(faults.Checker{Once: true, Bound: 10 * time.Second})
	measured(t, "check=7 %v completed_after=%s commit_failures=%.0f", report, seconds(time.Since(began)), commitFailures(r.Daemons[0]))
	if commitFailures(r.Daemons[0]) == 0 {
		t.Error("no failed commit was counted: the fault did not meet an end")
	}
}

// TestCheck08 is check 8: a worker is stopped longer than its lease. Another one does the work; the old body is gone
// within a second once its daemon can run again, and its late writes change nothing and are counted.
func TestCheck08_Zombie(t *testing.T) {
	t.Parallel()
	checkZombie(t, 13*time.Second, false)
}

// checkZombie does it with a body that heeds SIGTERM, or is deaf to it.
func checkZombie(t *testing.T, stopped time.Duration, deaf bool) {
	t.Helper()
	r := rig(t, faults.RigConfig{Daemons: 2, Args: []string{"--concurrency", "1"}})
	work := faults.Work{For: 500 * time.Millisecond, First: stopped + 60*time.Second, Stubborn: deaf}
	r.Enqueue("task", work, faults.Job{}, 0)
	r.Started(1, "task")
	victim, other := r.Daemons[0], r.Daemons[1]
	if !victim.Owned(r.Ledger.Of("task")[0].Daemon) {
		victim, other = other, victim
	}
	r.Daemons = []*faults.Daemon{other}
	freeze := victim.Freeze()
	r.Detach(victim)
	r.Inject(freeze)
	frozen := time.Now()
	time.Sleep(stopped)
	old := r.Ledger.Of("task")[0]
	r.Heal(freeze)
	gone := until(t, "the old body is dead", 5*time.Second, func() bool { return !alive(old.PID) })
	if gone > time.Second+500*time.Millisecond {
		t.Errorf("the old body lived %v after its daemon could run again, want at most 1 s", gone)
	}
	until(t, "a stale write is counted", 5*time.Second, func() bool { return victim.Metric(`offstage_stale_writes_total\{[^}]*\}`) > 0 })
	report := r.Check(faults.Checker{})
	again := time.Duration(0)
	if runs := r.Ledger.Of("task"); len(runs) == 2 {
		again = runs[1].Start.Sub(frozen)
	} else {
		t.Errorf("%d runs, want 2", len(runs))
	}
	if again > 15*time.Second {
		t.Errorf("started again elsewhere after %v, want at most 15 s", again)
	}
	measured(t, "check=8 deaf=%v %v elsewhere_after=%s old_body_dead_after=%s stale_writes=%.0f", deaf, report, seconds(again), seconds(gone),
		victim.Metric(`offstage_stale_writes_total\{[^}]*\}`))
}

// TestCheck10 is check 10: Redis stalls longer than a lease while tasks run and others wait. Nothing runs twice, no
// retry is spent, all complete.
func TestCheck10_Stall(t *testing.T) {
	t.Parallel()
	checkStall(t, 12*time.Second)
}

func checkStall(t *testing.T, stall time.Duration) {
	t.Helper()
	r := rig(t, faults.RigConfig{Daemons: 2, Args: []string{"--concurrency", "3"}})
	r.EnqueueMany(4, "running", faults.Work{For: stall + 3*time.Second})
	r.Started(4, keys("running", 4)...)
	r.EnqueueMany(2, "ending", faults.Work{For: time.Second})
	r.EnqueueMany(6, "waiting", faults.Work{For: 200 * time.Millisecond})
	r.Inject(r.Redis.Stall(stall))
	began := time.Now()
	time.Sleep(stall)
	report := r.Check(faults.Checker{Once: true, Bound: 40 * time.Second})
	if report.Interruptions > 0 {
		t.Errorf("%d interruptions, want none", report.Interruptions)
	}
	measured(t, "check=10 %v stall=%v all_completed_after=%s", report, stall, seconds(time.Since(began)-stall))
}

// TestCheck11 is check 11: Redis is away while tasks finish. Each is recorded after it returns and ran once.
func TestCheck11_Away(t *testing.T) {
	t.Parallel()
	checkAway(t, 12*time.Second, false)
}

// TestCheck11_KilledMeanwhile is check 11 with a daemon that is killed and started again during the outage: what had
// ended is in its spool.
func TestCheck11_KilledMeanwhile(t *testing.T) {
	t.Parallel()
	checkAway(t, 12*time.Second, true)
}

func checkAway(t *testing.T, away time.Duration, kill bool) {
	t.Helper()
	r := rig(t, faults.RigConfig{Args: []string{"--concurrency", "20", "--set", "commit.hold=2s"}})
	d := r.Daemons[0]
	for i := range 20 {
		r.Enqueue(fmt.Sprintf("task-%d", i), faults.Work{For: 2*time.Second + time.Duration(i)*100*time.Millisecond}, faults.Job{}, 0)
	}
	r.Started(20, keys("task", 20)...)
	r.Inject(r.Redis.Kill())
	began := time.Now()
	until(t, "all bodies are done", 15*time.Second, func() bool { return done(r, keys("task", 20)) })
	until(t, "failed commits are counted", 10*time.Second, func() bool { return commitFailures(d) > 0 })
	failures := commitFailures(d)
	back := make(chan error, 1)
	if kill {
		until(t, "all ends are in the spool", 8*time.Second, func() bool { return d.Metric("offstage_spool_records") == 20 })
		d.Kill()
		ctx := ctxFor(t, time.Minute)
		go func() { back <- d.RestartUntilUp(ctx) }()
	} else {
		back <- nil
	}
	time.Sleep(away - time.Since(began))
	r.Heal(r.Redis.Kill())
	returned := time.Now()
	r.Must(<-back)
	report := r.Check(faults.Checker{Once: true, Bound: 30 * time.Second})
	recovered := time.Since(returned)
	if report.Interruptions > 0 {
		t.Errorf("%d interruptions, want none", report.Interruptions)
	}
	until(t, "the spool is empty", 5*time.Second, func() bool { return d.Metric("offstage_spool_records") == 0 })
	measured(t, "check=11 killed=%v %v away=%v recorded_after=%s commit_failures=%.0f", kill, report, away, seconds(recovered), failures)
}

// TestCheck12 is check 12: SIGTERM with a task that ignores it. It is killed at the end of the grace, its task is put
// back after that, and the next attempt spends no retry.
func TestCheck12_Drain(t *testing.T) {
	t.Parallel()
	r := rig(t, faults.RigConfig{Daemons: 2, Args: []string{"--concurrency", "1", "--drain-timeout", "1s", "--cancel-grace", "1s"}})
	r.Enqueue("deaf", faults.Work{First: time.Minute, For: 300 * time.Millisecond, Stubborn: true}, faults.Job{}, 0)
	r.Started(1, "deaf")
	victim, other := r.Daemons[0], r.Daemons[1]
	if !victim.Owned(r.Ledger.Of("deaf")[0].Daemon) {
		victim, other = other, victim
	}
	r.Daemons = []*faults.Daemon{other}
	code, took, err := victim.Terminate(t.Context(), 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 || took > 6*time.Second {
		t.Errorf("exit code %d after %v, want 0 within 6 s:\n%s", code, took, victim.Log())
	}
	report := r.Check(faults.Checker{})
	if report.Interruptions != 1 || report.Overlaps != 0 || report.Runs != 2 {
		t.Errorf("%v, want one interruption, two runs, no overlap", report)
	}
	gap := time.Duration(0)
	if runs := r.Ledger.Of("deaf"); len(runs) == 2 {
		gap = runs[1].Start.Sub(runs[0].Last)
	}
	measured(t, "check=12 %v exit_after=%s next_attempt_after=%s", report, seconds(took), seconds(gap))
}

// TestCheck13 is check 13: SIGTERM while Redis hangs. The daemon exits in time, not with 0, and what had ended is not
// run again.
func TestCheck13_DrainWithoutRedis(t *testing.T) {
	t.Parallel()
	r := rig(t, faults.RigConfig{Args: []string{"--drain-timeout", "2s", "--cancel-grace", "1s"}})
	d := r.Daemons[0]
	r.EnqueueMany(5, "task", faults.Work{For: 500 * time.Millisecond})
	r.Started(5, keys("task", 5)...)
	hang := r.Redis.Hang()
	r.Inject(hang)
	until(t, "all bodies are done", 5*time.Second, func() bool { return done(r, keys("task", 5)) })
	code, took, err := d.Terminate(t.Context(), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	log := d.Log()
	if code <= 0 || took > 12*time.Second || strings.Contains(log, "goroutine ") {
		t.Errorf("exit code %d after %v, want another than 0 within 12 s and no panic:\n%s", code, took, log)
	}
	r.Heal(hang)
	r.Must(d.RestartUntilUp(ctxFor(t, 30*time.Second)))
	report := r.Check(faults.Checker{Once: true})
	measured(t, "check=13 %v exit_code=%d exit_after=%s", report, code, seconds(took))
}

func keys(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return list
}

// done reports whether a body of each key has come to its end.
func done(r *faults.Rig, keys []string) bool {
	runs, err := r.Ledger.Runs()
	if err != nil {
		return false
	}
	for _, k := range keys {
		if len(runs[k]) == 0 || !runs[k][len(runs[k])-1].Done {
			return false
		}
	}
	return true
}

// alive reports whether pid runs; a zombie that waits for its reaper does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat := readFile(fmt.Sprintf("/proc/%d/stat", pid))
	return stat != "" && !regexp.MustCompile(`\) [ZX] `).MatchString(stat)
}

func commitFailures(d *faults.Daemon) float64 {
	return d.Metric(`offstage_state_commit_failures_total\{operation="task_completion",reason="\w+"\}`)
}

// failed is what a job may end with when it is made to fail.
func failed() []tasks.Status { return []tasks.Status{tasks.Failed} }
