//go:build soak

package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"offstage/internal/faults"
	"offstage/tasks"
)

// TestSoak throws random faults at three daemons under load, one after the other and sometimes two at once, heals
// everything, and holds every accepted task against the promises. SOAK_SEED repeats a schedule, SOAK_MINUTES says how
// long.
func TestSoak(t *testing.T) { soak(t, anyFault, false) }

// TestSoakOutages is TestSoak with faults of Redis only: every body runs once.
func TestSoakOutages(t *testing.T) { soak(t, outage, true) }

func soak(t *testing.T, pick picker, once bool) {
	t.Helper()
	seed, minutes := variable(t, "SOAK_SEED", uint64(time.Now().UnixNano())), variable(t, "SOAK_MINUTES", 5.0)
	t.Logf("seed: SOAK_SEED=%d SOAK_MINUTES=%g", seed, minutes)
	rnd := rand.New(rand.NewPCG(seed, seed))
	r := rig(t, faults.RigConfig{
		Daemons: 3, // on appendfsync always: with less, Redis itself forgets what it acknowledged when it is killed
		Args:    []string{"--concurrency", "4", "--drain-timeout", "2s", "--cancel-grace", "1s", "--set", "commit.hold=2s"},
		Env:     []string{"OFFSTAGE_TASK_MAX_INTERRUPTIONS=1000"},
	})
	ctx, stop := context.WithTimeout(t.Context(), time.Duration(minutes*float64(time.Minute)))
	defer stop()
	var producers sync.WaitGroup
	for i := range 4 {
		own := rand.New(rand.NewPCG(seed, uint64(i))) // so that a seed gives the same tasks whatever the timing
		producers.Go(func() { produce(ctx, r, own, i) })
	}
	n := schedule(ctx, t, r, rnd, pick)
	producers.Wait()
	for _, d := range r.Daemons {
		if !d.Running() {
			r.Must(d.RestartUntilUp(t.Context()))
		}
	}
	healed := time.Now()
	report := r.Check(faults.Checker{Once: once, Bound: 3 * time.Minute})
	measured(t, "soak once=%v seed=%d minutes=%g faults=%d %v all_ended_after=%s", once, seed, minutes, n, report, seconds(time.Since(healed)))
	settled(t, r)
}

// variable is a number from the environment.
func variable[T uint64 | float64](t *testing.T, name string, def T) T {
	t.Helper()
	v := def
	if s := os.Getenv(name); s != "" {
		if _, err := fmt.Sscan(s, &v); err != nil {
			t.Fatalf("%s=%s: %v", name, s, err)
		}
	}
	return v
}

// picker draws a fault and how long it lasts.
type picker func(*faults.Rig, *rand.Rand) (faults.Fault, time.Duration)

// schedule breaks and heals until ctx ends; it returns how many faults there were.
func schedule(ctx context.Context, t *testing.T, r *faults.Rig, rnd *rand.Rand, pick picker) int {
	t.Helper()
	n := 0
	for ; ctx.Err() == nil; n++ {
		f, lasts := pick(r, rnd)
		second, again := pick(r, rnd)
		both := rnd.IntN(4) == 0 && second.Name != f.Name
		t.Logf("%s fault %d: %s for %v, also %v (%s)", time.Now().Format("15:04:05.000"), n, f.Name, lasts, both, second.Name)
		var wg sync.WaitGroup
		wg.Go(func() { hit(t, f, lasts) })
		if both {
			wg.Go(func() { hit(t, second, again) })
		}
		wg.Wait()
		time.Sleep(time.Duration(500+rnd.IntN(3000)) * time.Millisecond)
	}
	return n
}

func hit(t *testing.T, f faults.Fault, lasts time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := f.For(ctx, lasts); err != nil {
		// Another fault may be in the way: what matters is that all is well at the end.
		t.Logf("%s: %v", f.Name, err)
	}
	if err := f.Heal(ctx); err != nil {
		t.Logf("%s, healing again: %v", f.Name, err)
	}
}

// anyFault draws from all there is.
func anyFault(r *faults.Rig, rnd *rand.Rand) (faults.Fault, time.Duration) {
	i := rnd.IntN(len(r.Daemons))
	d, p := r.Daemons[i], r.Proxies[i]
	brief, long := upTo(rnd, 4*time.Second), upTo(rnd, 16*time.Second)
	switch rnd.IntN(16) {
	case 0, 1:
		return r.Crash(d), brief
	case 2:
		return detaching(r, d, d.Freeze()), long
	case 3:
		return d.Roll(), 0
	case 4:
		return detaching(r, d, p.Refuse()), long
	case 5:
		return detaching(r, d, p.Blackhole()), long
	case 6:
		return detaching(r, d, p.CutReplies()), brief
	}
	return outage(r, rnd)
}

// outage draws from the faults of Redis.
func outage(r *faults.Rig, rnd *rand.Rand) (faults.Fault, time.Duration) {
	brief, long := upTo(rnd, 4*time.Second), upTo(rnd, 16*time.Second)
	switch rnd.IntN(10) {
	case 0, 1:
		return r.Redis.Kill(), brief
	case 2:
		return r.Redis.Hang(), long
	case 3:
		return r.Redis.Stall(long), long
	case 4:
		return r.Redis.RefuseWrites(), long
	case 5:
		return r.Redis.OutOfMemory(), long
	case 6:
		return r.Redis.ReadOnly(), long
	case 7:
		return r.Redis.DiskFull(), brief
	case 8:
		return r.Redis.ForgetScripts(), 0
	}
	return r.Redis.DropClients([]string{"normal", "pubsub"}[rnd.IntN(2)]), 0
}

