package queue

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Health asks Redis whether it can do its work. The error is always nil so far; what is wrong stands in the Health.
func (q *Queue) Health(ctx context.Context) (Health, error) {
	h := Health{Ready: true, Redis: "ok", Durability: "unknown", Embedded: q.embedded}
	if err := q.Ping(ctx); err != nil {
		return Health{Redis: err.Error(), Durability: "unknown", Embedded: q.embedded, Problems: []string{err.Error()}}, nil
	}
	if q.embedded {
		h.Durability = "embedded"
		h.Problems = append(h.Problems, "embedded mode: nothing survives this process")
	} else {
		h.Durability = q.durability(ctx)
	}
	if sha := q.watch.unknown.Load(); sha != nil {
		h.Ready = false
		h.Problems = append(h.Problems, fmt.Sprintf("asynq sent a script that is not known (%s): its version is not the pinned one", *sha))
	}
	return h, nil
}

// durability names the fsync policy in force.
func (q *Queue) durability(ctx context.Context) string {
	aof, err := configValue(ctx, q.rdb, "appendonly")
	if err != nil {
		return "unknown" // CONFIG may be forbidden
	}
	if aof != "yes" {
		return "none"
	}
	fsync, err := configValue(ctx, q.rdb, "appendfsync")
	if err != nil {
		return "unknown"
	}
	if fsync == "no" {
		return "none"
	}
	return fsync
}

func configValue(ctx context.Context, rdb redis.UniversalClient, name string) (string, error) {
	values, err := rdb.ConfigGet(ctx, name).Result()
	return values[name], err
}
