package queue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/internal/redistest"
	"offstage/queue"
	"offstage/queue/bridge"
	"offstage/tasks"
)

// doctor examines a Redis that answers.
func doctor(t *testing.T, url string, o queue.DoctorOptions) []queue.Finding {
	t.Helper()
	found, err := queue.Doctor(t.Context(), url, o)
	if err != nil {
		t.Fatalf("Doctor: %v, %+v", err, found)
	}
	return found
}

// finds wants a finding of a check and a level with each of words in it or in its way out. All but those that are ok
// must have a way out.
func finds(t *testing.T, found []queue.Finding, level queue.Level, check string, words ...string) {
	t.Helper()
	for _, f := range found {
		if (f.Level == queue.OK) != (f.WayOut == "") {
			t.Errorf("finding %+v: a way out is for what is wrong", f)
		}
	}
	for _, f := range found {
		text, all := f.Finding+" -> "+f.WayOut, true
		for _, w := range words {
			all = all && strings.Contains(text, w)
		}
		if f.Level == level && f.Check == check && all {
			return
		}
	}
	t.Errorf("no finding %s %s with %q:\n%s", level, check, words, table(found))
}

func table(found []queue.Finding) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%-4s  %s  %s -> %s\n", f.Level, f.Check, f.Finding, f.WayOut)
	}
	return b.String()
}

func TestDoctor_Healthy(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.AOF("always"))
	q, _ := open(t, s.URL())
	serve(t, q, func(*bridge.Attempt) bridge.End { return bridge.End{Outcome: bridge.Completed} })
	for range 5 {
		enqueue(t, q, noop())
	}
	beat(t, q, "host:1:a", time.Minute)
	found := doctor(t, s.URL(), queue.DoctorOptions{RequireDurability: queue.DurabilityAlways})
	for _, f := range found {
		if f.Level != queue.OK {
			t.Errorf("%+v", f)
		}
	}
	for _, check := range []string{"writes", "version", "durability", "memory", "evictions", "replicas", "clock", "latency", "rights", "queues", "orphans"} {
		finds(t, found, queue.OK, check)
	}
	if keys := s.Client(t).Keys(t.Context(), "*doctor*").Val(); len(keys) > 0 {
		t.Errorf("doctor left %q", keys)
	}
}

// beat makes a worker of queue default.
func beat(t *testing.T, q *queue.Queue, id string, life time.Duration) {
	t.Helper()
	if _, err := q.Store().Beat(t.Context(), "default", id, []byte(`{"queues":{"default":1}}`), life, nil); err != nil {
		t.Fatal(err)
	}
}

func TestDoctor_Unreachable(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Stop()
	found, err := queue.Doctor(t.Context(), s.URL(), queue.DoctorOptions{})
	if !errors.Is(err, tasks.ErrUnavailable) {
		t.Errorf("Doctor without Redis = %v, want %v", err, tasks.ErrUnavailable)
	}
	finds(t, found, queue.Fail, "redis", "cannot be reached", "check redis.url")
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	found, err = queue.Doctor(t.Context(), s.URL(), queue.DoctorOptions{})
	if took := time.Since(began); !errors.Is(err, tasks.ErrUnavailable) || took > 5*time.Second {
		t.Errorf("Doctor of a Redis that hangs = %v after %v", err, took)
	}
	finds(t, found, queue.Fail, "redis", "does not answer in time")
	if _, err := queue.Doctor(t.Context(), "nonsense", queue.DoctorOptions{}); err == nil {
		t.Error("nonsense is no URL")
	}
}

func TestDoctor_Durability(t *testing.T) {
	t.Parallel()
	for now, opts := range aof() {
		t.Run(string(now), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, opts...)
			level := map[queue.Durability]queue.Level{queue.DurabilityNone: queue.Warn}[now]
			if level == "" {
				level = queue.OK
			}
			finds(t, doctor(t, s.URL(), queue.DoctorOptions{}), level, "durability", string(now))
			if now != queue.DurabilityAlways {
				finds(t, doctor(t, s.URL(), queue.DoctorOptions{RequireDurability: queue.DurabilityAlways}), queue.Fail, "durability",
					string(now), "redis.require_durability is always", `"appendfsync always"`)
			}
		})
	}
}

