package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/internal/redistest"
	"offstage/tasks"
	"offstage/worker"
)

// sentinel starts a sentinel that watches a master under the name "main", and gives its address.
func sentinel(t *testing.T, master *redistest.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(addr)
	host, masterPort, _ := net.SplitHostPort(master.Addr)
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor main %s %s 1\nsentinel down-after-milliseconds main 1000\n"+
		"sentinel failover-timeout main 3000\n", port, host, masterPort)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "redis-server", conf, "--sentinel")
	cmd.Dir = t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := redis.NewSentinelClient(&redis.Options{Addr: addr, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	eventually(t, "the sentinel is up", func() bool { return c.Ping(t.Context()).Err() == nil })
	return addr
}

// TestWorker_Sentinel: through a sentinel, tasks run on the master, and on the next one after a failover.
func TestWorker_Sentinel(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	host, port, _ := net.SplitHostPort(master.Addr)
	replica := redistest.Start(t, redistest.Args("--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0"))
	eventually(t, "the replica is in step", func() bool { // a sentinel that finds it so needs not wait to look again
		return strings.Contains(replica.Client(t).Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	addr := sentinel(t, master)
	q, _ := open(t, "redis-sentinel://"+addr+"/main?db=4")
	cfg := brisk()
	cfg.Lease = 10 * time.Second
	start(t, q, cfg, func(w *worker.Worker) {
		w.HandleRaw("echo", func(_ context.Context, j *worker.Job) (any, error) { return j.Payload, nil })
	})
	run := func(n int) {
		t.Helper()
		var task *tasks.Task
		eventually(t, "the task is accepted", func() bool {
			var err error
			task, _, err = q.Enqueue(t.Context(), tasks.Spec{Type: "echo", Owner: "ada", Payload: n, IdempotencyKey: strconv.Itoa(n)})
			if err != nil && !errors.Is(err, tasks.ErrUnavailable) {
				t.Fatalf("Enqueue: %v", err)
			}
			return err == nil
		})
		if got := wait(t, q, task.ID); got.Status != tasks.Completed || string(got.Result) != strconv.Itoa(n) {
			t.Errorf("task %d: %+v", n, got)
		}
	}
	run(1)
	if n := redistest.Connect(t, master.URLDB(4)).DBSize(t.Context()).Val(); n == 0 {
		t.Error("the master's database 4 is empty")
	}
	watch := redis.NewSentinelClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = watch.Close() })
	eventually(t, "the sentinel knows a replica that is in step", func() bool {
		found := watch.Replicas(t.Context(), "main").Val()
		return len(found) == 1 && found[0]["master-link-status"] == "ok" && found[0]["flags"] == "slave"
	})
	eventually(t, "the failover begins", func() bool { return watch.Failover(t.Context(), "main").Err() == nil })
	eventually(t, "the replica is the master", func() bool {
		at := watch.GetMasterAddrByName(t.Context(), "main").Val()
		return strings.Join(at, ":") == replica.Addr
	})
	// The old master takes writes for some seconds more, and what goes there is lost. The client hears of the switch at
	// the same time as this test.
	time.Sleep(500 * time.Millisecond)
	for n := 2; n < 10; n++ {
		run(n)
	}
	enqueue(t, q, tasks.Spec{Type: "echo", Queue: "fresh"})
	if _, err := q.Queue(t.Context(), "fresh"); err != nil {
		t.Errorf("a queue that is new since the failover: %v", err)
	}
}
