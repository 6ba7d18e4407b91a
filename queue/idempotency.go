package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// twinPatience is how long a call waits for another one with the same name, which may be its twin, to be done.
const twinPatience = 2 * time.Second

// reserve takes the name of a task about to be created. When somebody has it already, that may be an earlier call with
// the same idempotency key: existing is the task of that call then, and there is nothing to create. Errors as
// reserveName, and tasks.ErrIdempotencyMismatch.
func (q *Queue) reserve(ctx context.Context, made *bridge.Creation) (release func(context.Context), existing string, err error) {
	perr := poll(ctx, twinPatience, func() (bool, error) {
		release, err = q.reserveName(ctx, made)
		if made.IdempotencyKey == "" || !errors.Is(err, tasks.ErrDuplicateName) {
			return true, nil
		}
		known, kerr := q.byKey(ctx, made)
		if known != "" || kerr != nil {
			release, existing, err = func(context.Context) {}, known, kerr
			return true, nil
		}
		return !errors.Is(err, errCreating), nil
	})
	if err == nil {
		err = perr
	}
	return release, existing, err
}

// byKey gives the id of the task that was created with a creation's idempotency key; empty when there is none. It reads
// what create.lua wrote.
func (q *Queue) byKey(ctx context.Context, made *bridge.Creation) (id string, err error) {
	v, err := q.rdb.Get(ctx, "offstage:{"+made.Queue+"}:idem:"+made.Owner+":"+made.IdempotencyKey).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("look up the idempotency key: %w", q.store.Failed(bridge.OpCreate, err))
	}
	hash, id, _ := strings.Cut(v, " ")
	if hash != made.RequestHash {
		return "", tasks.ErrIdempotencyMismatch
	}
	return id, nil
}
