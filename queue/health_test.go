package queue_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/internal/redistest"
	"offstage/queue"
)

// ill wants a health that is not ready, with one problem in which each of words stands, and within 3 s.
func ill(t *testing.T, q *queue.Queue, words ...string) {
	t.Helper()
	began := time.Now()
	h, err := q.Health(t.Context())
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("Health took %v, want at most 3 s", took)
	}
	if err != nil || h.Ready || len(h.Problems) == 0 || h.Redis == "ok" {
		t.Fatalf("Health = %+v, %v; want not ready", h, err)
	}
	for _, w := range words {
		if !strings.Contains(h.Problems[0], w) {
			t.Errorf("problem %q, want %q in it", h.Problems[0], w)
		}
	}
	if len(h.Problems) > 2 || strings.Contains(h.Problems[0], "\n") {
		t.Errorf("problems %q, want one clear sentence", h.Problems)
	}
	t.Logf("%s", h.Problems[0])
}

// well wants a ready health soon.
func well(t *testing.T, q *queue.Queue) {
	t.Helper()
	var h queue.Health
	for end := time.Now().Add(5 * time.Second); !h.Ready; time.Sleep(10 * time.Millisecond) {
		if h, _ = q.Health(t.Context()); time.Now().After(end) {
			t.Fatalf("not ready 5 s after the fault: %+v", h)
		}
	}
}

// TestHealth_Faults is check 33: states of Redis in which it answers and still does not serve.
func TestHealth_Faults(t *testing.T) {
	t.Parallel()
	t.Run("Replica", func(t *testing.T) {
		t.Parallel()
		master, s := redistest.Start(t), redistest.Start(t)
		q := openWith(t, s.URL(), queue.Options{})
		well(t, q)
		host, port, _ := strings.Cut(master.Addr, ":")
		follow(t, s, host, port)
		ill(t, q, "replica of "+master.Addr, "refuses writes", "redis-sentinel://")
		if err := s.ConfigSet("replica-read-only", "no"); err != nil {
			t.Fatal(err)
		}
		ill(t, q, "replica of "+master.Addr, "loses what is written")
		follow(t, s, "NO", "ONE")
		well(t, q)
	})
	t.Run("MasterDown", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, redistest.Args("--replica-serve-stale-data", "no"))
		q := openWith(t, s.URL(), queue.Options{})
		follow(t, s, "127.0.0.1", "1")
		ill(t, q, "replica", "127.0.0.1:1")
		follow(t, s, "NO", "ONE")
		well(t, q)
	})
	t.Run("NoReplicas", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		q := openWith(t, s.URL(), queue.Options{})
		if err := s.ConfigSet("min-replicas-to-write", "1"); err != nil {
			t.Fatal(err)
		}
		ill(t, q, "0 good replicas", "min-replicas-to-write", "bring the replicas back")
		if err := s.ConfigSet("min-replicas-to-write", "0"); err != nil {
			t.Fatal(err)
		}
		well(t, q)
	})
	t.Run("OutOfMemory", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		q := openWith(t, s.URL(), queue.Options{})
		if err := s.ConfigSet("maxmemory", "1mb"); err != nil {
			t.Fatal(err)
		}
		fill(t, s.Client(t), 2<<20)
		ill(t, q, "out of memory", "refuses new tasks", "maxmemory 1.0 MiB", "raise maxmemory")
		if err := s.ConfigSet("maxmemory", "0"); err != nil {
			t.Fatal(err)
		}
		well(t, q)
	})
	t.Run("Login", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, redistest.Password("right"))
		url := strings.Replace(s.URL(), "right", "wrong", 1)
		q, err := queue.New(redistest.Connect(t, url), queue.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { q.Close() })
		ill(t, q, "refuses the login", "check user and password")
	})
	t.Run("WriteForbidden", func(t *testing.T) {
		t.Parallel()
		q := openWith(t, user(t, redistest.Start(t), "~asynq:*", "&*", "+@all"), queue.Options{})
		ill(t, q, "may not do what offstage needs", "ACL SETUSER")
	})
}

func follow(t *testing.T, s *redistest.Server, host, port string) {
	t.Helper()
	if err := s.Client(t).ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
}

// fill writes until about so many bytes are used, or Redis takes no more.
func fill(t *testing.T, c *redis.Client, bytes int) {
	t.Helper()
	for i := 0; i < bytes; i += 16 << 10 {
		if c.Set(t.Context(), "fill:"+time.Duration(i).String(), strings.Repeat("x", 16<<10), 0).Err() != nil {
			return
		}
	}
}