// TestDoctor_Refusals: Redis refuses writes, and doctor still says why, and all the rest that can be told.
func TestDoctor_Refusals(t *testing.T) {
	t.Parallel()
	t.Run("Replica", func(t *testing.T) {
		t.Parallel()
		master, s := redistest.Start(t), redistest.Start(t)
		host, port, _ := strings.Cut(master.Addr, ":")
		follow(t, s, host, port)
		found := doctor(t, s.URL(), queue.DoctorOptions{})
		finds(t, found, queue.Fail, "writes", "replica of "+master.Addr, "redis-sentinel://")
		finds(t, found, queue.Fail, "replicas", "role replica of "+master.Addr)
		c := master.Client(t)
		eventually(t, "replica is connected", func() bool {
			return c.InfoMap(t.Context(), "replication").Val()["Replication"]["connected_slaves"] == "1"
		})
		finds(t, doctor(t, master.URL(), queue.DoctorOptions{WaitReplicas: 1}), queue.OK, "replicas", "1 connected")
		finds(t, doctor(t, master.URL(), queue.DoctorOptions{WaitReplicas: 2}), queue.Fail, "replicas", "redis.wait_replicas is 2")
	})
	t.Run("NoReplicas", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, redistest.Args("--min-replicas-to-write", "2"))
		found := doctor(t, s.URL(), queue.DoctorOptions{})
		finds(t, found, queue.Fail, "writes", "0 good replicas")
		finds(t, found, queue.Fail, "replicas", "min-replicas-to-write")
	})
	t.Run("OutOfMemory", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, redistest.Args("--maxmemory", "1mb"))
		fill(t, s.Client(t), 2<<20)
		found := doctor(t, s.URL(), queue.DoctorOptions{})
		finds(t, found, queue.Fail, "writes", "refuses new tasks")
		finds(t, found, queue.Warn, "memory", "of maxmemory 1.0 MiB used")
	})
	t.Run("Evicts", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, redistest.Args("--maxmemory-policy", "allkeys-lru"))
		finds(t, doctor(t, s.URL(), queue.DoctorOptions{}), queue.Warn, "memory", "once there is a maxmemory")
		if err := s.ConfigSet("maxmemory", "2mb"); err != nil {
			t.Fatal(err)
		}
		fill(t, s.Client(t), 4<<20)
		found := doctor(t, s.URL(), queue.DoctorOptions{})
		finds(t, found, queue.Fail, "memory", "allkeys-lru", "noeviction")
		finds(t, found, queue.Fail, "evictions", "thrown", "keys away")
	})
	t.Run("Login", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, redistest.Password("right"))
		found := doctor(t, strings.Replace(s.URL(), "right", "wrong", 1), queue.DoctorOptions{})
		finds(t, found, queue.Fail, "redis", "refuses the login", "redis.url")
	})
	t.Run("NodeOfCluster", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, redistest.Args("--cluster-enabled", "yes"))
		found := doctor(t, s.URL(), queue.DoctorOptions{})
		finds(t, found, queue.Fail, "writes", "cluster is down") // it serves no slot
		finds(t, found, queue.Fail, "cluster", "redis-cluster://")
	})
}