func upTo(rnd *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rnd.Int64N(int64(d))).Round(time.Millisecond)
}

// detaching notes that the daemon may lose its tasks to the fault without dying.
func detaching(r *faults.Rig, d *faults.Daemon, f faults.Fault) faults.Fault {
	inject := f.Inject
	f.Inject = func(ctx context.Context) error {
		r.Detach(d)
		return inject(ctx)
	}
	heal := f.Heal
	f.Heal = func(ctx context.Context) error {
		r.Detach(d) // it may have been started anew meanwhile
		return heal(ctx)
	}
	return f
}

// produce hands in tasks of all kinds until ctx ends, and cancels some.
func produce(ctx context.Context, r *faults.Rig, rnd *rand.Rand, n int) {
	var cancels sync.WaitGroup
	defer cancels.Wait()
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Minute)
	defer stop()
	for i := 0; ctx.Err() == nil; i++ {
		spec, job, cancelAfter := draw(r, rnd, fmt.Sprintf("p%d-%d", n, i))
		from := rnd.IntN(len(r.Daemons))
		daemons := append(append([]*faults.Daemon{}, r.Daemons[from:]...), r.Daemons[:from]...)
		accepted := r.Jobs.Enqueue(last, daemons, spec, job)
		if accepted != nil && cancelAfter > 0 {
			cancels.Go(func() {
				time.Sleep(cancelAfter)
				r.Jobs.Cancel(last, daemons, accepted)
			})
		}
		time.Sleep(time.Duration(100+rnd.IntN(900)) * time.Millisecond)
	}
}

// draw makes up a task.
func draw(r *faults.Rig, rnd *rand.Rand, key string) (spec tasks.Spec, job faults.Job, cancelAfter time.Duration) {
	w := faults.Work{For: time.Duration(rnd.IntN(1000)) * time.Millisecond}
	retries := 0
	kind := rnd.IntN(10)
	long, pause := time.Duration(2+rnd.IntN(8))*time.Second, time.Duration(1+rnd.IntN(3000))*time.Millisecond
	switch kind {
	case 0, 1: // long
		w.For = long
	case 2: // fails, then works
		w.Fail, retries, job.Failures = 2, 2, 2
	case 3: // fails for good
		w.Fail, retries, job.Failures, job.Ends = 99, 1, 1, failed()
	case 4: // deaf
		w.For, w.Stubborn = long, true
	case 5, 6: // cancelled
		w.For, w.Stubborn, cancelAfter = long, kind == 6, pause
	}
	spec = r.Ledger.Spec(r.Owner, key, w)
	spec.MaxRetries = &retries
	spec.Backoff = &tasks.Backoff{Base: tasks.Duration(200 * time.Millisecond), Max: tasks.Duration(time.Second)}
	if kind == 7 {
		spec.Delay = pause
	}
	return spec, job, cancelAfter
}

// settled wants nothing left over: no body, no live id, no entry, counts that add up.
func settled(t *testing.T, r *faults.Rig) {
	t.Helper()
	runs, err := r.Ledger.Runs()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range runs {
		for _, run := range list {
			if alive(run.PID) {
				t.Errorf("%s: a body still runs as process %d", run.Key, run.PID)
			}
		}
	}
	until(t, "asynq's lists are empty", 30*time.Second, func() bool {
		q, err := r.Daemons[0].Client.Queue(t.Context(), "default")
		if err != nil {
			return false
		}
		active := r.Redis.Admin.LLen(t.Context(), "asynq:{default}:active").Val()
		live := r.Redis.Admin.ZCard(t.Context(), "offstage:{default}:live").Val()
		ended := q.Counts[tasks.Completed] + q.Counts[tasks.Failed] + q.Counts[tasks.Cancelled]
		return active == 0 && live == 0 && q.Backlog == 0 && int(ended) == len(r.Jobs.All()) &&
			q.Counts[tasks.Running] == 0 && q.Counts[tasks.Pending] == 0 && q.Counts[tasks.Retrying] == 0
	})
	for _, d := range r.Daemons {
		until(t, "the spool of "+d.Name+" is empty", 30*time.Second, func() bool { return d.Metric("offstage_spool_records") == 0 })
	}
}

// TestSoakChecks runs the checks in their long form, which their numbers in docs/guarantees.md refer to.
func TestSoakChecks(t *testing.T) {
	t.Run("01", func(t *testing.T) { checkKillRedis(t, "always", 10) })
	t.Run("03", func(t *testing.T) { checkKillBeforeResponse(t, 100) })
	t.Run("08", func(t *testing.T) { checkZombie(t, time.Minute, false) })
	t.Run("08Deaf", func(t *testing.T) { checkZombie(t, 13*time.Second, true) })
	t.Run("10", func(t *testing.T) { checkStall(t, 40*time.Second) })
	t.Run("11", func(t *testing.T) { checkAway(t, time.Minute, false) })
	t.Run("11Killed", func(t *testing.T) { checkAway(t, time.Minute, true) })
	t.Run("24", func(t *testing.T) { checkPoison(t, 3) })
	t.Run("24Bystanders", func(t *testing.T) { checkBystanders(t) })
	t.Run("17", func(t *testing.T) {
		var points []int
		for n := 1; n <= 16; n++ {
			points = append(points, n)
		}
		checkCrashPoints(t, points...)
	})
	t.Run("31", func(t *testing.T) { checkRetrySpread(t, 10_000) })
	t.Run("32", func(t *testing.T) { checkOutOfMemory(t, time.Minute) })
	t.Run("33", func(t *testing.T) { checkUnavailable(t, 30*time.Second) })
}
