package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/tasks"
)

// QueueState is what Redis knows of a queue.
type QueueState struct {
	Name      string
	Paused    bool
	Counts    map[tasks.Status]int64
	Pending   int64 // length of asynq's list, tombstones included
	OldestAge time.Duration
}

// Queues lists the names of all queues, sorted.
func (s *Store) Queues(ctx context.Context) ([]string, error) {
	names, err := s.rdb.SMembers(ctx, QueuesKey).Result()
	if err != nil {
		return nil, readError("list queues", err)
	}
	slices.Sort(names)
	return names, nil
}

// AddQueue makes a queue known, whether or not it has had a task.
func (s *Store) AddQueue(ctx context.Context, queue string) error {
	if err := s.rdb.SAdd(ctx, QueuesKey, queue).Err(); err != nil {
		return s.failed(OpBegin, err)
	}
	return nil
}

// QueueState reads the state of a queue, in one round trip and one more when tasks wait.
func (s *Store) QueueState(ctx context.Context, queue string) (QueueState, error) {
	a := asynqPrefix(queue)
	pipe := s.rdb.Pipeline()
	paused := pipe.Exists(ctx, a+"paused")
	counts := pipe.HGetAll(ctx, ourPrefix(queue)+"counts")
	pending := pipe.LLen(ctx, a+"pending")
	oldest := pipe.LIndex(ctx, a+"pending", -1)
	clock := pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return QueueState{}, readError("queue", err)
	}
	st := QueueState{Name: queue, Paused: paused.Val() > 0, Pending: pending.Val(), Counts: map[tasks.Status]int64{}}
	for _, status := range tasks.Statuses() {
		st.Counts[status] = max(integer(counts.Val()[string(status)]), 0)
	}
	if oldest.Val() != "" {
		st.OldestAge = s.age(ctx, address{queue, oldest.Val()}, clock.Val())
	}
	return st, nil
}

// age says how long a pending task has waited by Redis' clock.
func (s *Store) age(ctx context.Context, at address, now time.Time) time.Duration {
	since, err := s.rdb.HGet(ctx, at.message(), "pending_since").Result()
	ns, perr := strconv.ParseInt(since, 10, 64)
	if err != nil || perr != nil {
		return 0
	}
	return max(now.Sub(time.Unix(0, ns)), 0)
}

// SetPaused stops or lets go the taking of a queue's tasks. Doing it twice is no error.
func (s *Store) SetPaused(ctx context.Context, queue string, paused bool) error {
	key := asynqPrefix(queue) + "paused"
	var err error
	if paused {
		err = s.rdb.SetNX(ctx, key, time.Now().Unix(), 0).Err() // asynq's form; it has no TTL because a pause has no end
	} else {
		err = s.rdb.Del(ctx, key).Err()
	}
	if err != nil {
		return readError("pause", err)
	}
	return nil
}

// WorkerState is what a worker said of itself.
type WorkerState struct {
	Info json.RawMessage
	Seen time.Time // Redis' clock
}

// Workers lists the workers that beat on a queue lately.
func (s *Store) Workers(ctx context.Context, queue string) (map[string]WorkerState, error) {
	zs, err := s.rdb.ZRangeWithScores(ctx, ourPrefix(queue)+"workers", 0, -1).Result()
	if err != nil {
		return nil, readError("list workers", err)
	}
	pipe := s.rdb.Pipeline()
	infos := make([]*redis.StringCmd, len(zs))
	for i, z := range zs {
		infos[i] = pipe.Get(ctx, ourPrefix(queue)+"w:"+z.Member.(string))
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, readError("list workers", err)
	}
	found := map[string]WorkerState{}
	for i, z := range zs {
		if infos[i].Val() != "" { // its life is over otherwise
			found[z.Member.(string)] = WorkerState{json.RawMessage(infos[i].Val()), time.UnixMilli(int64(z.Score))}
		}
	}
	return found, nil
}
