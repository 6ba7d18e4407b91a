package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"offstage/internal/redistest"
	"offstage/queue/bridge"
)

// TestAsynqScripts drives all of plain asynq and compares the scripts it sends with those that the bridge knows. It
// fails when a release of asynq changes, adds or drops one. What to do then: read the change, carry it over to ours
// where ours takes its place, and only then put the new SHA-1 in.
func TestAsynqScripts(t *testing.T) {
	t.Parallel()
	rdb := redistest.Connect(t, server.FreshDB(t))
	r := &recorder{UniversalClient: rdb}
	rdb.AddHook(r)
	d := &asynqDriver{t: t, r: r, inspector: asynq.NewInspectorFromRedisClient(r), client: asynq.NewClientFromRedisClient(r)}

	d.producer()
	d.inspectorReads()
	d.inspectorTasks()
	d.inspectorBulk()
	d.inspectorGroups()
	d.queues()
	d.scheduler()
	d.server()

	known := bridge.AsynqScripts()
	seen := map[string]bool{}
	for _, call := range r.calls() {
		if known[call.sha] == "" && !seen[call.sha] {
			t.Errorf("asynq sends a script that the bridge does not know: %s, during %q, keys %v:\n%s", call.sha, call.during, call.keys, r.text(call.sha))
		}
		seen[call.sha] = true
	}
	for _, sha := range slices.Sorted(maps.Keys(known)) {
		if !seen[sha] {
			t.Errorf("asynq does not send %q (%s) any more, or this test does not make it", known[sha], sha)
		}
	}
}

// recordedCall is one script that asynq sent.
type recordedCall struct {
	during string
	sha    string
	keys   []string
	args   []any
}

// recorder is a client that notes what asynq sends.
type recorder struct {
	redis.UniversalClient

	mu       sync.Mutex
	during   string
	scripts  []recordedCall
	texts    map[string]string
	commands [][]any
	channels []string
}

func (r *recorder) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	r.mu.Lock()
	r.channels = append(r.channels, channels...)
	r.mu.Unlock()
	return r.UniversalClient.Subscribe(ctx, channels...)
}

func (r *recorder) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if strings.HasPrefix(cmd.Name(), "eval") {
				r.note(cmd)
			}
		}
		return next(ctx, cmds)
	}
}

func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.note(cmd)
		return next(ctx, cmd)
	}
}

func (r *recorder) note(cmd redis.Cmder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	args := cmd.Args()
	switch cmd.Name() {
	case "evalsha":
		c := recordedCall{during: r.during, sha: args[1].(string)}
		n := args[2].(int)
		for _, k := range args[3 : 3+n] {
			c.keys = append(c.keys, k.(string))
		}
		c.args = args[3+n:]
		r.scripts = append(r.scripts, c)
	case "eval":
		if r.texts == nil {
			r.texts = map[string]string{}
		}
		text := args[1].(string)
		r.texts[redis.NewScript(text).Hash()] = text
	default:
		r.commands = append(r.commands, args)
	}
}

func (r *recorder) calls() []recordedCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.scripts)
}

func (r *recorder) text(sha string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.texts[sha]
}

// sent reports whether a plain command was sent.
func (r *recorder) sent(args ...any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.commands, func(c []any) bool { return fmt.Sprint(c...) == fmt.Sprint(args...) })
}

// asynqDriver makes each part of asynq send its scripts.
type asynqDriver struct {
	t         *testing.T
	r         *recorder
	client    *asynq.Client
	inspector *asynq.Inspector
}

// do runs one call and checks the names of the scripts that it sends.
func (d *asynqDriver) do(name string, call func() error, want ...string) []recordedCall {
	d.t.Helper()
	before := len(d.r.calls())
	d.r.mu.Lock()
	d.r.during = name
	d.r.mu.Unlock()
	if err := call(); err != nil {
		d.t.Errorf("%s: %v", name, err)
	}
	calls := d.r.calls()[before:]
	var got []string
	for _, c := range calls {
		got = append(got, bridge.AsynqScripts()[c.sha])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		d.t.Errorf("%s sends (-want +got):\n%s", name, diff)
	}
	return calls
}

// none makes a call of the inspector that returns a value fit for do.
func none[T any](_ T, err error) error { return err }

func (d *asynqDriver) enqueue(opts ...asynq.Option) func() error {
	return func() error { return none(d.client.Enqueue(asynq.NewTask("plain", []byte("{}")), opts...)) }
}

