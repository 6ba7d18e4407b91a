package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"offstage/internal/redistest"
	"offstage/internal/tally"
	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// disorder is a queue with a Redis client that knows nothing of records, as an operator or another tool would use it.
type disorder struct {
	q         *queue.Queue
	seen      *tally.Counters
	rdb       *redis.Client
	inspector *asynq.Inspector
}

const aq, ours = "asynq:{default}:", "offstage:{default}:"

func newDisorder(t *testing.T) *disorder {
	t.Helper()
	url := server.FreshDB(t)
	q, seen := open(t, url)
	opt, err := asynq.ParseRedisURI(url)
	if err != nil {
		t.Fatal(err)
	}
	d := &disorder{q: q, seen: seen, rdb: redistest.Connect(t, url), inspector: asynq.NewInspector(opt)}
	t.Cleanup(func() { _ = d.inspector.Close() })
	return d
}

// reconcile runs rounds until one finds nothing to mend, and at most three.
func (d *disorder) reconcile(t *testing.T) {
	t.Helper()
	for range 3 {
		time.Sleep(2 * time.Millisecond) // the lock of the round before
		_, n, err := d.q.Store().Reconcile(t.Context(), "default", "w", time.Millisecond, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
	t.Errorf("still something to mend after three rounds: %v", d.seen.All())
}

func (d *disorder) do(t *testing.T, args ...any) {
	t.Helper()
	if err := d.rdb.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// run gives the queue a worker and waits for the task.
func (d *disorder) run(t *testing.T, id string) *tasks.Task {
	t.Helper()
	start(t, d.q, worker.Config{DrainTimeout: -1}, func(w *worker.Worker) {
		w.HandleRaw("noop", func(context.Context, *worker.Job) (any, error) { return nil, nil })
	})
	return wait(t, d.q, id)
}

// TestReconcile breaks the agreement of records and queue in every way that tools without the bridge can, and wants it
// mended with a truthful status, and counted.
func TestReconcile(t *testing.T) {
	t.Parallel()
	pending := func(t *testing.T, d *disorder) string {
		t.Helper()
		return enqueue(t, d.q, tasks.Spec{Type: "noop"}).ID
	}
	scheduled := func(t *testing.T, d *disorder) string {
		t.Helper()
		return enqueue(t, d.q, tasks.Spec{Type: "noop", Delay: time.Hour}).ID
	}
	tests := map[string]struct {
		make  func(t *testing.T, d *disorder) string
		spoil func(t *testing.T, d *disorder, id string)
		kind  string
		want  tasks.Status // before a worker runs
		runs  bool         // completes once a worker is there
	}{
		"MessageMissing": {pending, func(t *testing.T, d *disorder, id string) { t.Helper(); d.do(t, "DEL", aq+"t:"+id) }, "message_missing", tasks.Failed, false},
		"NotQueued":      {pending, func(t *testing.T, d *disorder, id string) { t.Helper(); d.do(t, "LREM", aq+"pending", 0, id) }, "not_queued", tasks.Pending, true},
		"ArchivedPending": {pending, func(t *testing.T, d *disorder, id string) {
			t.Helper()
			if err := d.inspector.ArchiveTask("default", id); err != nil {
				t.Fatal(err)
			}
		}, "archived", tasks.Cancelled, false},
		"ArchivedScheduled": {scheduled, func(t *testing.T, d *disorder, id string) {
			t.Helper()
			if err := d.inspector.ArchiveTask("default", id); err != nil {
				t.Fatal(err)
			}
		}, "archived", tasks.Cancelled, false},
		"DeletedScheduled": {scheduled, func(t *testing.T, d *disorder, id string) {
			t.Helper()
			if err := d.inspector.DeleteTask("default", id); err != nil {
				t.Fatal(err)
			}
		}, "message_missing", tasks.Failed, false},
		"RunScheduled": {scheduled, func(t *testing.T, d *disorder, id string) {
			t.Helper()
			if err := d.inspector.RunTask("default", id); err != nil {
				t.Fatal(err)
			}
		}, "moved", tasks.Pending, true},
		"DueLost": {scheduled, func(t *testing.T, d *disorder, id string) { t.Helper(); d.do(t, "ZREM", ours+"due", id) }, "moved", tasks.Scheduled, false},
		"RanElsewhere": {pending, func(t *testing.T, d *disorder, id string) {
			t.Helper()
			d.do(t, "LREM", aq+"pending", 0, id)
			d.do(t, "HSET", aq+"t:"+id, "state", "completed")
			d.do(t, "ZADD", aq+"completed", time.Now().Add(time.Hour).Unix(), id)
		}, "completed_elsewhere", tasks.Completed, false},
		"TakenElsewhere": {pending, func(t *testing.T, d *disorder, id string) {
			t.Helper()
			d.do(t, "LREM", aq+"pending", 0, id)
			d.do(t, "LPUSH", aq+"active", id)
			d.do(t, "HSET", aq+"t:"+id, "state", "active")
			d.do(t, "ZADD", aq+"lease", time.Now().Add(-time.Hour).Unix(), id)
		}, "lease_expired", tasks.Pending, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDisorder(t)
			id := tt.make(t, d)
			tt.spoil(t, d, id)
			d.reconcile(t)
			if d.seen.Get("repaired "+tt.kind) == 0 {
				t.Errorf("counted %v, want %q", d.seen.All(), tt.kind)
			}
			got, err := d.q.Get(t.Context(), tasks.Ref{ID: id})
			if err != nil || got.Status != tt.want {
				t.Fatalf("task: %+v, %v, want %s", got, err, tt.want)
			}
			if got.Status.Terminal() {
				checkEvents(t, d.q.Events, got)
			}
			if !tt.runs {
				return
			}
			if got = d.run(t, id); got.Status != tasks.Completed || got.Attempt != 1 {
				t.Errorf("task, run: %+v", got)
			}
		})
	}
}

// TestReconcile_Leftovers: entries that nothing stands behind are removed, and a running task keeps its place.
func TestReconcile_Leftovers(t *testing.T) {
	t.Parallel()
	d := newDisorder(t)
	hold := make(chan struct{})
	start(t, d.q, worker.Config{}, func(w *worker.Worker) {
		w.HandleRaw("hold", func(context.Context, *worker.Job) (any, error) { <-hold; return nil, nil })
		w.HandleRaw("noop", func(context.Context, *worker.Job) (any, error) { return nil, nil })
	})
	ended := wait(t, d.q, enqueue(t, d.q, tasks.Spec{Type: "noop"}).ID).ID
	running := enqueue(t, d.q, tasks.Spec{Type: "hold"}).ID
	reaches(t, d.q, running, tasks.Running)
	for i := range 100 { // check 26
		d.do(t, "LPUSH", aq+"active", "ghost-"+string(rune('a'+i%26))+time.Now().String())
	}
	d.do(t, "LPUSH", aq+"active", ended)
	d.do(t, "ZADD", aq+"lease", time.Now().Add(-time.Hour).Unix(), "nobody")
	d.do(t, "ZADD", ours+"live", 1, ended, 2, "never was")
	d.do(t, "LREM", aq+"active", 0, running) // a plain asynq recoverer
	d.do(t, "ZREM", aq+"lease", running)
	d.do(t, "HSET", aq+"t:"+running, "state", "retry")
	d.do(t, "ZADD", aq+"retry", time.Now().Add(-time.Minute).Unix(), running)
	d.reconcile(t)
	for kind, n := range map[string]int{"ghost": 100, "active_leftover": 1, "lease_leftover": 1, "live_leftover": 1, "record_missing": 1, "moved": 1} {
		if got := d.seen.Get("repaired " + kind); got != n {
			t.Errorf("%d repairs of kind %s, want %d", got, kind, n)
		}
	}
	active, err := d.rdb.LRange(t.Context(), aq+"active", 0, -1).Result()
	if err != nil || len(active) != 1 || active[0] != running {
		t.Errorf("active list: %v, %v", active, err)
	}
	close(hold)
	if got := wait(t, d.q, running); got.Status != tasks.Completed || got.Attempt != 1 {
		t.Errorf("running task: %+v", got)
	}
}