// TestHealth_Disk is a Redis that cannot write its snapshot (MISCONF).
func TestHealth_Disk(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Args("--save", "3600 1"))
	q := openWith(t, s.URL(), queue.Options{})
	c := s.Client(t)
	dir := c.ConfigGet(t.Context(), "dir").Val()["dir"]
	blocker := filepath.Join(dir, "dump.rdb") // a folder where the snapshot belongs: this stops root as well
	if err := os.Mkdir(blocker, 0o700); err != nil {
		t.Fatal(err)
	}
	_ = os.WriteFile(filepath.Join(blocker, "x"), nil, 0o600)
	if err := c.Save(t.Context()).Err(); err == nil {
		t.Fatal("the snapshot was written")
	}
	_ = c.BgSave(t.Context()).Err()
	eventually(t, "bgsave fails", func() bool {
		return c.InfoMap(t.Context(), "persistence").Val()["Persistence"]["rdb_last_bgsave_status"] == "err"
	})
	ill(t, q, "cannot write to its disk", "the last snapshot failed", "free space")
	if err := os.RemoveAll(blocker); err != nil {
		t.Fatal(err)
	}
	if err := c.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	well(t, q)
}

// TestHealth_Silent: a Redis that does not answer, or is not there.
func TestHealth_Silent(t *testing.T) {
	t.Parallel()
	t.Run("Hangs", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		q := openWith(t, s.URL(), queue.Options{})
		if err := s.Pause(); err != nil {
			t.Fatal(err)
		}
		for range 3 { // with a connection of the pool first, then with new ones
			ill(t, q, "does not answer in time")
		}
		if err := s.Resume(); err != nil {
			t.Fatal(err)
		}
		well(t, q)
	})
	t.Run("Away", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		q := openWith(t, s.URL(), queue.Options{})
		s.Stop()
		ill(t, q, "cannot be reached", "check redis.url")
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		well(t, q)
	})
	t.Run("Busy", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, redistest.Args("--busy-reply-threshold", "50"))
		q := openWith(t, s.URL(), queue.Options{})
		other := s.Client(t)
		var wg sync.WaitGroup
		wg.Go(func() { other.Eval(context.WithoutCancel(t.Context()), "while true do end", nil) })
		eventually(t, "busy", func() bool { return redis.HasErrorPrefix(s.Client(t).Ping(t.Context()).Err(), "BUSY") })
		ill(t, q, "busy with a script", "SCRIPT KILL")
		if err := s.Client(t).ScriptKill(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		well(t, q)
	})
	t.Run("Loading", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, redistest.Args("--key-load-delay", "1000",
			"--loading-process-events-interval-bytes", "1024"))
		q := openWith(t, s.URL(), queue.Options{})
		c := s.Client(t)
		pipe := c.Pipeline()
		for i := range 3000 {
			pipe.Set(t.Context(), "k"+time.Duration(i).String(), i, 0)
		}
		pipe.Save(t.Context())
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var failed error
		wg.Go(func() { failed = s.Restart() })
		eventually(t, "loading", func() bool { return redis.HasErrorPrefix(c.Ping(t.Context()).Err(), "LOADING") })
		ill(t, q, "loading its data", "by itself")
		wg.Wait()
		if failed != nil {
			t.Fatal(failed)
		}
		well(t, q)
	})
}

// TestHealth_NearlyFull: a warning before writes are refused, and one when keys may be thrown away.
func TestHealth_NearlyFull(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	q := openWith(t, s.URL(), queue.Options{})
	c := s.Client(t)
	fill(t, c, 16<<20)
	used, err := strconv.Atoi(c.InfoMap(t.Context(), "memory").Val()["Memory"]["used_memory"])
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ConfigSet("maxmemory", strconv.Itoa(10*used)); err != nil {
		t.Fatal(err)
	}
	problems := func() string { h, _ := q.Health(t.Context()); return strings.Join(h.Problems, "\n") }
	if got := problems(); strings.Contains(got, "maxmemory") {
		t.Errorf("problems %q with a tenth in use", got)
	}
	if err := s.ConfigSet("maxmemory", strconv.Itoa(used+used/20)); err != nil {
		t.Fatal(err)
	}
	if h, _ := q.Health(t.Context()); !h.Ready || !strings.Contains(problems(), "at 100 % Redis refuses new tasks") {
		t.Errorf("health %+v, want ready with a warning (used %d)", h, used)
	}
	if err := s.ConfigSet("maxmemory-policy", "allkeys-lru"); err != nil {
		t.Fatal(err)
	}
	if got := problems(); !strings.Contains(got, "Redis throws tasks away") {
		t.Errorf("problems %q", got)
	}
}

// TestHealth_Cheap: a probe each second costs next to nothing, and its key goes away by itself.
func TestHealth_Cheap(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	q := openWith(t, s.URL(), queue.Options{})
	well(t, q)
	c := s.Client(t)
	if err := c.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	well(t, q)
	calls := c.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]
	for _, name := range []string{"cmdstat_ping", "cmdstat_client|setinfo", "cmdstat_config|resetstat", "cmdstat_hello", "cmdstat_select"} {
		delete(calls, name)
	}
	if len(calls) > 3 { // info, config get, set
		t.Errorf("a probe costs %v", calls)
	}
	keys := c.Keys(t.Context(), "*").Val()
	if len(keys) != 1 || !strings.HasPrefix(keys[0], "offstage:probe:") || c.TTL(t.Context(), keys[0]).Val() <= 0 {
		t.Errorf("keys %q", keys)
	}
}
