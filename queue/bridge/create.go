package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/tasks"
)

// idempotencyLife is how long an idempotency key is known.
const idempotencyLife = 24 * time.Hour

// Creation is a task about to be created. A context that carries it (see [WithCreation]) turns asynq's next enqueue
// on a [Client] into the creation of record and queue entry in one step.
type Creation struct {
	ID        string // public id
	Queue     string
	Owner     string
	Type      string
	Spec      Spec
	RunAt     time.Time // zero: now, or after Delay
	Delay     time.Duration
	Retention time.Duration
	// IdempotencyKey is empty for none; RequestHash is 64 hexadecimal digits.
	IdempotencyKey string
	RequestHash    string

	// Hold keeps asynq's enqueue from sending: the message is kept for [Store.CreateAll].
	Hold bool

	message string
	// Result and Err are set once the script has run. asynq reports an error too, but only its text.
	Result CreateResult
	Err    error
}

// CreateResult is what came of a [Creation].
type CreateResult struct {
	Existing  string // id of the earlier task with the idempotency key; the rest is empty then
	Handle    string
	CreatedAt tasks.Time
	DueAt     tasks.Time
	Status    tasks.Status
}

type creationKey struct{}

// WithCreation hands c to the next enqueue under the context.
func WithCreation(ctx context.Context, c *Creation) context.Context {
	return context.WithValue(ctx, creationKey{}, c)
}

func creation(ctx context.Context) *Creation {
	c, _ := ctx.Value(creationKey{}).(*Creation)
	return c
}

func (c *Creation) address() address {
	a, _ := locate(c.ID)
	return a
}

func (c *Creation) keys() []string {
	a := c.address()
	return []string{a.record(), a.message()}
}

func (c *Creation) args() []any {
	spec, _ := json.Marshal(c.Spec) // strings, numbers and maps of strings: cannot fail
	var runAt int64
	if !c.RunAt.IsZero() {
		runAt = c.RunAt.UnixMilli()
	}
	return []any{
		c.address().id, c.message, c.Owner, c.Type, spec, runAt, c.Delay.Milliseconds(), c.Retention.Milliseconds(),
		c.IdempotencyKey, c.RequestHash, idempotencyLife.Milliseconds(), c.Spec.DeadlineMS,
	}
}

// Create runs the creation. The id must be new in the world: a record that has it is taken for an earlier try of this
// very call. Errors: tasks.ErrIdempotencyMismatch, *OpError.
func (s *Store) Create(ctx context.Context, c *Creation) error {
	if s.replicas > 0 {
		return s.createReplicated(ctx, c)
	}
	v, err := s.runAgain(ctx, OpCreate, createScript, c.Queue, c.keys(), c.args()...)
	if err != nil {
		return err
	}
	return c.settle(list(v))
}

// CreateAll runs creations whose messages were held, in one round trip for each node of Redis. It returns one error,
// or nil, for each.
func (s *Store) CreateAll(ctx context.Context, cs []*Creation) []error {
	errs := make([]error, len(cs))
	if s.replicas > 0 {
		for i, c := range cs {
			errs[i] = s.Create(ctx, c)
		}
		return errs
	}
	todo := make([]int, len(cs))
	for i := range cs {
		todo[i] = i
	}
	for try := 0; len(todo) > 0; try++ {
		cmds := s.sendAll(ctx, cs, todo)
		var again []int
		unknown := false
		for k, i := range todo {
			v, err := cmds[k].Result()
			switch {
			case err == nil:
				errs[i] = cs[i].settle(list(v))
			case try < resends && (!isRedisError(err) || redis.HasErrorPrefix(err, "NOSCRIPT")):
				unknown = unknown || isRedisError(err)
				again = append(again, i)
			default:
				errs[i] = s.failed(OpCreate, err)
			}
		}
		if unknown {
			_ = createScript.Load(ctx, s.rdb).Err() // on every node; without it the next try fails the same way
		}
		if len(again) > 0 && !pause(ctx, resendDelay) {
			for _, i := range again {
				errs[i] = s.failed(OpCreate, context.Cause(ctx))
			}
			break
		}
		todo = again
	}
	return errs
}

// sendAll sends one script for each of the creations numbered in todo, in a pipeline.
func (s *Store) sendAll(ctx context.Context, cs []*Creation, todo []int) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(todo))
	pipe := s.rdb.Pipeline()
	for k, i := range todo {
		args := append([]any{asynqPrefix(cs[i].Queue), ourPrefix(cs[i].Queue)}, cs[i].args()...)
		cmds[k] = createScript.EvalSha(ctx, pipe, cs[i].keys(), args...)
	}
	exec(ctx, pipe, cmds...)
	return cmds
}

// settle reads create.lua's reply.
func (c *Creation) settle(reply []any) error {
	switch {
	case code(reply) == 1 && len(reply) == 5:
		c.Result = CreateResult{
			Handle: Handle(c.Queue, integer(reply[1])), CreatedAt: tasks.AtMilli(integer(reply[2])),
			DueAt: tasks.AtMilli(integer(reply[3])), Status: tasks.Status(text(reply[4])),
		}
		return nil
	case code(reply) == 2 && len(reply) == 2:
		c.Result = CreateResult{Existing: address{c.Queue, text(reply[1])}.public()}
		return nil
	case code(reply) == -2:
		return tasks.ErrIdempotencyMismatch
	}
	return fmt.Errorf("create %s: redis answered %v", c.ID, reply)
}
