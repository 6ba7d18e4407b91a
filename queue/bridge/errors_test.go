package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/internal/redistest"
	"offstage/queue/bridge"
	"offstage/tasks"
)

// redisError is an error that Redis answered with.
type redisError string

func (e redisError) Error() string { return string(e) }
func (e redisError) RedisError()   {}

func TestReasonOf(t *testing.T) {
	t.Parallel()
	const in7, in6 = " script: 2f1c…, on @user_script:12.", "ERR Error running script (call to f_2f1c…): @user_script:12: @user_script: 12: "
	for _, tc := range []struct {
		err  error
		want string
	}{
		{redisError("OOM command not allowed when used memory > 'maxmemory'."), bridge.ReasonOOM},
		{redisError("OOM command not allowed when used memory > 'maxmemory'." + in7), bridge.ReasonOOM},
		{redisError(in6 + "-OOM command not allowed when used memory > 'maxmemory'."), bridge.ReasonOOM},
		{redisError("READONLY You can't write against a read only replica."), bridge.ReasonReadOnly},
		{redisError("READONLY You can't write against a read only replica." + in7), bridge.ReasonReadOnly},
		{redisError(in6 + "-READONLY You can't write against a read only replica."), bridge.ReasonReadOnly},
		{redisError("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), bridge.ReasonUnavailable},
		{redisError(in6 + "-MISCONF Errors writing to the AOF file: No space left on device"), bridge.ReasonUnavailable},
		{redisError("NOREPLICAS Not enough good replicas to write." + in7), bridge.ReasonUnavailable},
		{redisError(in6 + "-NOREPLICAS Not enough good replicas to write."), bridge.ReasonUnavailable},
		{redisError("LOADING Redis is loading the dataset in memory"), bridge.ReasonUnavailable},
		{redisError("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."), bridge.ReasonUnavailable},
		{redisError("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), bridge.ReasonUnavailable},
		{redisError("CLUSTERDOWN Hash slot not served"), bridge.ReasonUnavailable},
		{redisError("TRYAGAIN Multiple keys request during rehashing of slot"), bridge.ReasonUnavailable},
		{redisError("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"), bridge.ReasonOther},
		{redisError("ERR max number of clients reached"), bridge.ReasonUnavailable},
		{redisError("NOPERM this user has no permissions to run the 'evalsha' command"), bridge.ReasonOther},
		{redisError("ERR The user executing the script can't run this command or subcommand" + in7), bridge.ReasonOther},
		{redisError("ERR ACL failure in script: User limited has no permissions to run the 'hset' command" + in7), bridge.ReasonOther},
		{redisError("NOAUTH Authentication required."), bridge.ReasonOther},
		{redisError("WRONGPASS invalid username-password pair or user is disabled."), bridge.ReasonOther},
		{redisError("WRONGTYPE Operation against a key holding the wrong kind of value" + in7), bridge.ReasonScript},
		{redisError("ERR user_script:12: attempt to index a nil value" + in7), bridge.ReasonScript},
		{redisError(in6 + "Script attempted to access nonexistent global variable 'x'"), bridge.ReasonScript},
		{context.DeadlineExceeded, bridge.ReasonTimeout},
		{fmt.Errorf("dial: %w", context.DeadlineExceeded), bridge.ReasonTimeout},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, bridge.ReasonTimeout},
		{redis.ErrPoolTimeout, bridge.ReasonTimeout},
		{fmt.Errorf("get: %w", redis.ErrPoolTimeout), bridge.ReasonTimeout},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, bridge.ReasonUnavailable},
		{io.EOF, bridge.ReasonUnavailable},
		{io.ErrUnexpectedEOF, bridge.ReasonUnavailable},
		{redis.ErrClosed, bridge.ReasonUnavailable},
	} {
		if got := bridge.ReasonOf(tc.err); got != tc.want {
			t.Errorf("reason of %q = %s, want %s", tc.err, got, tc.want)
		}
	}
}

// What Redis really says, of the version that is installed. Each trouble is made, seen by a creation, and healed.
func TestStore_Reasons(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		want    string
		start   func(t *testing.T) *redistest.Server // nil: a plain one
		trouble func(t *testing.T, s *redistest.Server, f *fixture) (heal func())
	}{
		{"oom", bridge.ReasonOOM, nil, setting("maxmemory", "1", "0")},
		{"no replicas", bridge.ReasonUnavailable, nil, setting("min-replicas-to-write", "1", "0")},
		{"readonly", bridge.ReasonReadOnly, nil, replica},
		{"master down", bridge.ReasonUnavailable, nil, cutOffReplica},
		{"misconf", bridge.ReasonUnavailable, onVanishingDir, failedSave},
		{"busy", bridge.ReasonUnavailable, nil, busy},
		{"hung", bridge.ReasonTimeout, nil, func(t *testing.T, s *redistest.Server, _ *fixture) func() {
			check(t, s.Pause())
			return func() { check(t, s.Resume()) }
		}},
		{"refused", bridge.ReasonUnavailable, nil, func(t *testing.T, s *redistest.Server, _ *fixture) func() {
			s.Stop()
			return func() { check(t, s.Restart()) }
		}},
		{"permission", bridge.ReasonOther, nil, func(t *testing.T, _ *redistest.Server, f *fixture) func() {
			check(t, f.rdb.Do(f.ctx(), "ACL", "SETUSER", "default", "-hset").Err())
			return func() { check(t, f.rdb.Do(f.ctx(), "ACL", "SETUSER", "default", "+hset").Err()) }
		}},
		{"script", bridge.ReasonScript, nil, func(t *testing.T, _ *redistest.Server, f *fixture) func() {
			check(t, errors.Join(f.rdb.Rename(f.ctx(), "offstage:{low}:seq", "seq").Err(), f.rdb.Set(f.ctx(), "offstage:{low}:seq", "x", 0).Err()))
			return func() { check(t, f.rdb.Rename(f.ctx(), "seq", "offstage:{low}:seq").Err()) }
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var s *redistest.Server
			if tc.start != nil {
				s = tc.start(t)
			} else {
				s = redistest.Start(t)
			}
			f := newFixture(t, s.URL())
			f.create()
			heal := tc.trouble(t, s, f)
			patience := 10 * time.Second
			if tc.want == bridge.ReasonTimeout {
				patience = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(f.ctx(), patience)
			defer cancel()
			c := f.creation(func(c *bridge.Creation) { c.Hold = true })
			_ = f.enqueue(c) // only to have the message; it does not need Redis, but for the queue's name
			err := f.store.Create(ctx, c)
			heal()
			op := (*bridge.OpError)(nil)
			if !errors.As(err, &op) || op.Reason != tc.want || op.Op != bridge.OpCreate {
				t.Errorf("Create = %v, reason %s, want %s", err, bridge.ReasonOf(errors.Unwrap(err)), tc.want)
			}
			if again := errors.Is(err, tasks.ErrUnavailable); again != (tc.want != bridge.ReasonScript) {
				t.Errorf("Create = %v, which says it may be tried again: %v", err, again)
			}
			if n := f.seen.counts()["failed task_create "+tc.want]; n != 1 {
				t.Errorf("counted %v, want one of %s", f.seen.counts(), tc.want)
			}
			if tc.name == "refused" {
				f.rdb.FlushDB(f.ctx()) // a restart without persistence; asynq's client knows its queue still
				return
			}
			waitUntil(t, func() error { return f.store.Create(f.ctx(), c) })
			f.want(c.ID, tasks.Pending)
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// waitUntil calls f until it succeeds.
func waitUntil(t *testing.T, f func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

func setting(key, bad, good string) func(*testing.T, *redistest.Server, *fixture) func() {
	return func(t *testing.T, s *redistest.Server, _ *fixture) func() {
		check(t, s.ConfigSet(key, bad))
		return func() { check(t, s.ConfigSet(key, good)) }
	}
}

// replica makes it follow a master that is not there. Its data stay until it meets one.
func replica(t *testing.T, _ *redistest.Server, f *fixture) func() {
	t.Helper()
	check(t, f.rdb.Do(f.ctx(), "REPLICAOF", "127.0.0.1", "1").Err())
	return func() { check(t, f.rdb.Do(f.ctx(), "REPLICAOF", "NO", "ONE").Err()) }
}

func cutOffReplica(t *testing.T, s *redistest.Server, f *fixture) func() {
	t.Helper()
	check(t, s.ConfigSet("replica-serve-stale-data", "no"))
	return replica(t, s, f)
}

func onVanishingDir(t *testing.T) *redistest.Server {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	check(t, os.Mkdir(dir, 0o700))
	s := redistest.Start(t, redistest.Args("--dir", dir, "--save", "3600 1"))
	check(t, os.Remove(dir))
	return s
}

// failedSave makes Redis refuse writes because it could not save.
func failedSave(t *testing.T, s *redistest.Server, f *fixture) func() {
	t.Helper()
	_ = f.rdb.BgSave(f.ctx()).Err()
	waitUntil(t, func() error {
		if f.rdb.InfoMap(f.ctx(), "persistence").Item("Persistence", "rdb_last_bgsave_status") != "err" {
			return errors.New("the save has not failed")
		}
		return nil
	})
	return func() { check(t, s.ConfigSet("stop-writes-on-bgsave-error", "no")) }
}

// busy runs a script that does not end.
func busy(t *testing.T, s *redistest.Server, f *fixture) func() {
	t.Helper()
	check(t, s.ConfigSet("busy-reply-threshold", "1"))
	opts := *f.rdb.Options()
	opts.ReadTimeout, opts.PushNotificationProcessor = time.Minute, nil
	other := redis.NewClient(&opts)
	done := make(chan error, 1)
	go func() { done <- other.Eval(f.ctx(), "while true do end", nil).Err() }()
	waitUntil(t, func() error {
		if err := f.rdb.Ping(f.ctx()).Err(); !redis.HasErrorPrefix(err, "BUSY") {
			return fmt.Errorf("Redis is not busy: %w", errors.Join(err, errors.ErrUnsupported))
		}
		return nil
	})
	return func() {
		check(t, f.rdb.ScriptKill(f.ctx()).Err())
		<-done
		_ = other.Close()
	}
}

// Every connection of the pool is in use.
func TestStore_PoolTimeout(t *testing.T) {
	t.Parallel()
	f := newFixture(t, server.FreshDB(t))
	opts := *f.rdb.Options()
	opts.PoolSize, opts.PoolTimeout, opts.PushNotificationProcessor = 1, 20*time.Millisecond, nil
	small := redis.NewClient(&opts)
	defer func() { _ = small.Close() }()
	done := make(chan error, 1)
	go func() { done <- small.BLPop(f.ctx(), time.Second, "nothing").Err() }()
	waitUntil(t, func() error {
		if n := small.PoolStats(); n.TotalConns-n.IdleConns == 0 {
			return errors.New("nobody uses the connection")
		}
		return nil
	})
	_, _, err := bridge.NewStore(small, f.seen).Cancel(f.ctx(), newID("low"), "", "tester", "")
	if op := (*bridge.OpError)(nil); !errors.As(err, &op) || op.Reason != bridge.ReasonTimeout {
		t.Errorf("Cancel = %v, want a timeout", err)
	}
	<-done
}
