package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// replicaTimeout bounds how long a creation waits for its replicas.
const replicaTimeout = 2 * time.Second

var errReplicas = errors.New("too few replicas have the task (see redis.wait_replicas)")

// createReplicated runs a creation and waits, on the same connection, until the replicas have it: Redis counts what a
// connection wrote. A creation found done is written to once more for that reason (see create.lua).
func (s *Store) createReplicated(ctx context.Context, c *Creation) error {
	for try := 0; ; try++ {
		reply, have, err := s.createAndWait(ctx, c)
		switch {
		case err == nil && have < int64(s.replicas):
			return s.failed(OpCreate, fmt.Errorf("%w: %d of %d", errReplicas, have, s.replicas))
		case err == nil:
			return c.settle(list(reply))
		}
		moved := s.elsewhere(ctx, err)
		if try == resends || isRedisError(err) && !moved || !pause(ctx, resendDelay) {
			return s.failed(OpCreate, err)
		}
	}
}

// elsewhere has a cluster's client look again who holds which slot. It follows redirections by itself, but not on a
// connection to one node, and does not ask after the loss of a node. It reports whether err was a redirection.
func (s *Store) elsewhere(ctx context.Context, err error) bool {
	c, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return false
	}
	c.ReloadState(ctx)
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "READONLY")
}

func (s *Store) createAndWait(ctx context.Context, c *Creation) (reply any, have int64, err error) {
	node, err := s.node(ctx, c.keys()[0])
	if err != nil {
		return nil, 0, err
	}
	pipe := node.Pipeline()
	args := append([]any{asynqPrefix(c.Queue), ourPrefix(c.Queue)}, c.args()...)
	made := createScript.Eval(ctx, pipe, c.keys(), args...)
	wait := pipe.Do(ctx, "WAIT", s.replicas, replicaTimeout.Milliseconds())
	exec(ctx, pipe, made, wait)
	if made.Err() != nil {
		return nil, 0, made.Err()
	}
	have, err = wait.Int64()
	return made.Val(), have, err
}

// node is the master that holds key.
func (s *Store) node(ctx context.Context, key string) (redis.Cmdable, error) {
	if c, ok := s.rdb.(*redis.ClusterClient); ok {
		return c.MasterForKey(ctx, key)
	}
	return s.rdb, nil
}
