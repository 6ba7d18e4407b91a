package lifecycle_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"offstage/internal/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

// diary is what happened, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) check(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if diff := cmp.Diff(want, d.lines); diff != "" {
		t.Errorf("what happened (-want +got):\n%s", diff)
	}
}

// part is ready after start, and takes stop to end.
func (d *diary) part(name string, start, stop time.Duration) lifecycle.Part {
	return lifecycle.Part{Name: name, Run: func(ctx context.Context, ready func()) error {
		d.add("+" + name)
		select {
		case <-time.After(start):
		case <-ctx.Done():
			d.add("-" + name)
			return context.Cause(ctx)
		}
		ready()
		ready()
		<-ctx.Done()
		time.Sleep(stop)
		d.add("-" + name)
		return context.Cause(ctx)
	}}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// until gives a context that ends after d.
func until(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestRun_Order(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		began := time.Now()
		err := lifecycle.Run(until(t, time.Minute), quiet(),
			d.part("redis", time.Second, time.Second), d.part("worker", time.Second, 3*time.Second), d.part("api", time.Second, 0))
		if err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		if took := time.Since(began); took != time.Minute+4*time.Second {
			t.Errorf("Run took %v, want 1m4s", took)
		}
		d.check(t, "+redis", "+worker", "+api", "-api", "-worker", "-redis")
	})
}

func TestRun_EndsWhileStarting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		err := lifecycle.Run(until(t, 90*time.Second), quiet(),
			d.part("redis", time.Minute, 0), d.part("worker", time.Minute, 0), d.part("api", time.Minute, 0))
		if err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		d.check(t, "+redis", "+worker", "-worker", "-redis")
	})
}

func TestRun_Failure(t *testing.T) {
	t.Parallel()
	ends := func(after time.Duration, end func() error) func(context.Context, func()) error {
		return func(_ context.Context, ready func()) error {
			ready()
			time.Sleep(after)
			return end()
		}
	}
	for name, tc := range map[string]struct {
		run  func(context.Context, func()) error
		want error
		text string
	}{
		"Error":  {ends(time.Second, func() error { return errBoom }), errBoom, "middle: boom"},
		"AtOnce": {func(context.Context, func()) error { return errBoom }, errBoom, "middle: boom"},
		"Nil":    {ends(time.Second, func() error { return nil }), lifecycle.ErrEnded, "middle: ended by itself"},
		"Panic":  {ends(time.Second, func() error { panic(errBoom) }), errBoom, "middle: panic: boom\n"},
		"Goexit": {ends(time.Second, func() error { runtime.Goexit(); return nil }), nil, "middle: left with runtime.Goexit"},
		// A part must not pass an error of its own off as a clean stop.
		"Canceled": {ends(time.Second, func() error { return context.Canceled }), context.Canceled, "middle: context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &diary{}
				err := lifecycle.Run(until(t, time.Hour), quiet(),
					d.part("first", 0, time.Second), lifecycle.Part{Name: "middle", Run: tc.run}, d.part("last", 10*time.Second, 0))
				if err == nil || !strings.HasPrefix(err.Error(), tc.text) || strings.Count(err.Error(), "middle:") != 1 {
					t.Errorf("Run = %v, want one %q", err, tc.text)
				}
				if tc.want != nil && !errors.Is(err, tc.want) {
					t.Errorf("Run = %v, want %v", err, tc.want)
				}
				if p, ok := errors.AsType[*lifecycle.PartError](err); !ok || p.Part != "middle" {
					t.Errorf("Run = %#v, want a *PartError of middle", err)
				}
				if last := d.lines[len(d.lines)-1]; last != "-first" {
					t.Errorf("what happened ends with %q, want -first", last)
				}
			})
		})
	}
}

// Every failure is told, not only the one that came first.
func TestRun_FailureWhileStopping(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		errFlush := errors.New("flush")
		err := lifecycle.Run(until(t, time.Hour), quiet(),
			lifecycle.Part{Name: "queue", Run: func(ctx context.Context, ready func()) error {
				ready()
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), lifecycle.ErrStopping) || !errors.Is(context.Cause(ctx), errBoom) {
					t.Errorf("cause = %v, want ErrStopping and boom", context.Cause(ctx))
				}
				return errFlush
			}},
			lifecycle.Part{Name: "api", Run: func(_ context.Context, ready func()) error {
				ready()
				time.Sleep(time.Second)
				return errBoom
			}})
		if !errors.Is(err, errBoom) || !errors.Is(err, errFlush) {
			t.Errorf("Run = %v, want boom and flush", err)
		}
	})
}

