package bridge_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"offstage/internal/embedded"
	"offstage/queue/bridge"
	"offstage/tasks"
)

// fixture is one queue in a Redis of the test's own. At the test's end the whole queue is checked, see checkQueue.
type fixture struct {
	t         *testing.T
	rdb       *redis.Client // the store's connection
	store     *bridge.Store
	client    *asynq.Client // on the bridge
	plain     *asynq.Client // a producer that knows nothing of offstage
	inspector *asynq.Inspector
	seen      *observer
	wire      *wire
	queue     string
}

// onEach runs a test against a real Redis and against the embedded one.
func onEach(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, newFixture(t, server.FreshDB(t)))
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		s, err := embedded.Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		test(t, newFixture(t, s.URL()))
	})
}

func newFixture(t *testing.T, url string) *fixture {
	t.Helper()
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries, opts.DialerRetries, opts.ContextTimeoutEnabled = -1, 1, true // as package queue sets them
	f := &fixture{t: t, rdb: redis.NewClient(opts), seen: &observer{}, wire: &wire{}, queue: "low"}
	t.Cleanup(func() { _ = f.rdb.Close() })
	f.store = bridge.NewStore(f.rdb, f.seen)
	bridged, err := bridge.NewClient(f.rdb, f.store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bridged.Close() })
	bare, err := bridge.Clone(f.rdb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bare.Close() })
	f.rdb.AddHook(f.wire) // after the clone, which has no part in it
	f.client, f.plain = asynq.NewClientFromRedisClient(bridged), asynq.NewClientFromRedisClient(bare)
	f.inspector = asynq.NewInspectorFromRedisClient(bridged)
	t.Cleanup(func() {
		if !t.Failed() {
			f.check()
		}
	})
	return f
}

// check checks the whole queue.
func (f *fixture) check() {
	f.t.Helper()
	checkQueue(f.t, f.rdb, f.inspector, f.queue)
}

// ctx is a context that is good in a cleanup, too.
func (f *fixture) ctx() context.Context { return context.WithoutCancel(f.t.Context()) }

// creation is a task of owner "ann", ready to be created.
func (f *fixture) creation(edit ...func(*bridge.Creation)) *bridge.Creation {
	c := &bridge.Creation{
		ID: newID(f.queue), Queue: f.queue, Owner: "ann", Type: "mail", Retention: time.Hour,
		Spec: bridge.Spec{MaxRetries: 3},
	}
	for _, e := range edit {
		e(c)
	}
	return c
}

func newID(queue string) string { return queue + "." + strings.ToLower(ulid.Make().String()) }

const payload = `{"to":"bob"}`

// enqueue creates a task through asynq's client.
func (f *fixture) enqueue(c *bridge.Creation) error {
	_, err := f.client.EnqueueContext(bridge.WithCreation(f.ctx(), c), asynq.NewTask(c.Type, []byte(payload)),
		asynq.TaskID(c.ID), asynq.Queue(c.Queue), asynq.MaxRetry(c.Spec.MaxRetries+1), asynq.Retention(c.Retention+time.Second))
	if c.Err != nil {
		return c.Err
	}
	return err
}

// create creates a task and gives its id.
func (f *fixture) create(edit ...func(*bridge.Creation)) string {
	f.t.Helper()
	c := f.creation(edit...)
	if err := f.enqueue(c); err != nil {
		f.t.Fatalf("enqueue: %v", err)
	}
	return c.ID
}

// plainTask enqueues a task as a plain asynq producer does and gives its public id.
func (f *fixture) plainTask(opts ...asynq.Option) string {
	f.t.Helper()
	info, err := f.plain.Enqueue(asynq.NewTask("plain", []byte(payload)), append([]asynq.Option{asynq.Queue(f.queue)}, opts...)...)
	if err != nil {
		f.t.Fatalf("enqueue: %v", err)
	}
	return bridge.PublicID(f.queue, info.ID)
}

