//go:build soak

package faults_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"offstage/internal/faults"
	"offstage/internal/redistest"
)

// asynqWorker is the variable by which a test binary knows that it plays a plain asynq worker; its value is the Redis.
const asynqWorker = "FAULTS_ASYNQ_WORKER"

// plain is a plain asynq server whose task takes a while, and the counts of its bodies.
type plain struct {
	bodies, ended, most, now atomic.Int64
	takes                    time.Duration
}

func (p *plain) ProcessTask(ctx context.Context, _ *asynq.Task) error {
	p.bodies.Add(1)
	n := p.now.Add(1)
	defer p.now.Add(-1)
	for m := p.most.Load(); n > m && !p.most.CompareAndSwap(m, n); m = p.most.Load() {
	}
	select {
	case <-time.After(p.takes):
		p.ended.Add(1)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *plain) start(t *testing.T, r *faults.Redis) (*asynq.Client, *asynq.Inspector) {
	t.Helper()
	opt, err := asynq.ParseRedisURI(r.URL())
	if err != nil {
		t.Fatal(err)
	}
	srv := asynq.NewServer(opt, asynq.Config{Concurrency: 4, LogLevel: asynq.FatalLevel})
	if err := srv.Start(p); err != nil {
		t.Fatal(err)
	}
	client, inspector := asynq.NewClient(opt), asynq.NewInspector(opt)
	t.Cleanup(func() { srv.Shutdown(); _ = client.Close(); _ = inspector.Close() })
	return client, inspector
}

// outcome waits until no task of the queue is on its way any more, and says what became of them.
func outcome(i *asynq.Inspector, n int, bound time.Duration) (completed, archived int, took time.Duration) {
	began := time.Now()
	for {
		q, err := i.GetQueueInfo("default")
		if err == nil && q.Completed+q.Archived >= n || time.Since(began) > bound {
			if q == nil {
				return 0, 0, time.Since(began)
			}
			return q.Completed, q.Archived, time.Since(began)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestSoakCompareAsynq puts plain asynq through checks 7, 9 and 10 and logs what comes of it, for the table in
// docs/guarantees.md. It holds asynq to nothing.
func TestSoakCompareAsynq(t *testing.T) {
	if url := os.Getenv(asynqWorker); url != "" {
		playAsynq(url)
	}
	t.Run("07", compareRefusal)
	t.Run("09", compareKill)
	t.Run("10", compareStall)
}

func compareRefusal(t *testing.T) {
	t.Parallel()
	r, p := faults.StartRedis(t), &plain{takes: time.Second}
	client, inspector := p.start(t, r)
	enqueuePlain(t, client, 4, asynq.MaxRetry(3))
	until(t, "all run", 10*time.Second, func() bool { return p.bodies.Load() == 4 })
	if err := r.RefuseWrites().For(t.Context(), 3*time.Second); err != nil {
		t.Fatal(err)
	}
	completed, archived, took := outcome(inspector, 4, 4*time.Minute)
	measured(t, "asynq check=7 tasks=4 bodies=%d completed=%d archived=%d after=%s", p.bodies.Load(), completed, archived, seconds(took))
}

func compareKill(t *testing.T) {
	t.Parallel()
	r := faults.StartRedis(t)
	opt, _ := asynq.ParseRedisURI(r.URL())
	client := asynq.NewClient(opt)
	defer func() { _ = client.Close() }()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSoakCompareAsynq$")
	cmd.Env = append(os.Environ(), asynqWorker+"="+r.URL(), faults.BinaryVariable+"="+binary) // not built again
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	enqueuePlain(t, client, 1, asynq.MaxRetry(3))
	until(t, "it runs", 10*time.Second, func() bool { return r.Admin.LLen(t.Context(), "asynq:{default}:active").Val() == 1 })
	p := &plain{takes: 100 * time.Millisecond}
	_, _ = p.start(t, r)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	killed := time.Now()
	until(t, "it starts elsewhere", 4*time.Minute, func() bool { return p.bodies.Load() > 0 })
	measured(t, "asynq check=9 started_elsewhere_after=%s", seconds(time.Since(killed)))
}

func compareStall(t *testing.T) {
	t.Parallel()
	const stall = 40 * time.Second
	r, p := faults.StartRedis(t, redistest.AOF("always")), &plain{takes: stall + 10*time.Second}
	client, inspector := p.start(t, r)
	enqueuePlain(t, client, 4, asynq.MaxRetry(3))
	until(t, "all run", 10*time.Second, func() bool { return p.bodies.Load() == 4 })
	if err := r.Stall(stall).For(t.Context(), stall); err != nil {
		t.Fatal(err)
	}
	completed, archived, took := outcome(inspector, 4, 5*time.Minute)
	measured(t, "asynq check=10 tasks=4 bodies=%d ended=%d completed=%d archived=%d after=%s", p.bodies.Load(), p.ended.Load(),
		completed, archived, seconds(took))
}

func enqueuePlain(t *testing.T, c *asynq.Client, n int, opts ...asynq.Option) {
	t.Helper()
	for range n {
		if _, err := c.Enqueue(asynq.NewTask("work", nil), append(opts, asynq.Retention(time.Hour))...); err != nil {
			t.Fatal(err)
		}
	}
}

// playAsynq is a worker that waits to be killed.
func playAsynq(url string) {
	opt, err := asynq.ParseRedisURI(url)
	if err == nil {
		err = asynq.NewServer(opt, asynq.Config{Concurrency: 4}).Start(&plain{takes: time.Hour})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:revive // this process is a worker and nothing else
	}
	select {}
}