func (d *asynqDriver) producer() {
	d.t.Helper()
	unique := func(key string, opts ...asynq.Option) func() error {
		return func() error {
			return none(d.client.Enqueue(asynq.NewTask("plain", []byte(key)), append(opts, asynq.Unique(time.Hour), asynq.Queue("q"))...))
		}
	}
	calls := d.do("Enqueue", d.enqueue(asynq.Queue("q"), asynq.TaskID("a")), "enqueue")
	if _, ok := calls[0].args[0].([]byte); !ok || calls[0].keys[0] != "asynq:{q}:t:a" || calls[0].args[1] != "a" {
		d.t.Errorf("enqueue's keys are %v, its arguments %T, want the message first", calls[0].keys, calls[0].args[0])
	}
	calls = d.do("Enqueue later", d.enqueue(asynq.Queue("q"), asynq.TaskID("b"), asynq.ProcessIn(time.Hour)), "schedule")
	if _, ok := calls[0].args[0].([]byte); !ok || calls[0].keys[0] != "asynq:{q}:t:b" {
		d.t.Errorf("schedule's keys are %v, its arguments %T, want the message first", calls[0].keys, calls[0].args[0])
	}
	d.do("Enqueue unique", unique("u1"), "enqueue unique")
	d.do("Enqueue unique later", unique("u2", asynq.ProcessIn(time.Hour)), "schedule unique")
	d.do("Enqueue in a group", d.enqueue(asynq.Queue("q"), asynq.Group("g")), "add to group")
	d.do("Enqueue unique in a group", unique("u3", asynq.Group("g")), "add to group unique")
	if !d.r.sent("sadd", bridge.QueuesKey, "q") {
		d.t.Errorf("asynq does not add the queue's name to %s", bridge.QueuesKey)
	}
}

func (d *asynqDriver) inspectorReads() {
	d.t.Helper()
	i := d.inspector
	d.do("GetQueueInfo", func() error { return none(i.GetQueueInfo("q")) }, "current stats", "memory usage")
	d.do("History", func() error { return none(i.History("q", 3)) }, "historical stats")
	d.do("GetTaskInfo", func() error { return none(i.GetTaskInfo("q", "a")) }, "get task info")
	d.do("Groups", func() error { return none(i.Groups("q")) }, "group stats")
	d.do("ListPendingTasks", func() error { return none(i.ListPendingTasks("q")) }, "list messages")
	d.do("ListActiveTasks", func() error { return none(i.ListActiveTasks("q")) }, "list messages", "list lease expired")
	for name, list := range map[string]func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
		"ListScheduledTasks": i.ListScheduledTasks, "ListRetryTasks": i.ListRetryTasks,
		"ListArchivedTasks": i.ListArchivedTasks, "ListCompletedTasks": i.ListCompletedTasks,
	} {
		d.do(name, func() error { return none(list("q")) }, "list zset entries")
	}
	d.do("ListAggregatingTasks", func() error { return none(i.ListAggregatingTasks("q", "g")) }, "list zset entries")
	const keys = "list server, worker and scheduler keys"
	d.do("Servers", func() error { return none(i.Servers()) }, keys, keys)
	d.do("SchedulerEntries", func() error { return none(i.SchedulerEntries()) }, keys)
	d.do("ListSchedulerEnqueueEvents", func() error { return none(i.ListSchedulerEnqueueEvents("e")) })
	d.do("Queues", func() error { return none(i.Queues()) })
	d.do("PauseQueue", func() error { return i.PauseQueue("q") })
	d.do("UnpauseQueue", func() error { return i.UnpauseQueue("q") })
	d.do("CancelProcessing", func() error { return i.CancelProcessing("some id") })
	if !d.r.sent("publish", "asynq:cancel", "some id") {
		d.t.Error("CancelProcessing does not publish the id on asynq:cancel")
	}
	if _, err := i.ClusterKeySlot("q"); err == nil {
		d.t.Error("ClusterKeySlot works on a standalone Redis")
	}
}

func (d *asynqDriver) inspectorTasks() {
	d.t.Helper()
	i := d.inspector
	for _, tc := range []struct {
		name, script, id string
		call             func(queue, id string) error
	}{
		{"UpdateTaskPayload", "update task payload", "b", func(q, id string) error { return i.UpdateTaskPayload(q, id, []byte("1")) }},
		{"RunTask", "run task", "b", i.RunTask},
		{"ArchiveTask", "archive task", "b", i.ArchiveTask},
		{"DeleteTask", "delete task", "b", i.DeleteTask},
	} {
		want := []string{tc.script}
		if tc.name == "UpdateTaskPayload" {
			want = []string{"get task info", tc.script}
		}
		calls := d.do(tc.name, func() error { return tc.call("q", tc.id) }, want...)
		c := calls[len(calls)-1]
		if c.keys[0] != "asynq:{q}:t:"+tc.id || tc.name != "UpdateTaskPayload" && c.args[0] != tc.id {
			d.t.Errorf("%s has keys %v and arguments %v, want the task's key and id first", tc.name, c.keys, c.args)
		}
	}
}

