package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Options configures [Open] and [New]. The zero value is ready to use.
type Options struct {
	// Limits are the defaults and sizes of tasks; nil means tasks.DefaultLimits.
	Limits *Limits
	// Observer hears what happens, for metrics; nil means nobody.
	Observer Observer
	// Embedded says that Redis lives in this process and nothing survives it; [Queue.Health] tells so.
	Embedded bool
	// RequireDurability is the least that Redis must promise: [DurabilityEverySec] or [DurabilityAlways], "" for nothing.
	// With less, [Queue.CheckDurability] fails and [Queue.Health] is not ready; Open and Enqueue do not look at it.
	RequireDurability Durability
	// WaitReplicas is how many replicas must have a task before Enqueue returns; zero means not to wait. With fewer,
	// Enqueue fails, although the task may exist. No accepted task is lost in a failover when this is the number of all
	// replicas (TestSentinel_WaitReplicas). With less, one may be promoted that has not got the task: a master that is
	// replaced while it lives goes on for a moment with the others (TestSentinel_TooFewReplicas).
	WaitReplicas int
	// PoolSize bounds the connections of each of the pools (producers, workers); zero means 10 for each CPU.
	PoolSize int
}

// The time limits of one exchange with Redis. A caller's context may shorten them.
const (
	dialTimeout  = 2 * time.Second
	readTimeout  = 3 * time.Second
	writeTimeout = 2 * time.Second
)

// Open connects to the Redis that rawURL names and checks that it answers. Forms:
//
//	redis://[user[:password]@]host[:port][/db]     rediss:// for TLS
//	unix://[user[:password]@]/path/to/socket[?db=n]
//	redis-sentinel://[user[:password]@]host[:port][,host[:port]...]/master[?db=n]
//	redis-cluster://[user[:password]@]host[:port][,host[:port]...]
//
// Errors: *tasks.InvalidError for the URL, one that wraps tasks.ErrUnavailable when Redis does not answer.
func Open(ctx context.Context, rawURL string, o Options) (*Queue, error) {
	client, err := dial(rawURL, o)
	if err != nil {
		return nil, err
	}
	q, err := New(client, o)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	q.owned = append(q.owned, client)
	if err := q.Ping(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("redis %s: %w (check redis.url)", address(rawURL), err), q.Close())
	}
	return q, nil
}
