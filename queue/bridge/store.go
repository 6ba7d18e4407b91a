package bridge

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/tasks"
)

// Observer hears what goes wrong between offstage and Redis. Methods must not block.
type Observer interface {
	CommitFailed(operation, reason string)
	StaleWrite(operation string)
	Repaired(kind string)
	UnknownScript(sha string)
	// TaskFinished tells of a task that failed without a worker: its deadline passed, its message vanished.
	TaskFinished(queue, typ string, status tasks.Status, kind tasks.Kind, d time.Duration)
}

// Store runs our scripts. Its methods are safe for use by many goroutines.
type Store struct {
	rdb      redis.UniversalClient
	watch    Observer
	replicas int
	owed     sync.Map // address{queue, worker} -> name of a take that was sent and not answered
}

// NewStore gives a Store on rdb, which stays the caller's to close.
func NewStore(rdb redis.UniversalClient, watch Observer) *Store {
	return &Store{rdb: rdb, watch: watch}
}

// RequireReplicas makes a creation wait until n replicas have it; zero means not to wait. Call it before all else.
func (s *Store) RequireReplicas(n int) { s.replicas = n }

// resend is how often a script is sent again when its reply was lost. Only scripts that recognise what they already
// did are sent through runAgain.
const (
	resends     = 2
	resendDelay = 50 * time.Millisecond
)

// run runs a script once.
func (s *Store) run(ctx context.Context, op string, script *redis.Script, queue string, keys []string, args ...any) (any, error) {
	args = append([]any{asynqPrefix(queue), ourPrefix(queue)}, args...)
	v, err := script.Run(ctx, s.rdb, keys, args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, s.failed(op, err)
	}
	return v, nil
}

// runAgain runs a script that may run twice with the effect of once, and sends it again after a lost connection.
func (s *Store) runAgain(ctx context.Context, op string, script *redis.Script, queue string, keys []string, args ...any) (any, error) {
	args = append([]any{asynqPrefix(queue), ourPrefix(queue)}, args...)
	for try := 0; ; try++ {
		v, err := script.Run(ctx, s.rdb, keys, args...).Result()
		if err == nil || errors.Is(err, redis.Nil) {
			return v, nil
		}
		if try == resends || isRedisError(err) || !pause(ctx, resendDelay) {
			return nil, s.failed(op, err)
		}
	}
}

// Failed counts a write that was not made and gives it the form of an error.
func (s *Store) Failed(op string, err error) error { return s.failed(op, err) }

func (s *Store) failed(op string, err error) error {
	e := opError(op, err)
	s.watch.CommitFailed(e.Op, e.Reason)
	return e
}

// exec sends a pipeline. Each command gets its own error, also when there was no connection to send it on, which
// go-redis tells of the pipeline only.
func exec(ctx context.Context, pipe redis.Pipeliner, cmds ...*redis.Cmd) {
	_, err := pipe.Exec(ctx)
	for _, cmd := range cmds {
		if err != nil && cmd.Err() == nil && cmd.Val() == nil {
			cmd.SetErr(err)
		}
	}
}

// pause waits for d; it reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// list is a script's array reply; a reply of another kind reads as empty.
func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// code is the number an array reply starts with.
func code(reply []any) int64 {
	if len(reply) == 0 {
		return 0
	}
	return integer(reply[0])
}

func stringList(v any) []string {
	var out []string
	for _, x := range list(v) {
		out = append(out, text(x))
	}
	return out
}
