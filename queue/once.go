package queue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// slotsFresh is how old the map of a cluster's slots may be. Nobody tells the client that a node was replaced by its
// replica: the node that knew is gone.
const slotsFresh = 2 * time.Second

// sendOnce makes the client of a cluster's node. A cluster's client sends a command again whose reply was lost, up to
// three times, and has no setting for that: it counts with the redirections, which we need. A script that takes tasks
// would take others each time.
func sendOnce(opts *redis.Options) *redis.Client {
	c := redis.NewClient(opts)
	c.AddHook(onceHook{})
	return c
}

type onceHook struct{}

// DialHook changes nothing: what could not be sent may be sent again.
func (onceHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessPipelineHook changes nothing: what goes through pipelines may run twice with the effect of once.
func (onceHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook hides from the cluster's client why a reply is missing.
func (onceHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil || isRedisError(err) || errors.Is(err, redis.Nil) {
			return err
		}
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			return err
		}
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			return fmt.Errorf("%w: %v", context.DeadlineExceeded, err) //nolint:errorlint // or it would be sent again
		}
		return fmt.Errorf("no reply: %v", err) //nolint:errorlint // or it would be sent again
	}
}
