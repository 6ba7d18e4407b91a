package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"offstage/tasks"
)

// Clone gives a client with a connection pool of its own to the same Redis. It is the caller's to close.
func Clone(rdb redis.UniversalClient) (redis.UniversalClient, error) {
	switch c := rdb.(type) {
	case *redis.Client: // a Sentinel client too: its options carry the dialer that finds the master
		opts := *c.Options()
		opts.PushNotificationProcessor = nil // each client has its own
		return redis.NewClient(&opts), nil
	case *redis.ClusterClient:
		opts := *c.Options()
		opts.PushNotificationProcessor = nil
		return redis.NewClusterClient(&opts), nil
	}
	return nil, fmt.Errorf("redis client of type %T: want *redis.Client or *redis.ClusterClient", rdb)
}

// NewClient gives a client of its own pool for an asynq.Client, an asynq.Inspector or asynqmon. On it, an enqueue
// whose context carries a [Creation] creates the record with it, and run, archive, delete and cancel of a task take its
// record along. Scripts that change many tasks at once become a loop of single changes. Everything else passes.
func NewClient(rdb redis.UniversalClient, s *Store) (redis.UniversalClient, error) {
	c, err := Clone(rdb)
	if err != nil {
		return nil, err
	}
	c.AddHook(&clientHook{s})
	return c, nil
}

type clientHook struct{ store *Store }

// DialHook changes nothing.
func (h *clientHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessPipelineHook changes nothing: asynq sends no script in a pipeline.
func (h *clientHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook gives asynq's scripts and its cancellation messages to the bridge.
func (h *clientHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch cmd := cmd.(type) {
		case *redis.Cmd:
			if call, ok := parseCall(cmd); ok {
				pass := func() error { return next(ctx, cmd) }
				return h.script(ctx, cmd, call, pass)
			}
		case *redis.IntCmd:
			args := cmd.Args()
			if len(args) == 3 && cmd.Name() == "sadd" && args[1] == QueuesKey {
				// Through the pool that hears of a failover: asynq makes a queue known once only.
				known, err := h.store.rdb.SAdd(ctx, QueuesKey, args[2]).Result()
				cmd.SetVal(known)
				cmd.SetErr(err)
				return err
			}
			if len(args) == 3 && cmd.Name() == "publish" && args[1] == cancelChannel {
				if err := h.store.cancelActive(ctx, fmt.Sprint(args[2])); err != nil && !errors.Is(err, tasks.ErrNotFound) {
					cmd.SetErr(err)
					return err
				}
			}
		}
		return next(ctx, cmd)
	}
}

// call is one script that asynq sends.
type call struct {
	script asynqScript
	sha    string
	keys   []string
	args   []any
}

// parseCall reads EVALSHA sha numkeys key... arg...
func parseCall(cmd *redis.Cmd) (call, bool) {
	args := cmd.Args()
	if cmd.Name() != "evalsha" || len(args) < 3 {
		return call{}, false
	}
	sha, _ := args[1].(string)
	n, _ := args[2].(int)
	if len(args) < 3+n {
		return call{}, false
	}
	c := call{script: asynqScripts[sha], sha: sha, args: args[3+n:]}
	for _, k := range args[3 : 3+n] {
		c.keys = append(c.keys, fmt.Sprint(k))
	}
	return c, true
}

// arg is the i-th argument as text; empty when there is none.
func (c *call) arg(i int) string {
	if i >= len(c.args) {
		return ""
	}
	return fmt.Sprint(c.args[i])
}

// script answers cmd, or passes it on.
func (h *clientHook) script(ctx context.Context, cmd *redis.Cmd, c call, pass func() error) error {
	if c.script == "" {
		h.store.watch.UnknownScript(c.sha)
		return pass()
	}
	var v any
	var err error
	switch c.script {
	case asynqEnqueue, asynqSchedule:
		made := creation(ctx)
		if made == nil {
			return pass()
		}
		v, err = h.store.create(ctx, made, c)
	case asynqRunTask, asynqArchiveTask, asynqDeleteTask:
		v, err = h.store.operate(ctx, c)
		if errors.Is(err, tasks.ErrNotFound) { // a plain asynq task that no worker has taken yet
			return pass()
		}
	case asynqRunAll, asynqArchiveAll, asynqArchivePending, asynqDeleteAll, asynqDeletePending:
		v, err = h.store.operateAll(ctx, c)
	case asynqUpdatePayload, asynqRemoveQueue, asynqRemoveForce:
		err = fmt.Errorf("offstage: %s is not supported, because it leaves records behind", c.script)
	default:
		return pass()
	}
	if err != nil {
		cmd.SetErr(err)
		return err
	}
	cmd.SetVal(v)
	return nil
}

// create runs or holds a creation; asynq's message is the first argument of both its scripts.
func (s *Store) create(ctx context.Context, made *Creation, c call) (any, error) {
	msg, ok := c.args[0].([]byte)
	if !ok {
		return nil, fmt.Errorf("bridge: asynq's %s has no message", c.script)
	}
	made.message = string(msg)
	if made.Hold {
		return int64(1), nil
	}
	if made.Err = s.Create(ctx, made); made.Err != nil {
		return nil, made.Err
	}
	return int64(1), nil
}
