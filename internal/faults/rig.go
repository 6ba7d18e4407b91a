package faults

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"offstage/internal/redistest"
)

// RigConfig says what a [Rig] consists of. The zero value is one daemon on a Redis that syncs every write.
type RigConfig struct {
	Binary  string
	AOF     string // "always" when empty
	Daemons int    // 1 when zero
	Args    []string
	Env     []string
	Redis   []redistest.Option
}

// Rig is a Redis, daemons each with a proxy of its own before it, a ledger, and the jobs that were handed in.
type Rig struct {
	tb      testing.TB
	Redis   *Redis
	Proxies []*Proxy
	Daemons []*Daemon
	Ledger  *Ledger
	Jobs    *Jobs
	Owner   string

	mu       sync.Mutex
	detached map[int]bool
	died     map[int]bool
}

// NewRig starts everything; it ends with the test.
func NewRig(tb testing.TB, c RigConfig) *Rig {
	tb.Helper()
	if c.AOF == "" {
		c.AOF = "always"
	}
	r := &Rig{
		tb: tb, Redis: StartRedis(tb, append([]redistest.Option{redistest.AOF(c.AOF)}, c.Redis...)...), Ledger: NewLedger(tb),
		Jobs: &Jobs{}, Owner: "tester", detached: map[int]bool{}, died: map[int]bool{},
	}
	for i := range max(c.Daemons, 1) {
		name := string(rune('a' + i))
		p := StartProxy(tb, name, r.Redis)
		r.Proxies = append(r.Proxies, p)
		r.Daemons = append(r.Daemons, StartDaemon(tb, DaemonConfig{
			Binary: c.Binary, Name: name, RedisURL: p.URL, Args: c.Args, Env: c.Env,
		}))
	}
	return r
}

// Enqueue hands in a job for a body and fails the test when it is not accepted within 30 s.
func (r *Rig) Enqueue(key string, w Work, job Job, retries int) *Job {
	r.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	spec := r.Ledger.Spec(r.Owner, key, w)
	spec.MaxRetries = &retries
	j := r.Jobs.Enqueue(ctx, r.Daemons, spec, job)
	if j == nil {
		r.tb.Fatalf("%s was not accepted: %v", key, r.Jobs.Odd())
	}
	return j
}

// EnqueueMany hands in n jobs that do the same and spend no retry.
func (r *Rig) EnqueueMany(n int, prefix string, w Work) []*Job {
	r.tb.Helper()
	jobs := make([]*Job, n)
	for i := range jobs {
		jobs[i] = r.Enqueue(fmt.Sprintf("%s-%d", prefix, i), w, Job{}, 0)
	}
	return jobs
}

// Detach notes that the daemon's process may lose tasks without dying.
func (r *Rig) Detach(d *Daemon) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.detached[d.PID()] = true
}

// Detached reports whether a daemon with pid was noted.
func (r *Rig) Detached(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.detached[pid]
}

// Crash is the daemon's fault of that name; its process is noted as one that was killed.
func (r *Rig) Crash(d *Daemon) Fault {
	f := d.Crash()
	inject := f.Inject
	f.Inject = func(ctx context.Context) error {
		r.mu.Lock()
		r.died[d.PID()] = true
		r.mu.Unlock()
		return inject(ctx)
	}
	return f
}

// Died reports whether a daemon with pid was killed by a fault of [Rig.Crash].
func (r *Rig) Died(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.died[pid]
}

// Started waits until n runs of the keys have begun.
func (r *Rig) Started(n int, keys ...string) {
	r.tb.Helper()
	_, ok := within(context.Background(), 20*time.Second, func() bool {
		runs, _ := r.Ledger.Runs()
		begun := 0
		for _, k := range keys {
			begun += len(runs[k])
		}
		return begun >= n
	})
	if !ok {
		r.tb.Fatalf("%d runs of %v have not begun in 20 s", n, keys)
	}
}

// Must makes a fault happen or heal, or fails the test.
func (r *Rig) Must(err error) {
	r.tb.Helper()
	if err != nil {
		r.tb.Fatal(err)
	}
}

// Inject makes a fault happen.
func (r *Rig) Inject(f Fault) {
	r.tb.Helper()
	r.Must(f.Inject(context.Background()))
}

// Heal ends a fault.
func (r *Rig) Heal(f Fault) {
	r.tb.Helper()
	r.Must(f.Heal(context.Background()))
}

// Check holds everything accepted so far against the promises and reports what is broken as errors of the test.
func (r *Rig) Check(c Checker) *Report {
	r.tb.Helper()
	return r.CheckWith(c, r.Died)
}

// CheckWith is Check when daemons were killed that are not the rig's own.
func (r *Rig) CheckWith(c Checker, died func(pid int) bool) *Report {
	r.tb.Helper()
	c.Client, c.Ledger, c.Owner = r.Daemons[0].Client, r.Ledger, r.Owner
	c.Detached, c.Died = r.Detached, died
	if c.Bound == 0 {
		c.Bound = 40 * time.Second
	}
	report := c.Check(context.Background(), r.Jobs.All())
	report.Problems = append(report.Problems, r.Jobs.Odd()...)
	for i, p := range report.Problems {
		if i == 20 {
			r.tb.Errorf("and %d more", len(report.Problems)-i)
			break
		}
		r.tb.Error(p)
	}
	return report
}
