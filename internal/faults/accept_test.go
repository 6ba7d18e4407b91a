package faults_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"offstage/client"
	"offstage/internal/faults"
	"offstage/tasks"
)

// TestCheck01 is check 1: Redis is killed again and again under 8 producers. With "always", what was acknowledged is
// there; with "everysec", what is missing is younger than Redis may put off its writes. Tasks are accepted again soon
// after Redis is ready.
func TestCheck01_KillRedis(t *testing.T) {
	t.Parallel()
	for _, fsync := range []string{"always", "everysec"} {
		t.Run(fsync, func(t *testing.T) {
			t.Parallel()
			checkKillRedis(t, fsync, 3)
		})
	}
}

func checkKillRedis(t *testing.T, fsync string, rounds int) {
	t.Helper()
	r := rig(t, faults.RigConfig{AOF: fsync, Env: []string{"OFFSTAGE_WORKER_ENABLED=false"}})
	var acks acknowledged
	stop := acks.produce(t, r, 8)
	var slowest time.Duration
	var kills []time.Time
	for range rounds {
		time.Sleep(700*time.Millisecond + rand.N(300*time.Millisecond))
		kills = append(kills, time.Now())
		r.Inject(r.Redis.Kill())
		r.Heal(r.Redis.Kill())
		ready := time.Now()
		slowest = max(slowest, until(t, "accepting again", 5*time.Second, func() bool { return acks.since(ready) }))
	}
	stop()
	total, missing := len(acks.at), acks.missing(t, r)
	oldest := time.Duration(0)
	for _, at := range missing {
		for _, k := range kills {
			if age := k.Sub(at); age > -100*time.Millisecond { // acknowledged before this kill, and the first such
				oldest = max(oldest, age)
				break
			}
		}
	}
	// While an fsync runs, Redis puts off its writes for up to 2 s under "everysec" and acknowledges all the same.
	if len(missing) > 0 && (fsync == "always" || oldest > 2500*time.Millisecond) {
		t.Errorf("%d of %d acknowledged tasks are missing, the oldest was acknowledged %v before the kill", len(missing), total, oldest)
	}
	measured(t, "check=1 fsync=%s rounds=%d acknowledged=%d missing=%d oldest_missing=%s accepting_after_worst=%s", fsync, rounds, total,
		len(missing), seconds(oldest), seconds(slowest))
}

// acknowledged is what was accepted, and when.
type acknowledged struct {
	mu   sync.Mutex
	at   map[string]time.Time
	last time.Time
}

// produce enqueues with n producers until the returned func is called.
func (a *acknowledged) produce(t *testing.T, r *faults.Rig, n int) (stop func()) {
	t.Helper()
	a.at = map[string]time.Time{}
	return during(t, func(ctx context.Context) {
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				for ctx.Err() == nil {
					task, _, err := r.Daemons[0].Client.Enqueue(ctx, tasks.Spec{Type: "none", Owner: r.Owner})
					if err == nil {
						a.add(task.ID)
					}
				}
			})
		}
		wg.Wait()
	})
}

func (a *acknowledged) add(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = time.Now()
	a.at[id] = a.last
}

// since reports whether anything was accepted after t.
func (a *acknowledged) since(t time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last.After(t)
}

// missing is what the daemon does not list.
func (a *acknowledged) missing(t *testing.T, r *faults.Rig) map[string]time.Time {
	t.Helper()
	left := maps.Clone(a.at)
	for task, err := range r.Daemons[0].Client.All(t.Context(), client.Filter{Owner: r.Owner, PageSize: 200}) {
		if err != nil {
			t.Fatal(err)
		}
		delete(left, task.ID)
	}
	return left
}

// TestCheck03 is check 3: the daemon is killed after the record was written and before the response. The same
// Idempotency-Key gives the original, and there is no second task.
func TestCheck03_KillBeforeResponse(t *testing.T) {
	t.Parallel()
	checkKillBeforeResponse(t, 10)
}

func checkKillBeforeResponse(t *testing.T, rounds int) {
	t.Helper()
	r := rig(t, faults.RigConfig{Env: []string{"OFFSTAGE_WORKER_ENABLED=false"}})
	d := r.Daemons[0]
	ids := map[string]bool{}
	for i := range rounds {
		spec := tasks.Spec{Type: "none", Owner: r.Owner, IdempotencyKey: fmt.Sprintf("round-%d", i)}
		killBeforeResponse(t, r, spec)
		task, created, err := d.Client.Enqueue(t.Context(), spec)
		if err != nil || created {
			t.Errorf("with the key again: created %v, %v, want the original", created, err)
			continue
		}
		ids[task.ID] = true
	}
	found := 0
	for _, err := range d.Client.All(t.Context(), client.Filter{Owner: r.Owner}) {
		if err != nil {
			t.Fatal(err)
		}
		found++
	}
	if found != rounds || len(ids) != rounds {
		t.Errorf("%d tasks and %d ids after %d rounds", found, len(ids), rounds)
	}
	measured(t, "check=3 rounds=%d tasks=%d duplicates=%d", rounds, found, found-rounds)
}

