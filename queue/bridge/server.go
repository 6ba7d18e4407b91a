package bridge

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is the redis.UniversalClient for one asynq.Server. It answers asynq's dequeue with a task whose attempt has
// been opened, which the handler picks up with [Server.Attempt], and asynq's acknowledgements with "OK", unsent: the
// end of an attempt is written by [Store.End], together with asynq's move, before asynq hears of it. asynq's own lease
// recovery, which would run a task beside a live body, finds nothing to do; [Store.Takeover] is in its place.
type Server struct {
	redis.UniversalClient
	store *Store
	cfg   ServerConfig
	idle  redis.UniversalClient // for the subscription that asynq holds and that nobody publishes to

	mu    sync.Mutex
	taken map[address]*Attempt
}

// ServerConfig says how a [Server] takes tasks.
type ServerConfig struct {
	Worker string
	// Acquire reserves the slot of one body, or says that there is none. Whoever runs the body gives it back when the
	// body has returned; the Server does when there was nothing to take.
	Acquire func() bool
	Release func()
	// Shown is the time limit that asynq's tools display for an attempt; enforcing it is the worker's business.
	Shown func(*Attempt) time.Duration
	// Serves says whether tasks of a queue may be taken and moved now. In a cluster the Redis of one queue may be away
	// and those of the others not.
	Serves func(queue string) bool
	// Failed hears of an error of a take from a queue, which asynq is told was empty: asynq would leave out the queues
	// behind it, and try again without a pause. Serves must make the pause.
	Failed func(queue string, err error)
}

// NewServer gives a Server over the store's connection. Close it when asynq's server has been shut down.
func NewServer(s *Store, cfg ServerConfig) (*Server, error) {
	idle, err := Clone(s.rdb)
	if err != nil {
		return nil, err
	}
	return &Server{UniversalClient: s.rdb, store: s, cfg: cfg, idle: idle, taken: map[address]*Attempt{}}, nil
}

// Close frees what NewServer made. The store's connection belongs to whoever made the Store.
func (s *Server) Close() error { return s.idle.Close() }

// Attempt gives the open attempt of a task that asynq hands to its handler, once. id is asynq's.
func (s *Server) Attempt(queue, id string) (*Attempt, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := address{queue, id}
	a, ok := s.taken[at]
	delete(s.taken, at)
	return a, ok
}

// Subscribe keeps asynq off its cancel channel: it would cancel a handler's context and retry the task at once, beside
// the body. The worker listens there itself. asynq's subscriber crashes when its connection is closed under it, so
// it has one of its own.
func (s *Server) Subscribe(ctx context.Context, _ ...string) *redis.PubSub {
	return s.idle.Subscribe(ctx, "offstage:unused")
}

// Eval sees a script whose SHA-1 Redis did not know.
func (s *Server) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return s.UniversalClient.Eval(ctx, script, keys, args...)
}

// EvalSha answers one of asynq's scripts, or passes it on.
func (s *Server) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	switch asynqScripts[sha] {
	case "":
		s.store.watch.UnknownScript(sha)
	case asynqDequeue:
		return s.dequeue(ctx, queueOf(keys[0]))
	case asynqDone, asynqDoneUnique, asynqComplete, asynqCompleteUnique, asynqRequeue, asynqRetry, asynqArchive:
		return reply(ctx, "OK", nil)
	case asynqLeaseExpired:
		return reply(ctx, []any{}, nil)
	case asynqForward:
		// One script of ours moves both kinds of delayed tasks; asynq asks for each.
		if keys[0] != asynqPrefix(queueOf(keys[0]))+"scheduled" {
			return reply(ctx, int64(0), nil)
		}
		if !s.cfg.Serves(queueOf(keys[0])) {
			return reply(ctx, int64(0), nil)
		}
		n, err := s.store.forward(ctx, queueOf(keys[0]))
		if err != nil { // asynq would leave out the queues behind this one
			s.cfg.Failed(queueOf(keys[0]), err)
		}
		return reply(ctx, n, nil)
	case asynqPurge:
		n, err := s.store.Purge(ctx, queueOf(keys[0]))
		return reply(ctx, n, err)
	}
	return s.UniversalClient.EvalSha(ctx, sha, keys, args...)
}

func reply(ctx context.Context, v any, err error) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	if err != nil {
		cmd.SetErr(err)
	} else {
		cmd.SetVal(v)
	}
	return cmd
}

// takeTimeout bounds one take; asynq gives no deadline of its own.
const takeTimeout = 5 * time.Second

// dequeue takes one task and hands asynq its message.
func (s *Server) dequeue(ctx context.Context, queue string) *redis.Cmd {
	if !s.cfg.Serves(queue) || !s.cfg.Acquire() {
		return reply(ctx, nil, redis.Nil)
	}
	tctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	attempts, messages, err := s.store.take(tctx, queue, s.cfg.Worker, 1)
	if err != nil {
		s.cfg.Failed(queue, err)
	}
	if len(attempts) == 0 {
		s.cfg.Release()
		return reply(ctx, nil, redis.Nil)
	}
	s.mu.Lock()
	s.taken[attempts[0].at] = attempts[0]
	s.mu.Unlock()
	return reply(ctx, string(unhurried(messages[0], s.cfg.Shown(attempts[0]))), nil)
}
