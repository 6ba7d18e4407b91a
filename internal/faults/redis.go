package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/internal/redistest"
)

// Redis is a redis-server of one test, and the faults it can have.
type Redis struct {
	*redistest.Server
	// Admin talks to the server directly, past every [Proxy], and gives up early.
	Admin *redis.Client
}

// StartRedis starts a server that ends with the test.
func StartRedis(tb testing.TB, opts ...redistest.Option) *Redis {
	tb.Helper()
	s := redistest.Start(tb, opts...)
	o, err := redis.ParseURL(s.URL())
	if err != nil {
		tb.Fatal(err)
	}
	o.MaxRetries, o.DialerRetries, o.ReadTimeout = -1, 1, 10*time.Second
	r := &Redis{Server: s, Admin: redis.NewClient(o)}
	tb.Cleanup(func() { _ = r.Admin.Close() })
	return r
}

// Kill is a crash (SIGKILL); healing starts the server again on its files.
func (r *Redis) Kill() Fault {
	return Fault{
		Name:   "kill redis",
		Inject: func(context.Context) error { r.Stop(); return nil },
		Heal:   func(context.Context) error { return r.Restart() },
	}
}

// Hang stops the process with SIGSTOP: connections stay open, nothing is answered.
func (r *Redis) Hang() Fault {
	return Fault{
		Name:   "stop redis",
		Inject: func(context.Context) error { return r.Pause() },
		Heal:   func(context.Context) error { return r.Resume() },
	}
}

// Stall keeps the server busy for d; nothing heals it but time.
func (r *Redis) Stall(d time.Duration) Fault {
	return Fault{
		Name: fmt.Sprintf("stall redis %v", d),
		Inject: func(ctx context.Context) error {
			// On a connection of its own, whose end is not waited for.
			o := *r.Admin.Options()
			o.PushNotificationProcessor = nil
			o.ReadTimeout = 100 * time.Millisecond
			c := redis.NewClient(&o)
			defer func() { _ = c.Close() }()
			err := c.Do(ctx, "DEBUG", "SLEEP", strconv.FormatFloat(d.Seconds(), 'f', 3, 64)).Err()
			if isRefusal(err) {
				return err
			}
			return nil
		},
		Heal: nothing,
	}
}

// RefuseWrites asks for a replica that there is not: every write is answered NOREPLICAS.
func (r *Redis) RefuseWrites() Fault { return r.setting("min-replicas-to-write", "1", "0") }

// OutOfMemory makes every write that needs memory fail with OOM.
func (r *Redis) OutOfMemory() Fault { return r.setting("maxmemory", "1", "0") }

func (r *Redis) setting(key, bad, good string) Fault {
	return Fault{
		Name:   key + " " + bad,
		Inject: func(context.Context) error { return r.ConfigSet(key, bad) },
		Heal:   func(context.Context) error { return r.ConfigSet(key, good) },
	}
}

// ReadOnly turns the server into the replica of nobody: every write is answered READONLY, the data stay.
func (r *Redis) ReadOnly() Fault {
	return Fault{
		Name:   "read-only redis",
		Inject: func(ctx context.Context) error { return r.Admin.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err() },
		Heal:   func(ctx context.Context) error { return r.Admin.Do(ctx, "REPLICAOF", "NO", "ONE").Err() },
	}
}

// DiskFull makes a snapshot fail, so that every write is answered MISCONF.
func (r *Redis) DiskFull() Fault {
	return Fault{Name: "misconf redis", Inject: r.failSnapshot, Heal: r.healSnapshot}
}

// failSnapshot puts a folder where the snapshot goes.
func (r *Redis) failSnapshot(ctx context.Context) error {
	dump, err := r.dump(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dump, "in the way"), 0o755); err != nil {
		return err
	}
	if err := r.ConfigSet("save", "3600 1000000"); err != nil {
		return err
	}
	_ = r.Admin.BgSave(ctx).Err()
	if _, ok := within(ctx, 10*time.Second, func() bool { return r.info("rdb_last_bgsave_status") == "err" }); !ok {
		return errors.New("the snapshot did not fail")
	}
	return nil
}

func (r *Redis) healSnapshot(ctx context.Context) error {
	if err := r.ConfigSet("save", ""); err != nil {
		return err
	}
	dump, err := r.dump(ctx)
	if err != nil {
		return err
	}
	return os.RemoveAll(dump)
}

func (r *Redis) dump(ctx context.Context) (string, error) {
	v, err := r.Admin.ConfigGet(ctx, "d*").Result()
	if err != nil || v["dir"] == "" || v["dbfilename"] == "" {
		return "", errors.Join(errors.New("the folder of the snapshot is not told"), err)
	}
	return filepath.Join(v["dir"], v["dbfilename"]), nil
}

// Busy runs a script that does not end: everybody else is answered BUSY.
func (r *Redis) Busy() Fault {
	return Fault{
		Name: "busy redis",
		Inject: func(ctx context.Context) error {
			if err := r.ConfigSet("busy-reply-threshold", "100"); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			o := *r.Admin.Options()
			o.PushNotificationProcessor = nil
			o.ContextTimeoutEnabled = true
			c := redis.NewClient(&o)
			defer func() { _ = c.Close() }()
			_ = c.Eval(ctx, "while true do end", nil).Err() // is not waited for
			return nil
		},
		Heal: func(ctx context.Context) error {
			if err := r.Admin.ScriptKill(ctx).Err(); err != nil && !strings.HasPrefix(err.Error(), "NOTBUSY") {
				return err
			}
			return nil
		},
	}
}

// ForgetScripts is SCRIPT FLUSH.
func (r *Redis) ForgetScripts() Fault {
	return Fault{
		Name:   "script flush",
		Inject: func(ctx context.Context) error { return r.Admin.ScriptFlush(ctx).Err() },
		Heal:   nothing,
	}
}

// DropClients closes the connections of a kind: "normal" or "pubsub".
func (r *Redis) DropClients(kind string) Fault {
	return Fault{
		Name: "drop " + kind + " clients",
		Inject: func(ctx context.Context) error {
			return r.Admin.ClientKillByFilter(ctx, "TYPE", kind, "SKIPME", "yes").Err()
		},
		Heal: nothing,
	}
}

// info is one field of INFO; empty when Redis does not answer.
func (r *Redis) info(field string) string {
	all, _ := r.Admin.Info(context.Background(), "everything").Result()
	for line := range strings.SplitSeq(all, "\r\n") {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return v
		}
	}
	return ""
}

func isRefusal(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}