func TestDoctor_Queues(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	finds(t, doctor(t, s.URL(), queue.DoctorOptions{}), queue.OK, "queues", "none yet")
	q, _ := open(t, s.URL())
	id := enqueue(t, q, noop()).ID
	finds(t, doctor(t, s.URL(), queue.DoctorOptions{}), queue.Warn, "queues", "default: 1 tasks are not done, and no live worker", "worker.queues")
	if err := q.Pause(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	finds(t, doctor(t, s.URL(), queue.DoctorOptions{}), queue.Warn, "paused", "default: paused since 20", "offstage queue resume default")
	beat(t, q, "host:1:a", time.Minute)
	finds(t, doctor(t, s.URL(), queue.DoctorOptions{}), queue.OK, "queues", "live workers 1, open tasks 1")
	beat(t, q, "host:2:b", time.Millisecond)
	eventually(t, "worker is silent", func() bool { ws, _ := q.Workers(t.Context()); return len(ws) == 1 })
	found := doctor(t, s.URL(), queue.DoctorOptions{})
	finds(t, found, queue.Warn, "workers", "host:2:b", "0 tasks are marked running", "within 15 s")
	if strings.Contains(table(found), "host:1:a") {
		t.Errorf("the live worker is named:\n%s", table(found))
	}
	cancel(t, q, id)
	if err := s.Client(t).Del(t.Context(), "offstage:{default}:w:host:1:a").Err(); err != nil {
		t.Fatal(err)
	}
}

func TestDoctor_Orphans(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	q, _ := open(t, s.URL())
	c := s.Client(t)
	ctx := t.Context()
	clean := func() { finds(t, doctor(t, s.URL(), queue.DoctorOptions{}), queue.OK, "orphans", "default: none") }
	ids := make([]string, 3)
	for i := range ids {
		ids[i] = enqueue(t, q, noop()).ID
	}
	later := noop()
	later.Delay = time.Hour
	delayed := enqueue(t, q, later).ID
	cancel(t, q, ids[2]) // a tombstone is no orphan
	clean()
	for _, id := range []string{ids[0], delayed} {
		if err := c.Rename(ctx, "asynq:{default}:t:"+id, "aside:"+id).Err(); err != nil {
			t.Fatal(err)
		}
	}
	found := doctor(t, s.URL(), queue.DoctorOptions{})
	finds(t, found, queue.Fail, "orphans", "live records without a message: 2 (", ids[0], delayed)
	finds(t, found, queue.Warn, "orphans", "entries of pending without a task: 1 ("+ids[0])
	finds(t, found, queue.Warn, "orphans", "entries of scheduled without a task: 1 ("+delayed)
	for _, id := range []string{ids[0], delayed} {
		c.Rename(ctx, "aside:"+id, "asynq:{default}:t:"+id)
	}
	clean()
	for _, list := range []string{"retry", "archived", "completed"} {
		c.ZAdd(ctx, "asynq:{default}:"+list, redis.Z{Score: 1, Member: "ghost"})
		finds(t, doctor(t, s.URL(), queue.DoctorOptions{}), queue.Warn, "orphans", "entries of "+list+" without a task: 1 (ghost)")
		c.ZRem(ctx, "asynq:{default}:"+list, "ghost")
	}
	c.LPush(ctx, "asynq:{default}:active", ids[1])
	found = doctor(t, s.URL(), queue.DoctorOptions{})
	finds(t, found, queue.Warn, "orphans", "active entries without a lease: 1 ("+ids[1])
	c.LPush(ctx, "asynq:{default}:active", "ghost")
	finds(t, doctor(t, s.URL(), queue.DoctorOptions{}), queue.Fail, "orphans", "entries of active without a task: 1 (ghost)")
	c.Del(ctx, "asynq:{default}:active")
	clean()
}

// TestDoctor_OrphansBounded: a deep list costs a bounded look, and a finding says that there is more.
func TestDoctor_OrphansBounded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t)
	c.SAdd(t.Context(), "asynq:queues", "deep")
	ghosts := make([]any, 15_000)
	for i := range ghosts {
		ghosts[i] = fmt.Sprint("ghost", i)
	}
	if err := c.LPush(t.Context(), "asynq:{deep}:pending", ghosts...).Err(); err != nil {
		t.Fatal(err)
	}
	finds(t, doctor(t, s.URL(), queue.DoctorOptions{}), queue.Warn, "orphans", "entries of pending without a task: 500 or more (")
	pipe := c.Pipeline()
	for _, g := range ghosts {
		pipe.HSet(t.Context(), fmt.Sprint("asynq:{deep}:t:", g), "msg", "x")
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	finds(t, doctor(t, s.URL(), queue.DoctorOptions{}), queue.OK, "orphans", "first 10000 of each list", "has 15000")
}