// worker takes tasks unless a test says otherwise.
const worker = "w1"

// takeAll takes up to n tasks for a worker.
func (f *fixture) takeAll(worker string, n int) []*bridge.Attempt {
	f.t.Helper()
	attempts, messages, err := f.store.Take(f.ctx(), f.queue, worker, n)
	if err != nil {
		f.t.Fatalf("Take: %v", err)
	}
	if len(messages) != len(attempts) {
		f.t.Fatalf("Take gave %d attempts and %d messages", len(attempts), len(messages))
	}
	return attempts
}

// take takes one task, which must be there.
func (f *fixture) take() *bridge.Attempt {
	f.t.Helper()
	attempts := f.takeAll(worker, 1)
	if len(attempts) != 1 {
		f.t.Fatalf("Take(1) gave %d attempts", len(attempts))
	}
	return attempts[0]
}

// running creates a task and takes it.
func (f *fixture) running(edit ...func(*bridge.Creation)) *bridge.Attempt {
	f.t.Helper()
	id := f.create(edit...)
	a := f.take()
	if a.Task.ID != id {
		f.t.Fatalf("took %s, want %s", a.Task.ID, id)
	}
	return a
}

// end ends an attempt, which must be the current one.
func (f *fixture) end(a *bridge.Attempt, e bridge.End) bridge.Ended {
	f.t.Helper()
	ended, err := f.store.End(f.ctx(), a, e)
	if err != nil || ended.Stale {
		f.t.Fatalf("End(%s) = %+v, %v", e.Outcome, ended, err)
	}
	return ended
}

// ended creates a task and ends it.
func (f *fixture) ended(outcome bridge.Outcome) string {
	f.t.Helper()
	a := f.running()
	e := bridge.End{Outcome: outcome}
	if outcome == bridge.Failed {
		e.Error = boom()
	}
	f.end(a, e)
	return a.Task.ID
}

// cancel cancels a task, which must not have ended.
func (f *fixture) cancel(id string) {
	f.t.Helper()
	if from, done, err := f.store.Cancel(f.ctx(), id, "", "tester", ""); err != nil || !done {
		f.t.Fatalf("Cancel(%s) = from %s, %v, %v", id, from, done, err)
	}
}

func boom() *tasks.Error { return &tasks.Error{Kind: tasks.KindError, Message: "boom"} }

func (f *fixture) get(id string) *tasks.Task {
	f.t.Helper()
	task, err := f.store.Get(f.ctx(), id)
	if err != nil {
		f.t.Fatalf("Get(%s): %v", id, err)
	}
	return task
}

// want checks a task's status, here and in asynq.
func (f *fixture) want(id string, status tasks.Status) *tasks.Task {
	f.t.Helper()
	task := f.get(id)
	if task.Status != status {
		f.t.Fatalf("task %s is %s, want %s", id, task.Status, status)
	}
	if info := f.info(id); info.State != asynqState(status) {
		f.t.Fatalf("task %s is %s in asynq, want %s", id, info.State, asynqState(status))
	}
	f.check()
	return task
}

// info is asynq's view of a task.
func (f *fixture) info(id string) *asynq.TaskInfo {
	f.t.Helper()
	_, bare, _ := bridge.Locate(id)
	info, err := f.inspector.GetTaskInfo(f.queue, bare)
	if err != nil {
		f.t.Fatalf("GetTaskInfo(%s): %v", bare, err)
	}
	return info
}

// gone checks that nothing of a task is left.
func (f *fixture) gone(id string) {
	f.t.Helper()
	if _, err := f.store.Get(f.ctx(), id); !errors.Is(err, tasks.ErrNotFound) {
		f.t.Errorf("Get(%s) = %v, want %v", id, err, tasks.ErrNotFound)
	}
	_, bare, _ := bridge.Locate(id)
	if info, err := f.inspector.GetTaskInfo(f.queue, bare); err == nil && len(info.Payload) > 0 {
		f.t.Errorf("asynq still has task %s: %+v", bare, info)
	}
}

