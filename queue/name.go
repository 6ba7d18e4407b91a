package queue

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// A name is a lock under the owner's hash tag that holds a task's id. It is valid while that task has not ended. It has
// no TTL, for a task has no longest life; the next task of the name takes it over.

// swapName replaces the holder of a name, if it is still the one that was looked at.
// KEYS 1 lock   ARGV 1 holder looked at (” none)  2 new holder (” none)
var swapName = redis.NewScript(`
local held = redis.call('GET', KEYS[1]) or ''
if held == ARGV[2] and held ~= '' then return 1 end
if held ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2]) end
return 1`)

// nameKey escapes the owner, who may have a brace in it: otherwise one owner's name could be another's.
func nameKey(owner, name string) string {
	return "offstage:{o:" + url.QueryEscape(owner) + "}:name:" + name
}

// reserveName takes the name of a task about to be created or run again. release gives it back when the creation
// failed. Errors: tasks.ErrDuplicateName, tasks.ErrUnavailable.
func (q *Queue) reserveName(ctx context.Context, made *bridge.Creation) (release func(context.Context), err error) {
	nothing := func(context.Context) {}
	if made.Spec.Name == "" {
		return nothing, nil
	}
	key := nameKey(made.Owner, made.Spec.Name)
	for {
		held, err := q.rdb.Get(ctx, key).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("reserve name: %w", q.store.Failed(bridge.OpCreate, err))
		}
		if held != "" && held != made.ID {
			if err := q.nameFree(ctx, held, made); err != nil {
				return nil, err
			}
		}
		won, err := swapName.Run(ctx, q.rdb, []string{key}, held, made.ID).Int()
		if err != nil {
			return nil, fmt.Errorf("reserve name: %w", q.store.Failed(bridge.OpCreate, err))
		}
		if won == 1 {
			return func(ctx context.Context) { q.freeName(ctx, made.Owner, made.Spec.Name, made.ID) }, nil
		}
	}
}

// freeName takes a name from a task that is gone or was never created. Left behind, the lock holds an id without a
// record, which does not hold the name for long.
func (q *Queue) freeName(ctx context.Context, owner, name, id string) {
	_ = swapName.Run(context.WithoutCancel(ctx), q.rdb, []string{nameKey(owner, name)}, id, "").Err()
}

// written reports whether a creation that failed with err may have been made all the same: Redis did not answer. Its
// name stays taken then.
func written(err error) bool {
	_, answered := errors.AsType[redis.Error](err)
	return !answered
}

// nameFree reports nil when the task that holds a name has ended or does not exist.
func (q *Queue) nameFree(ctx context.Context, held string, made *bridge.Creation) error {
	p, err := q.store.Peek(ctx, held)
	switch {
	case errors.Is(err, tasks.ErrNotFound):
		return q.nameAbandoned(held)
	case err != nil:
		return err
	case p.Status.Terminal():
		return nil
	}
	return fmt.Errorf("%w: %q is %s", tasks.ErrDuplicateName, made.Spec.Name, held)
}

// nameGrace is how long the holder of a name may be without a record: its creation may be under way.
const nameGrace = time.Minute

// errCreating: the holder of a name has no record yet.
var errCreating = errors.New("is being created")

func (q *Queue) nameAbandoned(held string) error {
	_, id, _ := strings.Cut(held, ".")
	made, err := ulid.ParseStrict(strings.ToUpper(id))
	if err == nil && time.Since(ulid.Time(made.Time())) < nameGrace {
		return fmt.Errorf("%w: %s %w", tasks.ErrDuplicateName, held, errCreating)
	}
	return nil
}
