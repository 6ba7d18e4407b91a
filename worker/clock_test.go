package worker_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"offstage/internal/redistest"
	"offstage/tasks"
	"offstage/worker"
)

// shiftedRedis starts a Redis whose wall clock is off by so many seconds.
func shiftedRedis(t *testing.T, seconds int) *redistest.Server {
	t.Helper()
	lib := filepath.Join(t.TempDir(), "clock.so")
	if out, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-o", lib, "testdata/clock.c").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s(make test installs a C compiler)", err, out)
	}
	redis := redistest.Start(t, redistest.Env("LD_PRELOAD="+lib, fmt.Sprintf("CLOCK_SHIFT_SECONDS=%d", seconds)))
	now, err := redis.Client(t).Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	if off := time.Until(now).Seconds(); off < float64(seconds)-5 || off > float64(seconds)+5 {
		t.Fatalf("Redis' clock is %.0f s off, want %d", off, seconds)
	}
	return redis
}

// TestWorker_ClockShift is check 16: workers whose clock is ten minutes off that of Redis. Nothing is stolen from the
// living, nothing starts or expires early or late, and a dead worker's task is taken over all the same.
func TestWorker_ClockShift(t *testing.T) {
	t.Parallel()
	for _, seconds := range []int{600, -600} {
		t.Run(fmt.Sprint(seconds), func(t *testing.T) {
			t.Parallel()
			q, seen := open(t, shiftedRedis(t, seconds).URL())
			cfg := worker.Config{Heartbeat: 100 * time.Millisecond, Lease: time.Second, DrainTimeout: -1, CancelGrace: time.Minute}
			register := func(w *worker.Worker) {
				w.HandleRaw("long", func(ctx context.Context, _ *worker.Job) (any, error) {
					select {
					case <-time.After(3 * time.Second): // three leases
						return "done", nil
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					}
				})
				w.HandleRaw("noop", func(context.Context, *worker.Job) (any, error) { return nil, nil })
			}
			start(t, q, cfg, register)
			start(t, q, cfg, register)
			began := time.Now()
			delayed := enqueue(t, q, tasks.Spec{Type: "noop", Delay: time.Second}).ID
			long := enqueue(t, q, tasks.Spec{Type: "long", Timeout: new(time.Minute), MaxRetries: new(0)}).ID
			got := wait(t, q, delayed)
			if took := time.Since(began); got.Status != tasks.Completed || took < time.Second || took > 5*time.Second {
				t.Errorf("task delayed by 1 s: %s after %v", got.Status, took)
			}
			if got := wait(t, q, long); got.Status != tasks.Completed || got.Attempt != 1 || got.Interruptions != 0 {
				t.Errorf("long task: %+v", got)
			}
			if n := seen.Get("interrupted crash") + seen.Get("interrupted lease_lost"); n != 0 {
				t.Errorf("%d tasks were taken from workers that live: %v", n, seen.All())
			}
		})
	}
}
