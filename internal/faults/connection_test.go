package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"offstage/internal/faults"
)

// TestFault_LostReplies cuts connections between a request and its reply, again and again, while tasks are created,
// taken and ended. Every script recognises its own work, so each task runs once.
func TestFault_LostReplies(t *testing.T) {
	t.Parallel()
	r := rig(t, faults.RigConfig{Daemons: 2, Args: []string{"--concurrency", "3"}})
	stop := during(t, func(ctx context.Context) {
		for ctx.Err() == nil {
			for _, p := range r.Proxies {
				r.Must(p.CutReplies().For(context.WithoutCancel(ctx), 150*time.Millisecond))
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
	r.EnqueueMany(40, "task", faults.Work{For: 50 * time.Millisecond})
	stop()
	report := r.Check(faults.Checker{Once: true, Bound: 20 * time.Second})
	measured(t, "lost_replies %v", report)
}

// TestFault_Reset breaks connections with what is on them, and forgets the scripts and closes all connections in
// Redis.
func TestFault_Reset(t *testing.T) {
	t.Parallel()
	r := rig(t, faults.RigConfig{Daemons: 2, Args: []string{"--concurrency", "3"}})
	stop := during(t, func(ctx context.Context) {
		for whole := context.WithoutCancel(ctx); ctx.Err() == nil; {
			r.Must(r.Redis.ForgetScripts().For(whole, 50*time.Millisecond))
			r.Must(r.Proxies[0].Reset().For(whole, 100*time.Millisecond))
			r.Must(r.Redis.DropClients("normal").For(whole, 50*time.Millisecond))
			r.Must(r.Proxies[1].Refuse().For(whole, 100*time.Millisecond))
			r.Must(r.Redis.DropClients("pubsub").For(whole, 50*time.Millisecond))
		}
	})
	r.EnqueueMany(40, "task", faults.Work{For: 50 * time.Millisecond})
	stop()
	report := r.Check(faults.Checker{Once: true, Bound: 20 * time.Second})
	measured(t, "reset %v", report)
}

// TestFault_CutOff is a worker that is cut off from Redis longer than its lease and goes on: another one does its
// task, and it stops its own body once it hears of that. Its lost connections are half-open.
func TestFault_CutOff(t *testing.T) {
	t.Parallel()
	r := rig(t, faults.RigConfig{Daemons: 2})
	r.Enqueue("task", faults.Work{First: time.Minute, For: 200 * time.Millisecond}, faults.Job{}, 0)
	r.Started(1, "task")
	i := 0
	if !r.Daemons[0].Owned(r.Ledger.Of("task")[0].Daemon) {
		i = 1
	}
	victim, hole := r.Daemons[i], r.Proxies[i].Blackhole()
	r.Daemons = []*faults.Daemon{r.Daemons[1-i]}
	r.Detach(victim)
	r.Inject(hole)
	took := until(t, "the task starts elsewhere", 15*time.Second, func() bool { return len(r.Ledger.Of("task")) == 2 })
	r.Heal(hole)
	gone := until(t, "the old body is dead", 5*time.Second, func() bool { return !alive(r.Ledger.Of("task")[0].PID) })
	report := r.Check(faults.Checker{})
	measured(t, "cut_off %v elsewhere_after=%s old_body_dead_after=%s", report, seconds(took), seconds(gone))
}

// TestCheck19 is check 19: running tasks are cancelled while nothing can be published. They are dead and cancelled in
// time, and are not tried again.
func TestCheck19_CancelWithoutPubSub(t *testing.T) {
	t.Parallel()
	r := rig(t, faults.RigConfig{Daemons: 2, Args: []string{"--concurrency", "3", "--cancel-grace", "1s"}})
	stop := during(t, func(ctx context.Context) {
		for ctx.Err() == nil {
			_ = r.Redis.DropClients("pubsub").For(ctx, 5*time.Millisecond)
		}
	})
	jobs := r.EnqueueMany(4, "task", faults.Work{For: time.Minute, Stubborn: true})
	r.Started(4, keys("task", 4)...)
	began := time.Now()
	for _, j := range jobs {
		r.Jobs.Cancel(t.Context(), r.Daemons, j)
	}
	report := r.Check(faults.Checker{Once: true, Bound: 10 * time.Second})
	took := time.Since(began)
	stop()
	if took > 4*time.Second+500*time.Millisecond {
		t.Errorf("cancelled after %v, want 3 s and the grace of 1 s", took)
	}
	for _, k := range keys("task", 4) {
		if runs := r.Ledger.Of(k); len(runs) != 1 || alive(runs[0].PID) {
			t.Errorf("%s: %d runs, or one that lives", k, len(runs))
		}
	}
	measured(t, "check=19 %v cancelled_after=%s grace=1s", report, seconds(took))
}

// during runs f until the returned func is called, which waits for its end.
func during(t *testing.T, f func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	end := func() { cancel(); wg.Wait() }
	t.Cleanup(end)
	return end
}