// kinds lists the kinds of a task's events.
func (f *fixture) kinds(id string) []tasks.EventKind {
	f.t.Helper()
	events, err := f.store.Events(f.ctx(), id, 0, 1000)
	if err != nil {
		f.t.Fatalf("Events(%s): %v", id, err)
	}
	kinds := make([]tasks.EventKind, len(events))
	for i, e := range events {
		kinds[i] = e.Kind
	}
	return kinds
}

// asynqState is where asynq keeps a task that has our status.
func asynqState(s tasks.Status) asynq.TaskState {
	switch s {
	case tasks.Scheduled:
		return asynq.TaskStateScheduled
	case tasks.Pending:
		return asynq.TaskStatePending
	case tasks.Running:
		return asynq.TaskStateActive
	case tasks.Retrying:
		return asynq.TaskStateRetry
	case tasks.Completed:
		return asynq.TaskStateCompleted
	}
	return asynq.TaskStateArchived
}

// observer counts what a store reports.
type observer struct {
	mu sync.Mutex
	n  map[string]int
}

func (o *observer) add(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n == nil {
		o.n = map[string]int{}
	}
	o.n[key]++
}

func (o *observer) CommitFailed(operation, reason string) {
	o.add("failed " + operation + " " + reason)
}
func (o *observer) StaleWrite(operation string) { o.add("stale " + operation) }
func (o *observer) Repaired(kind string)        { o.add("repaired " + kind) }
func (o *observer) TaskFinished(_, _ string, s tasks.Status, k tasks.Kind, _ time.Duration) {
	o.add("finished " + string(s) + " " + string(k))
}
func (o *observer) UnknownScript(sha string) { o.add("unknown " + sha) }

func (o *observer) counts() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.n)
}

// wire is a hook that can lose the reply of a script: Redis has run it, the caller sees a broken connection.
type wire struct {
	lose atomic.Int32           // how many replies
	cut  atomic.Int32           // how many calls, before they are sent
	only atomic.Pointer[string] // of this script, by SHA-1; nil: of any
}

// cutAt lets n calls of one script not reach Redis.
func (w *wire) cutAt(sha string, n int32) {
	w.only.Store(&sha)
	w.cut.Store(n)
}

// loseAfter loses the replies of n calls of one script.
func (w *wire) loseAfter(sha string, n int32) {
	w.only.Store(&sha)
	w.lose.Store(n)
}

// loses reports whether this reply is to be lost.
func (w *wire) loses(cmd redis.Cmder) bool {
	return cmd.Err() == nil && w.breaks(cmd, &w.lose)
}

// breaks reports whether the call is one of those that left counts, and sets its error.
func (w *wire) breaks(cmd redis.Cmder, left *atomic.Int32) bool {
	only := w.only.Load()
	if !strings.HasPrefix(cmd.Name(), "eval") || only != nil && cmd.Args()[1] != *only || left.Load() <= 0 {
		return false
	}
	left.Add(-1)
	cmd.SetErr(io.EOF)
	return true
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if w.breaks(cmd, &w.cut) {
			return io.EOF
		}
		if err := next(ctx, cmd); err != nil || !w.loses(cmd) {
			return err
		}
		return io.EOF
	}
}

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			w.loses(cmd)
		}
		return err
	}
}

// listen runs Listen until stop is called; it listens when listen returns. Hints that nobody reads are dropped.
func (f *fixture) listen(hints chan string) (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.ctx())
	var wg sync.WaitGroup
	wg.Go(func() {
		f.store.Listen(ctx, func(id string) {
			select {
			case hints <- id:
			default:
			}
		})
	})
	probe := newID(f.queue)
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		f.rdb.Publish(ctx, bridge.CancelHints, probe)
		select {
		case id := <-hints:
			if id == probe {
				return func() { cancel(); wg.Wait() }
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
	f.t.Fatal("it does not listen")
	return nil
}