// A step has no ready: the parts behind it wait for its end.
func TestRun_Step(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		step := lifecycle.Part{Name: "replay", Run: func(context.Context, func()) error {
			time.Sleep(time.Second)
			d.add("replayed")
			return nil
		}}
		if err := lifecycle.Run(until(t, time.Minute), quiet(), d.part("redis", 0, 0), step, d.part("api", 0, 0)); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		d.check(t, "+redis", "replayed", "+api", "-api", "-redis")
	})
}

func TestRun_NotReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		slow := d.part("redis", time.Minute, 0)
		slow.StartTimeout = 5 * time.Second
		err := lifecycle.Run(until(t, time.Hour), quiet(), slow, d.part("api", 0, 0))
		if !errors.Is(err, lifecycle.ErrNotReady) || err.Error() != "redis: not ready in time (5s)" {
			t.Errorf("Run = %v, want ErrNotReady of redis", err)
		}
		d.check(t, "+redis", "-redis")
	})
}

func TestRun_Stuck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ timeout, want time.Duration }{
		"Default": {0, lifecycle.DefaultStopTimeout},
		"Own":     {3 * time.Second, 3 * time.Second},
		"NoBound": {-1, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &diary{}
				stuck := d.part("worker", 0, time.Hour)
				stuck.StopTimeout = tc.timeout
				began := time.Now()
				err := lifecycle.Run(until(t, time.Minute), quiet(), d.part("redis", 0, 0), stuck, d.part("api", 0, 0))
				if took := time.Since(began) - time.Minute; took != tc.want {
					t.Errorf("stopping took %v, want %v", took, tc.want)
				}
				if tc.timeout < 0 {
					if err != nil {
						t.Errorf("Run = %v, want nil", err)
					}
					return
				}
				if !errors.Is(err, lifecycle.ErrStuck) || err.Error() != "worker: did not stop in time" {
					t.Errorf("Run = %v, want ErrStuck of worker", err)
				}
				d.check(t, "+redis", "+worker", "+api", "-api", "-redis")
				time.Sleep(2 * time.Hour) // the one left behind ends
			})
		})
	}
}

func TestRunner_Force(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		at   time.Duration // when force is closed; ctx ends after a minute
		want time.Duration // when Run returns
	}{
		"WhileRunning":  {30 * time.Second, 31 * time.Second},
		"WhileStopping": {62 * time.Second, 63 * time.Second},
		"WhileStarting": {5 * time.Second, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &diary{}
				force := make(chan struct{})
				time.AfterFunc(tc.at, func() { close(force) })
				slow := d.part("worker", 10*time.Second, time.Hour)
				slow.StopTimeout = time.Minute
				began := time.Now()
				err := lifecycle.Runner{Logger: quiet(), Force: force}.Run(until(t, time.Minute),
					d.part("redis", 0, 0), d.part("hung", 0, time.Hour), slow)
				if took := time.Since(began); took > tc.want || took < tc.at {
					t.Errorf("Run took %v, want %v", took, tc.want)
				}
				if !errors.Is(err, lifecycle.ErrForced) || strings.Count(err.Error(), lifecycle.ErrForced.Error()) != 1 {
					t.Errorf("Run = %v, want ErrForced once", err)
				}
				if !strings.Contains(err.Error(), "hung: did not stop in time") {
					t.Errorf("Run = %v, want it to name hung", err)
				}
				time.Sleep(2 * time.Hour) // those left behind end
			})
		})
	}
}

func TestRun_ContextValues(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
	err := lifecycle.Run(ctx, quiet(), lifecycle.Part{Name: "p", Run: func(ctx context.Context, ready func()) error {
		if ctx.Value(key{}) != "v" {
			t.Error("a part does not see the values of Run's context")
		}
		ready()
		cancel()
		<-ctx.Done()
		return nil
	}})
	if err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

func TestRun_NoParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		if err := lifecycle.Run(until(t, time.Minute), quiet()); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}