// killBeforeResponse enqueues, kills the daemon as soon as the record is written, and starts it again.
func killBeforeResponse(t *testing.T, r *faults.Rig, spec tasks.Spec) {
	t.Helper()
	d, lag := r.Daemons[0], r.Proxies[0].LateReplies(300)
	once, err := client.New(d.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = once.Close() }()
	r.Inject(lag)
	answered := make(chan error, 1)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	go func() { _, _, err := once.Enqueue(ctx, spec); answered <- err }()
	until(t, "the record is written", 5*time.Second, func() bool {
		n, _ := r.Redis.Admin.Exists(t.Context(), "offstage:{default}:idem:"+r.Owner+":"+spec.IdempotencyKey).Result()
		return n == 1
	})
	d.Kill()
	giveUp()
	if err := <-answered; err == nil {
		t.Error("the answer came before the kill, so this round tests nothing")
	}
	r.Heal(lag)
	r.Must(d.RestartUntilUp(ctxFor(t, 30*time.Second)))
}

// TestCheck32 is check 32: Redis has no memory left. New tasks are refused with the reason, running ones finish once
// and are recorded, and nobody spins.
func TestCheck32_OutOfMemory(t *testing.T) {
	t.Parallel()
	checkOutOfMemory(t, 5*time.Second)
}

func checkOutOfMemory(t *testing.T, full time.Duration) {
	t.Helper()
	r := rig(t, faults.RigConfig{Args: []string{"--concurrency", "6"}})
	d := r.Daemons[0]
	r.EnqueueMany(4, "task", faults.Work{For: 2 * time.Second})
	r.Started(4, keys("task", 4)...)
	oom := r.Redis.OutOfMemory()
	r.Inject(oom)
	began := time.Now()
	once, err := client.New(d.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // too short for the client to try again
	_, _, err = once.Enqueue(ctx, tasks.Spec{Type: "none", Owner: r.Owner})
	cancel()
	_ = once.Close()
	if refusal := fmt.Sprint(err); err == nil || !strings.Contains(refusal, "memory") && !strings.Contains(refusal, "OOM") {
		t.Errorf("enqueue = %v, want a refusal that says why", err)
	}
	before := refusals(r, "OOM")
	time.Sleep(full - time.Since(began))
	rate := float64(refusals(r, "OOM")-before) / time.Since(began).Seconds()
	r.Heal(oom)
	healed := time.Now()
	report := r.Check(faults.Checker{Once: true, Bound: 15 * time.Second})
	if rate > 8 { // takes at most 5/s, and the beats and ends beside them
		t.Errorf("Redis refused %.1f commands a second", rate)
	}
	measured(t, "check=32 %v full=%v refused_per_second=%.1f recorded_after=%s", report, full, rate, seconds(time.Since(healed)))
}

// refusals is how often Redis has answered with an error code.
func refusals(r *faults.Rig, code string) (n int) {
	info := r.Redis.Admin.Info(context.Background(), "errorstats").Val()
	_, rest, ok := strings.Cut(info, "errorstat_"+code+":count=")
	if ok {
		_, _ = fmt.Sscan(strings.SplitN(rest, "\r\n", 2)[0], &n)
	}
	return n
}

// TestCheck33 is check 33: states in which Redis refuses its service, one after the other. The daemon says not-ready
// soon, lives all along, keeps quiet and is well again soon after.
func TestCheck33_Unavailable(t *testing.T) {
	t.Parallel()
	checkUnavailable(t, 4*time.Second)
}

func checkUnavailable(t *testing.T, lasting time.Duration) {
	t.Helper()
	faultsOf := map[string]func(*faults.Rig) faults.Fault{
		"misconf":  func(r *faults.Rig) faults.Fault { return r.Redis.DiskFull() },
		"readonly": func(r *faults.Rig) faults.Fault { return r.Redis.ReadOnly() },
		"busy":     func(r *faults.Rig) faults.Fault { return r.Redis.Busy() },
		"refused":  func(r *faults.Rig) faults.Fault { return r.Proxies[0].Refuse() },
		"hung":     func(r *faults.Rig) faults.Fault { return r.Redis.Hang() },
	}
	for name, of := range faultsOf {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig(t, faults.RigConfig{})
			checkOneUnavailable(t, r, name, of(r), lasting)
		})
	}
}

func checkOneUnavailable(t *testing.T, r *faults.Rig, name string, f faults.Fault, lasting time.Duration) {
	t.Helper()
	d := r.Daemons[0]
	r.EnqueueMany(1, "running", faults.Work{For: lasting / 2})
	r.Started(1, "running-0")
	lines, cpu, began := strings.Count(d.Log(), "\n"), d.CPU(), time.Now()
	r.Inject(f)
	notReady := until(t, "not ready", 4*time.Second, func() bool { code, _ := d.Status("/readyz"); return code == 503 })
	for time.Since(began) < lasting {
		if code, body := d.Status("/livez"); code != 200 {
			t.Errorf("livez is %d %s meanwhile", code, body)
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	load := 100 * (d.CPU() - cpu).Seconds() / time.Since(began).Seconds()
	lines = strings.Count(d.Log(), "\n") - lines
	r.Heal(f)
	healed := time.Now()
	until(t, "ready again", 5*time.Second, func() bool { code, _ := d.Status("/readyz"); return code == 200 })
	r.EnqueueMany(1, "after", faults.Work{})
	report := r.Check(faults.Checker{Once: true, Bound: 15 * time.Second})
	recovered := time.Since(healed)
	if recovered > 5*time.Second {
		t.Errorf("a task ran %v after the fault was healed, want at most 5 s", recovered)
	}
	if lines > 20 {
		t.Errorf("%d lines of log in %v", lines, lasting)
	}
	if load > 10 {
		t.Errorf("%.0f %% of a processor", load)
	}
	measured(t, "check=33 state=%s %v not_ready_after=%s recovered_after=%s cpu=%.1f%% log_lines=%d", name, report,
		seconds(notReady), seconds(recovered), load, lines)
}
