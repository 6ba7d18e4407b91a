// Package api serves offstage over HTTP: a producer enqueues, anyone who knows a task watches and steers it, and an
// operator looks after the queues. openapi.yaml beside this file describes every call.
//
// The guarantees of the wire: a 2xx to an enqueue means the task is in Redis; every error is an RFC 9457 problem with
// a code; a body is read up to a bound and never guessed at (unknown fields, duplicate keys and anything after the
// JSON are refused); a client that goes away cancels nothing. Unless [Config].AnyHost is set, a request whose Host or
// Origin is foreign is refused, so that no web page can reach a daemon on loopback.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"offstage/queue"
	"offstage/tasks"
)

// Queue is what the API serves. A *queue.Queue is one.
type Queue interface {
	Producer
	Reader
	Steerer
	Operator
	Health(ctx context.Context) (queue.Health, error)
}

// Producer takes tasks.
type Producer interface {
	// Enqueue reports false when spec's idempotency key was used before; the task is then the earlier one.
	Enqueue(ctx context.Context, spec tasks.Spec) (*tasks.Task, bool, error)
	// EnqueueBatch returns one result per spec, or an error when nothing could be tried.
	EnqueueBatch(ctx context.Context, specs []tasks.Spec) ([]queue.BatchResult, error)
}

// Reader shows tasks.
type Reader interface {
	Get(ctx context.Context, ref tasks.Ref) (*tasks.Task, error)
	List(ctx context.Context, f queue.Filter) (*queue.Page, error)
	// Wait returns the task once it is terminal, or as it is when bound ran out.
	Wait(ctx context.Context, ref tasks.Ref, bound time.Duration) (*tasks.Task, error)
	// Output reads from byte offset on; a negative one is the start of what is kept.
	Output(ctx context.Context, ref tasks.Ref, offset int64, limit int, wait time.Duration) (*queue.Output, error)
	// Events returns up to limit events whose seq is greater than after, ascending.
	Events(ctx context.Context, ref tasks.Ref, after int64, limit int) ([]tasks.Event, error)
}

// Steerer changes the course of one task.
type Steerer interface {
	// Cancel returns what it changed: nothing when the task had ended.
	Cancel(ctx context.Context, ref tasks.Ref, r queue.CancelRequest) ([]tasks.Change, error)
	Retry(ctx context.Context, ref tasks.Ref) (*tasks.Task, error)
	Delete(ctx context.Context, ref tasks.Ref) error
}

// Operator looks after queues and workers.
type Operator interface {
	Queues(ctx context.Context) ([]queue.Info, error)
	Queue(ctx context.Context, name string) (*queue.Info, error)
	Pause(ctx context.Context, name string) error
	Resume(ctx context.Context, name string) error
	Workers(ctx context.Context) ([]queue.WorkerInfo, error)
}

// Config is what a [Server] is made of. Only Queue is required.
type Config struct {
	Queue Queue
	// Version is what /livez and /readyz say runs.
	Version string
	// Limits bounds bodies; the zero value means [tasks.DefaultLimits].
	Limits tasks.Limits
	// Logger gets every request at debug level, and faults of the server itself as errors. Nil discards.
	Logger *slog.Logger
	// Metrics serves GET /metrics; nil leaves the route out.
	Metrics http.Handler
	// Monitoring serves /monitoring/; nil leaves the route out. See [Monitoring].
	Monitoring http.Handler
	// Check refuses specs that no worker would run, before they are enqueued; nil accepts all.
	Check func(tasks.Spec) error

	// Hosts are the names, beside those of loopback, that a request's Host and Origin may have.
	Hosts []string
	// AnyHost switches the check of Host and Origin off: for a daemon that is reached by any name and guarded by
	// something else than loopback.
	AnyHost bool
}

// Server is the HTTP API. Its methods are safe for concurrent use. Make one with [New].
type Server struct {
	queue   Queue
	version string
	limits  tasks.Limits
	log     *slog.Logger
	check   func(tasks.Spec) error
	guard   guard

	patterns []string
	handler  http.Handler

	draining atomic.Bool
	stopping chan struct{} // closed once Serve shuts down: who waits for a task answers with what there is
	stopOnce sync.Once
}

// New checks cfg and returns a server that does not listen yet.
func New(cfg Config) (*Server, error) {
	if cfg.Queue == nil {
		return nil, errors.New("api: Config.Queue is nil")
	}
	s := &Server{
		queue: cfg.Queue, version: cfg.Version, limits: cfg.Limits, log: cfg.Logger, check: cfg.Check,
		guard: newGuard(cfg.Hosts, cfg.AnyHost), stopping: make(chan struct{}),
	}
	if s.limits == (tasks.Limits{}) {
		s.limits = tasks.DefaultLimits()
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.check == nil {
		s.check = func(tasks.Spec) error { return nil }
	}
	s.handler = s.routes(cfg.Metrics, cfg.Monitoring)
	return s, nil
}

// Handler is the whole API, for a server of the caller's own or a test.
func (s *Server) Handler() http.Handler { return s.handler }

// Patterns lists the routes as net/http.ServeMux patterns.
func (s *Server) Patterns() []string { return append([]string(nil), s.patterns...) }

// SetDraining turns /readyz to 503, for good. Everything else goes on.
func (s *Server) SetDraining() { s.draining.Store(true) }