func (d *asynqDriver) inspectorBulk() {
	d.t.Helper()
	i := d.inspector
	for _, tc := range []struct {
		name, script, key string
		call              func(string) (int, error)
	}{
		{"RunAllScheduledTasks", "run all", "scheduled", i.RunAllScheduledTasks},
		{"RunAllRetryTasks", "run all", "retry", i.RunAllRetryTasks},
		{"RunAllArchivedTasks", "run all", "archived", i.RunAllArchivedTasks},
		{"ArchiveAllPendingTasks", "archive all pending", "pending", i.ArchiveAllPendingTasks},
		{"ArchiveAllScheduledTasks", "archive all", "scheduled", i.ArchiveAllScheduledTasks},
		{"ArchiveAllRetryTasks", "archive all", "retry", i.ArchiveAllRetryTasks},
		{"DeleteAllPendingTasks", "delete all pending", "pending", i.DeleteAllPendingTasks},
		{"DeleteAllScheduledTasks", "delete all", "scheduled", i.DeleteAllScheduledTasks},
		{"DeleteAllRetryTasks", "delete all", "retry", i.DeleteAllRetryTasks},
		{"DeleteAllArchivedTasks", "delete all", "archived", i.DeleteAllArchivedTasks},
		{"DeleteAllCompletedTasks", "delete all", "completed", i.DeleteAllCompletedTasks},
	} {
		calls := d.do(tc.name, func() error { return none(tc.call("q")) }, tc.script)
		if calls[0].keys[0] != "asynq:{q}:"+tc.key {
			d.t.Errorf("%s has keys %v, want the set first", tc.name, calls[0].keys)
		}
	}
}

func (d *asynqDriver) inspectorGroups() {
	d.t.Helper()
	for name, call := range map[string]func(string, string) (int, error){
		"run all aggregating":     d.inspector.RunAllAggregatingTasks,
		"archive all aggregating": d.inspector.ArchiveAllAggregatingTasks,
		"delete all aggregating":  d.inspector.DeleteAllAggregatingTasks,
	} {
		d.do(name, func() error { return none(call("q", "g")) }, name)
	}
}

func (d *asynqDriver) queues() {
	d.t.Helper()
	if err := d.enqueue(asynq.Queue("bye"))(); err != nil {
		d.t.Fatal(err)
	}
	d.do("DeleteQueue, force", func() error { return d.inspector.DeleteQueue("bye", true) }, "remove queue force")
	// Another name: a client that has seen a queue once does not make it known again.
	if err := errors.Join(d.enqueue(asynq.Queue("bye too"))(), none(d.inspector.DeleteAllPendingTasks("bye too"))); err != nil {
		d.t.Fatal(err)
	}
	d.do("DeleteQueue", func() error { return d.inspector.DeleteQueue("bye too", false) }, "remove queue")
}

// names waits until all of these scripts have been sent since a moment.
func (d *asynqDriver) names(since int, want ...string) {
	d.t.Helper()
	missing := want
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		got := map[string]bool{}
		for _, c := range d.r.calls()[since:] {
			got[bridge.AsynqScripts()[c.sha]] = true
		}
		missing = slices.DeleteFunc(slices.Clone(want), func(n string) bool { return got[n] })
		if len(missing) == 0 {
			return
		}
	}
	d.t.Errorf("not sent within 10s: %q", missing)
}

// provider is a configuration of periodic tasks.
type provider struct{}

func (provider) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) {
	return []*asynq.PeriodicTaskConfig{{Cronspec: "@every 1s", Task: asynq.NewTask("tick", nil), Opts: []asynq.Option{asynq.Queue("cron")}}}, nil
}

func (d *asynqDriver) scheduler() {
	d.t.Helper()
	since := len(d.r.calls())
	opts := &asynq.SchedulerOpts{HeartbeatInterval: 20 * time.Millisecond, Logger: silent{}}
	s := asynq.NewSchedulerFromRedisClient(d.r, opts)
	if _, err := s.Register("@every 1s", asynq.NewTask("tick", nil), asynq.Queue("cron")); err != nil {
		d.t.Fatal(err)
	}
	m, err := asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
		PeriodicTaskConfigProvider: provider{}, RedisUniversalClient: d.r, SchedulerOpts: opts, SyncInterval: 50 * time.Millisecond,
	})
	if err := errors.Join(err, s.Start()); err != nil {
		d.t.Fatal(err)
	}
	if err := m.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.names(since, "write scheduler entries", "enqueue", "record scheduler enqueue event")
	s.Shutdown()
	m.Shutdown()
}

