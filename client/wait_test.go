package client_test

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"offstage/client"
	"offstage/tasks"
)

// hold does what the server does with ?wait=: it answers after that time, or when until is over.
func hold(r *http.Request, until time.Time) error {
	d, _ := time.ParseDuration(r.URL.Query().Get("wait"))
	t := time.NewTimer(min(d, time.Until(until)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

func TestClient_Wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, polls := time.Now(), 0
		ends := start.Add(70 * time.Second)
		c := offline(t, client.Options{}, func(w http.ResponseWriter, r *http.Request) error {
			polls++
			if err := hold(r, ends); err != nil {
				return err
			}
			status := tasks.Running
			if !time.Now().Before(ends) {
				status = tasks.Completed
			}
			reply(w, 200, aTask(status))
			return nil
		})
		got, err := c.Wait(t.Context(), ref(), 0)
		if err != nil || got.Status != tasks.Completed {
			t.Fatalf("Wait = %v, %v, want completed", got, err)
		}
		if d := time.Since(start); d != 70*time.Second || polls != 3 {
			t.Errorf("Wait took %s and %d polls, want 1m10s and 3", d, polls)
		}
	})
}

func TestClient_Wait_BoundRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := offline(t, client.Options{}, func(w http.ResponseWriter, r *http.Request) error {
			if err := hold(r, start.Add(time.Hour)); err != nil {
				return err
			}
			reply(w, 200, aTask(tasks.Running))
			return nil
		})
		got, err := c.Wait(t.Context(), ref(), 45*time.Second)
		if err != nil || got.Status != tasks.Running {
			t.Fatalf("Wait = %v, %v, want running", got, err)
		}
		if d := time.Since(start); d != 45*time.Second {
			t.Errorf("Wait took %s, want 45s", d)
		}
	})
}

func TestClient_Wait_LivesThroughARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := offline(t, client.Options{}, func(w http.ResponseWriter, _ *http.Request) error {
			switch at := time.Since(start); {
			case at < time.Second:
				reply(w, 200, aTask(tasks.Running)) // at once, as a server does that is going down
				return nil
			case at < 30*time.Second:
				return syscall.ECONNREFUSED
			}
			reply(w, 200, aTask(tasks.Completed))
			return nil
		})
		got, err := c.Wait(t.Context(), ref(), 0)
		if err != nil || got.Status != tasks.Completed {
			t.Fatalf("Wait = %v, %v, want completed", got, err)
		}
	})
}

func TestClient_Wait_PatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, tries := time.Now(), 0
		c := offline(t, client.Options{Patience: 10 * time.Second}, func(http.ResponseWriter, *http.Request) error {
			tries++
			return syscall.ECONNREFUSED
		})
		_, err := c.Wait(t.Context(), ref(), 0)
		if !errors.Is(err, client.ErrUnreachable) {
			t.Errorf("Wait = %v, want ErrUnreachable", err)
		}
		if d := time.Since(start); d < 10*time.Second || d > 15*time.Second || tries > 15 {
			t.Errorf("Wait took %s and %d tries, want 10s to 15s and few", d, tries)
		}
	})
}

func TestClient_Wait_EndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		c := offline(t, client.Options{}, func(_ http.ResponseWriter, r *http.Request) error {
			return hold(r, time.Now().Add(time.Hour))
		})
		if _, err := c.Wait(ctx, ref(), 0); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.ErrUnreachable) {
			t.Errorf("Wait = %v, want the context's end only", err)
		}
	})
}

func TestClient_Wait_NotFound(t *testing.T) {
	t.Parallel()
	c := open(t, func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, 404, map[string]any{"code": "not_found", "detail": "no such task"})
	}, client.Options{})
	if _, err := c.Wait(t.Context(), ref(), time.Minute); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("Wait = %v, want ErrNotFound", err)
	}
}
