package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"offstage/internal/redistest"
	"offstage/queue"
	"offstage/tasks"
)

func TestQueue_Wait(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	t.Run("Ended", func(t *testing.T) {
		t.Parallel()
		id := enqueue(t, q, noop()).ID
		cancel(t, q, id)
		began := time.Now()
		got, err := q.Wait(t.Context(), tasks.Ref{ID: id}, time.Minute)
		if took := time.Since(began); err != nil || got.Status != tasks.Cancelled || took > 2*time.Second {
			t.Errorf("Wait = %+v, %v, after %v", got, err, took)
		}
	})
	t.Run("EndsMeanwhile", func(t *testing.T) {
		t.Parallel()
		id := enqueue(t, q, noop()).ID
		var ended time.Time
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(300 * time.Millisecond)
			_, _ = q.Cancel(context.WithoutCancel(t.Context()), tasks.Ref{ID: id}, queue.CancelRequest{})
			ended = time.Now()
		}()
		got, err := q.Wait(t.Context(), tasks.Ref{ID: id}, time.Minute)
		<-done
		if late := time.Since(ended); err != nil || got.Status != tasks.Cancelled || late > time.Second {
			t.Errorf("Wait = %+v, %v, %v after the end", got, err, late)
		}
	})
	t.Run("Bound", func(t *testing.T) {
		t.Parallel()
		id := enqueue(t, q, noop()).ID
		began := time.Now()
		got, err := q.Wait(t.Context(), tasks.Ref{ID: id}, 300*time.Millisecond)
		if took := time.Since(began); err != nil || got.Status != tasks.Pending || took < 300*time.Millisecond || took > 1500*time.Millisecond {
			t.Errorf("Wait = %+v, %v, after %v, want pending after 300ms", got, err, took)
		}
	})
	t.Run("NoBound", func(t *testing.T) {
		t.Parallel()
		id := enqueue(t, q, noop()).ID
		for _, bound := range []time.Duration{0, -time.Second} {
			if got, err := q.Wait(t.Context(), tasks.Ref{ID: id}, bound); err != nil || got.Status != tasks.Pending {
				t.Errorf("Wait(%v) = %+v, %v, want the task as it is", bound, got, err)
			}
		}
	})
	t.Run("CallerGone", func(t *testing.T) {
		t.Parallel()
		id := enqueue(t, q, noop()).ID
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer stop()
		if got, err := q.Wait(ctx, tasks.Ref{ID: id}, time.Minute); err != nil || got.Status != tasks.Pending {
			t.Errorf("Wait = %+v, %v, want the task as it is", got, err)
		}
	})
	t.Run("Deleted", func(t *testing.T) {
		t.Parallel()
		if got, err := q.Wait(t.Context(), tasks.Ref{ID: "default.gone"}, time.Minute); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("Wait = %+v, %v, want ErrNotFound", got, err)
		}
	})
}

// TestQueue_WaitRestart: an outage in between is waited out.
func TestQueue_WaitRestart(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t, redistest.AOF("always"))
	q, _ := open(t, own.URL())
	id := enqueue(t, q, noop()).ID
	done := make(chan error, 1)
	go func() {
		time.Sleep(100 * time.Millisecond)
		own.Stop()
		time.Sleep(300 * time.Millisecond)
		err := own.Restart()
		if err == nil {
			_, err = q.Cancel(context.WithoutCancel(t.Context()), tasks.Ref{ID: id}, queue.CancelRequest{})
		}
		done <- err
	}()
	got, err := q.Wait(t.Context(), tasks.Ref{ID: id, Owner: "ada"}, 30*time.Second)
	if err != nil || got.Status != tasks.Cancelled {
		t.Errorf("Wait = %+v, %v", got, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	own.Stop()
	began := time.Now()
	if got, err := q.Wait(t.Context(), tasks.Ref{ID: id}, 500*time.Millisecond); !errors.Is(err, tasks.ErrUnavailable) {
		t.Errorf("Wait while Redis is away = %+v, %v, want ErrUnavailable", got, err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}