// server runs an asynq.Server through every outcome of a task, a group, a forwarded task and its own end.
func (d *asynqDriver) server() {
	d.t.Helper()
	since := len(d.r.calls())
	d.r.mu.Lock()
	d.r.during = "Server"
	d.r.mu.Unlock()
	for typ, opts := range map[string][]asynq.Option{
		"done": nil, "done unique": {asynq.Unique(time.Hour)},
		"complete": {asynq.Retention(time.Hour)}, "complete unique": {asynq.Retention(time.Hour), asynq.Unique(time.Hour)},
		"retry": nil, "archive": nil, "hang": nil, "forward": {asynq.ProcessIn(time.Second)},
		"a member": {asynq.Group("g")}, "another": {asynq.Group("g")},
	} {
		if _, err := d.client.Enqueue(asynq.NewTask(typ, nil), append(opts, asynq.Queue("work"))...); err != nil {
			d.t.Fatal(err)
		}
	}
	release := make(chan struct{})
	srv := asynq.NewServerFromRedisClient(d.r, asynq.Config{
		Concurrency: 4, Queues: map[string]int{"work": 1}, Logger: silent{},
		TaskCheckInterval: 10 * time.Millisecond, DelayedTaskCheckInterval: 10 * time.Millisecond, JanitorInterval: 50 * time.Millisecond,
		ShutdownTimeout: 50 * time.Millisecond, GroupGracePeriod: time.Second, GroupMaxSize: 2,
		GroupAggregator: asynq.GroupAggregatorFunc(func(string, []*asynq.Task) *asynq.Task { return asynq.NewTask("group", nil) }),
		RetryDelayFunc:  func(int, error, *asynq.Task) time.Duration { return time.Hour },
	})
	var returned sync.WaitGroup
	forwarded := make(chan struct{}, 1)
	returned.Add(1)
	err := srv.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		switch task.Type() {
		case "retry":
			return errors.New("boom")
		case "archive":
			return asynq.SkipRetry
		case "forward":
			forwarded <- struct{}{}
		case "hang":
			defer returned.Done()
			<-release
		}
		return nil
	}))
	if err != nil {
		d.t.Fatal(err)
	}
	select {
	case <-forwarded:
	case <-time.After(10 * time.Second):
		d.t.Error("the delayed task did not run")
	}
	d.names(since, "dequeue", "done", "done unique", "complete", "complete unique", "retry", "archive", "forward",
		"delete expired completed", "list lease expired", "reclaim stale aggregation sets", "aggregation check",
		"read aggregation set", "delete aggregation set", "write server state")
	srv.Shutdown()
	d.names(since, "requeue", "clear server state")
	close(release)
	returned.Wait()
	d.serverKeys(since)
}

// serverKeys checks the keys that the bridge reads a queue's name from, and the plain commands it builds on.
func (d *asynqDriver) serverKeys(since int) {
	d.t.Helper()
	first := map[string][]string{
		"dequeue": {"pending"}, "delete expired completed": {"completed"}, "list lease expired": {"lease"},
		"forward": {"scheduled", "retry"},
	}
	has := map[string]string{ // tells scripts apart that the same part of asynq sends
		"retry": "retry", "archive": "archived", "complete": "completed", "complete unique": "unique:complete unique:",
		"done unique": "unique:done unique:", "requeue": "pending", "aggregation check": "aggregation_sets",
	}
	for _, c := range d.r.calls()[since:] {
		name := bridge.AsynqScripts()[c.sha]
		short, _ := strings.CutPrefix(c.keys[0], "asynq:{work}:")
		if want := first[name]; want != nil && (!slices.Contains(want, short) || bridge.QueueOf(c.keys[0]) != "work") {
			d.t.Errorf("%s has keys %v, want one of %v first", name, c.keys, want)
		}
		if want := has[name]; want != "" && !slices.Contains(c.keys, "asynq:{work}:"+want) {
			d.t.Errorf("%s has keys %v, want %s among them", name, c.keys, want)
		}
	}
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	if diff := cmp.Diff([]string{"asynq:cancel"}, d.r.channels); diff != "" {
		d.t.Errorf("the server subscribes to (-want +got):\n%s", diff)
	}
}

// silent is a logger of asynq.
type silent struct{}

func (silent) Debug(...any) {}
func (silent) Info(...any)  {}
func (silent) Warn(...any)  {}
func (silent) Error(...any) {}
func (silent) Fatal(...any) {}
