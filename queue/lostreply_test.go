package queue_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"offstage/internal/tally"
	"offstage/queue"
	"offstage/tasks"
)

// cutter cuts connections to Redis at the worst moment: when the script has run and its reply is on the way.
type cutter struct {
	left atomic.Int32 // replies of scripts on tasks still to be lost; of other scripts none is
}

// dial is a redis.Options.Dialer.
func (c *cutter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &cutConn{Conn: conn, cutter: c}, err
}

type cutConn struct {
	net.Conn
	cutter *cutter
	doomed atomic.Bool
}

func (c *cutConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("eval")) && bytes.Contains(p, []byte("asynq:{")) && c.cutter.left.Add(-1) >= 0 {
		c.doomed.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p) // Redis has answered, so the script has run
	if err == nil && c.doomed.Load() {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

// openCut gives a queue whose replies can be lost, warmed up so that Redis knows the scripts.
func openCut(t *testing.T) (*queue.Queue, *tally.Counters, *cutter) {
	t.Helper()
	opts, err := redis.ParseURL(server.FreshDB(t))
	if err != nil {
		t.Fatal(err)
	}
	cut := &cutter{}
	opts.Dialer, opts.MaxRetries, opts.ContextTimeoutEnabled = cut.dial, -1, true
	client := redis.NewClient(opts)
	seen := &tally.Counters{}
	q, err := queue.New(client, queue.Options{Observer: seen})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(q.Close(), client.Close()) })
	enqueue(t, q, noop())
	warm := tasks.Ref{ID: enqueue(t, q, named("warm")).ID}
	cancel(t, q, warm.ID)
	_, err = q.Retry(t.Context(), warm)
	cancel(t, q, warm.ID)
	if err = errors.Join(err, q.Delete(t.Context(), warm)); err != nil {
		t.Fatal(err)
	}
	return q, seen, cut
}

// TestQueue_EnqueueLostReply: a reply that is lost after the task was created does not create it twice, nor hide it.
func TestQueue_EnqueueLostReply(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]int32{"Once": 1, "Twice": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, seen, cut := openCut(t)
			before, entries := count(t, q, queue.Filter{}), backlog(t, q)
			cut.left.Store(lost)
			got := enqueue(t, q, noop())
			if cut.left.Load() > 0 {
				t.Fatalf("%d replies were not lost, so this tests nothing", cut.left.Load())
			}
			if n := count(t, q, queue.Filter{}); n != before+1 || get(t, q, got.ID).Handle != got.Handle {
				t.Errorf("%d tasks, want %d", n, before+1)
			}
			if n := backlog(t, q) - entries; n != 1 || seen.Get("commit task_create") != 0 {
				t.Errorf("%d entries more for a worker, want 1; counted %v", n, seen.All())
			}
		})
	}
}

func backlog(t *testing.T, q *queue.Queue) int64 {
	t.Helper()
	info, err := q.Queue(t.Context(), queue.DefaultQueue)
	if err != nil {
		t.Fatal(err)
	}
	return info.Backlog
}

// TestQueue_EnqueueLostReplies: when no reply ever comes the task may exist, as the error's contract says; then it keeps
// its name and its idempotency key.
func TestQueue_EnqueueLostReplies(t *testing.T) {
	t.Parallel()
	q, seen, cut := openCut(t)
	spec := tasks.Spec{Type: "x", Owner: "bob", IdempotencyKey: "key"}
	cut.left.Store(100)
	_, _, err := q.Enqueue(t.Context(), spec)
	cut.left.Store(0)
	if !errors.Is(err, tasks.ErrUnavailable) || seen.Get("commit task_create unavailable") != 1 {
		t.Fatalf("Enqueue = %v, counted %v", err, seen.All())
	}
	task, created, err := q.Enqueue(t.Context(), spec)
	if err != nil || created {
		t.Errorf("with the key again: %+v, created %v, %v, want the task that was made", task, created, err)
	}
	if n := count(t, q, queue.Filter{Owner: "bob"}); n != 1 {
		t.Errorf("%d tasks, want 1", n)
	}
}

// TestQueue_EnqueueLostRepliesNamed: the name of a task that may exist is not given away, and once it is known not to,
// it is free.
func TestQueue_EnqueueLostRepliesNamed(t *testing.T) {
	t.Parallel()
	q, _, cut := openCut(t)
	spec := tasks.Spec{Type: "x", Owner: "bob", Name: "n"}
	cut.left.Store(100)
	_, _, err := q.Enqueue(t.Context(), spec)
	cut.left.Store(0)
	if !errors.Is(err, tasks.ErrUnavailable) {
		t.Fatalf("Enqueue = %v", err)
	}
	refused(t, q, spec, tasks.ErrDuplicateName)
	all := listAll(t, q, queue.Filter{Owner: "bob"})
	if len(all) != 1 {
		t.Fatalf("%d tasks, want the one whose reply was lost", len(all))
	}
	cancel(t, q, all[0].ID)
	enqueue(t, q, spec)
}

func TestQueue_EnqueueBatchLostReply(t *testing.T) {
	t.Parallel()
	q, _, cut := openCut(t)
	before := count(t, q, queue.Filter{})
	specs := make([]tasks.Spec, 50)
	for i := range specs {
		specs[i] = tasks.Spec{Type: "x", Owner: "bob", Payload: i}
	}
	specs[7].IdempotencyKey = "seven"
	cut.left.Store(1)
	handles := map[string]bool{}
	for i, r := range batch(t, q, specs) {
		if r.Err != nil {
			t.Fatalf("task %d: %v", i, r.Err)
		}
		handles[r.Task.Handle] = true
	}
	if n := count(t, q, queue.Filter{}); n != before+50 || len(handles) != 50 || cut.left.Load() > 0 {
		t.Errorf("%d tasks with %d handles, want %d with 50", n, len(handles), before+50)
	}
}

// TestQueue_ChangeLostReply is promise P6, to report what was done: the answer is the same when the first reply was lost
// and the script was sent again. A deletion is not sent again, for it would not find what it has deleted.
func TestQueue_ChangeLostReply(t *testing.T) {
	t.Parallel()
	q, seen, cut := openCut(t)
	ref := tasks.Ref{ID: enqueue(t, q, noop()).ID, Owner: "ada"}
	t.Run("Cancel", func(t *testing.T) {
		before := seen.Get("cancel task")
		cut.left.Store(1)
		changes, err := q.Cancel(t.Context(), ref, queue.CancelRequest{})
		if err != nil || len(changes) != 1 || changes[0].From != tasks.Pending || seen.Get("cancel task") != before+1 {
			t.Errorf("Cancel = %+v, %v, want one change from pending; counted %v", changes, err, seen.All())
		}
	})
	t.Run("Retry", func(t *testing.T) {
		cut.left.Store(1)
		if got, err := q.Retry(t.Context(), ref); err != nil || got.Status != tasks.Pending {
			t.Errorf("Retry = %+v, %v, want a pending task", got, err)
		}
	})
	cancel(t, q, ref.ID)
	t.Run("Delete", func(t *testing.T) {
		cut.left.Store(1)
		if err := q.Delete(t.Context(), ref); !errors.Is(err, tasks.ErrUnavailable) {
			t.Errorf("Delete = %v, want ErrUnavailable", err)
		}
		if err := q.Delete(t.Context(), ref); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("second Delete = %v, want ErrNotFound", err)
		}
	})
}
