package faults_test

import (
	"fmt"
	"testing"
	"time"

	"offstage/internal/faults"
)

// TestCheck17 is check 17: the daemon is killed at a write to its store, before Redis sees it or before the daemon sees
// the reply. Whatever write that was, there is one terminal status and one terminal event. The long form goes through
// all writes of a few tasks' lives.
func TestCheck17_CrashPoints(t *testing.T) {
	t.Parallel()
	checkCrashPoints(t, 4, 7)
}

func checkCrashPoints(t *testing.T, points ...int) {
	t.Helper()
	for _, n := range points {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/after=%v", n, after), func(t *testing.T) {
				t.Parallel()
				checkCrashPoint(t, n, after)
			})
		}
	}
}

func checkCrashPoint(t *testing.T, n int, after bool) {
	t.Helper()
	r := rig(t, faults.RigConfig{Env: []string{"OFFSTAGE_WORKER_ENABLED=false"}}) // the daemon that is asked, and enqueues
	crash := make(chan struct{})
	wire := faults.StartTripwire(t, r.Redis, n, after, func() { close(crash) })
	d := faults.StartDaemon(t, faults.DaemonConfig{Binary: binary, Name: "worker", RedisURL: wire.URL, Args: []string{"--concurrency", "2"}})
	for i := range 4 {
		w := faults.Work{For: 300 * time.Millisecond, Fail: i % 2}
		r.Enqueue(fmt.Sprintf("task-%d", i), w, faults.Job{Failures: i % 2}, i%2)
	}
	select {
	case <-crash:
	case <-time.After(20 * time.Second):
		t.Fatalf("there was no write number %d", n)
	}
	pid := d.PID()
	d.Kill()
	began := time.Now()
	next := faults.StartDaemon(t, faults.DaemonConfig{Binary: binary, Name: "next", RedisURL: r.Proxies[0].URL, Args: []string{"--concurrency", "2"}})
	report := r.CheckWith(faults.Checker{Bound: 30 * time.Second}, func(p int) bool { return p == pid })
	measured(t, "check=17 write=%d after=%v %v all_ended_after=%s", n, after, report, seconds(time.Since(began)))
	_ = next
}
