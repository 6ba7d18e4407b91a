package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// Limits are the defaults and sizes of tasks.
type Limits = tasks.Limits

// Queue creates and reads tasks. It is safe for use by many goroutines. Make one with [Open] or [New].
type Queue struct {
	rdb      redis.UniversalClient
	store    *bridge.Store
	producer redis.UniversalClient
	client   *asynq.Client
	limits   Limits
	watch    *watch
	embedded bool
	durable  durabilityWatch
	owned    []redis.UniversalClient
	close    func() error
}

// New gives a Queue on a client handed in, which must be a *redis.Client or a *redis.ClusterClient and stays the
// caller's to close, after the Queue. The Queue makes a pool of its own beside it for producers. The client should
// have MaxRetries -1 and ContextTimeoutEnabled: the Queue sends again by itself where that does no harm.
func New(client redis.UniversalClient, o Options) (*Queue, error) {
	w := newWatch(o.Observer)
	store := bridge.NewStore(client, w)
	store.RequireReplicas(o.WaitReplicas)
	producer, err := bridge.NewClient(client, store)
	if err != nil {
		return nil, err
	}
	limits := tasks.DefaultLimits()
	if o.Limits != nil {
		limits = *o.Limits
	}
	q := &Queue{
		rdb: client, store: store, producer: producer, client: asynq.NewClientFromRedisClient(producer),
		limits: limits, watch: w, embedded: o.Embedded, owned: []redis.UniversalClient{producer},
		durable: durabilityWatch{required: o.RequireDurability},
	}
	q.close = sync.OnceValue(q.closeOwned)
	return q, nil
}

// Close frees the connections that the Queue made. It is idempotent. Close workers and everything else that uses the
// Queue first.
func (q *Queue) Close() error { return q.close() }

func (q *Queue) closeOwned() error {
	var errs []error
	for _, c := range q.owned {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Ping asks Redis for an answer. Errors wrap tasks.ErrUnavailable.
func (q *Queue) Ping(ctx context.Context) error {
	if err := q.rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("%w: %w", tasks.ErrUnavailable, err)
	}
	return nil
}

// Store gives the scripts below the Queue, for package worker.
func (q *Queue) Store() *bridge.Store { return q.store }

// Limits gives the defaults and sizes of tasks in force.
func (q *Queue) Limits() Limits { return q.limits }

// Observer gives what the Queue reports to; never nil.
func (q *Queue) Observer() Observer { return q.watch }

// AsynqConn gives asynq's inspector or asynqmon a connection on which operations on tasks take their records along.
func (q *Queue) AsynqConn() asynq.RedisConnOpt { return asynqConn{q} }

type asynqConn struct{ q *Queue }

// MakeRedisClient gives a client of its own pool; whoever asked closes it.
func (c asynqConn) MakeRedisClient() any {
	client, err := bridge.NewClient(c.q.rdb, c.q.store)
	if err != nil {
		panic(err) // New has checked the client's type
	}
	return client
}
