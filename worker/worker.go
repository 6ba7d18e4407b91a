package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"offstage/queue"
	"offstage/queue/bridge"
	"offstage/tasks"
)

// Worker runs tasks. Make one with [New], register handlers, then call [Worker.Run], once.
type Worker struct {
	cfg        Config
	id         string
	queue      *queue.Queue
	store      *bridge.Store
	watch      queue.Observer
	server     *bridge.Server
	bodies     *bodies
	log        *slog.Logger
	quiet      *quiet
	handlers   map[string]Handler
	middleware []Middleware

	started   atomic.Bool
	draining  atomic.Bool
	startedAt time.Time
	ranks     map[string]int64 // where the reconciliation of each queue goes on; upkeep's own
	hints     chan struct{}

	facts        sync.Mutex         // guards what follows
	contacts     map[string]contact // by queue
	spoolErr     error
	spoolChecked time.Time
	keyspaces    map[string]string // name of each queue's
	emptied      time.Time         // when one was found to be another

	stopping chan struct{} // closed when a drain begins
	giveUp   chan struct{} // closed when outcomes that Redis does not take are given up
}

// New gives a Worker for the queue's Redis. Errors: *tasks.InvalidError, joined when there are several.
func New(q *queue.Queue, cfg Config) (*Worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Worker{
		cfg: cfg, id: newWorkerID(), queue: q, store: q.Store(), watch: q.Observer(), log: cfg.Logger, quiet: newQuiet(),
		bodies: newBodies(cfg.Concurrency), handlers: map[string]Handler{}, ranks: map[string]int64{},
		contacts: map[string]contact{}, keyspaces: map[string]string{}, hints: make(chan struct{}, 1),
		stopping: make(chan struct{}), giveUp: make(chan struct{}),
	}
	w.server, err = bridge.NewServer(w.store, bridge.ServerConfig{
		Worker: w.id, Acquire: w.acquire, Release: w.bodies.release, Serves: w.met, Failed: w.takeFailed,
		Shown: func(a *bridge.Attempt) time.Duration {
			if a.Task.Timeout == 0 {
				return 0
			}
			return time.Duration(a.Task.Timeout) + cfg.CancelGrace
		},
	})
	return w, err
}

func newWorkerID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d:%s", host, os.Getpid(), rand.Text()[:6])
}

// ID names this worker in tasks and in the list of workers.
func (w *Worker) ID() string { return w.id }

// Ready reports whether the worker takes tasks: it runs and does not drain.
func (w *Worker) Ready() bool { return w.started.Load() && !w.draining.Load() }

// Run takes and runs tasks until ctx ends, then drains: it takes no more, waits for running tasks up to DrainTimeout,
// cancels the rest with tasks.ErrDraining and puts them back at the front of their queues. The error is nil when
// every task has ended or was put back; it says how many handlers still run otherwise, and then the process should
// exit. Redis may be away at the start and at any time.
func (w *Worker) Run(ctx context.Context) error {
	if w.started.Swap(true) {
		return errors.New("worker: Run called twice")
	}
	w.startedAt = time.Now()
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	if !w.introduce(ctx, live) {
		return nil
	}
	srv := asynq.NewServerFromRedisClient(w.server, w.serverConfig())
	if err := srv.Start(w); err != nil {
		return fmt.Errorf("start asynq: %w", err)
	}
	wg.Go(func() { w.beats(live) })
	wg.Go(func() { w.upkeep(live) })
	wg.Go(func() { w.store.Listen(live, w.hint) })
	w.log.Info("Worker runs", "worker", w.id, "queues", w.cfg.Queues, "concurrency", w.cfg.Concurrency)
	select {
	case <-ctx.Done():
	case <-w.cfg.Abort:
	}
	err := w.drain(srv)
	stop()
	wg.Wait()
	if err == nil {
		w.leave()
	}
	return err
}

// introduce beats once before the first task is taken, lest a task of ours looks orphaned. It waits until Redis serves a
// queue at least; false means that ctx ended first.
func (w *Worker) introduce(ctx, live context.Context) bool {
	for {
		for name := range w.cfg.Queues {
			if err := w.store.AddQueue(live, name); err != nil { // the reconciliation does it again
				w.quiet.note(w.log, "Start", err)
				break
			}
		}
		if w.beatAll(live) > 0 {
			w.replay()
			return true
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return false
		case <-w.cfg.Abort:
			return false
		}
	}
}

// serverConfig leaves asynq fetching and dispatching; its own limits are moved out of the way.
func (w *Worker) serverConfig() asynq.Config {
	return asynq.Config{
		Concurrency: w.cfg.Concurrency, Queues: w.cfg.Queues, StrictPriority: w.cfg.StrictPriority,
		TaskCheckInterval: w.cfg.PollInterval, DelayedTaskCheckInterval: forwardEvery,
		ShutdownTimeout: time.Second, // the drain has waited before
		Logger:          &asynqLogger{w.log}, LogLevel: asynq.WarnLevel,
		HealthCheckInterval: time.Hour,
	}
}

// forwardEvery is how often delayed tasks that are due are moved.
const forwardEvery = 250 * time.Millisecond

// drain ends Run in the order that loses nothing.
func (w *Worker) drain(srv *asynq.Server) error {
	w.draining.Store(true)
	w.bodies.close()
	close(w.stopping)
	w.log.Info("Worker drains", "worker", w.id, "running", w.bodies.inUse(), "drain_timeout", w.cfg.DrainTimeout)
	srv.Stop()
	idle := w.bodies.idle(w.cfg.DrainTimeout, w.cfg.Abort)
	if !idle {
		w.bodies.cancelAll(tasks.ErrDraining)
		w.bodies.returned(w.cfg.CancelGrace+slack, w.cfg.Abort)
		idle = w.bodies.idle(lastWords, w.cfg.Abort)
	}
	close(w.giveUp) // commits that Redis does not take are given up now
	answered := w.shutdown(srv)
	if !idle {
		idle = w.bodies.idle(writeTimeout+slack, w.cfg.Abort) // those that were on their way go to the spool
	}
	if !answered {
		return errors.New("drain: Redis does not answer; what it has not heard of is kept or starts again")
	}
	if !idle {
		return fmt.Errorf("drain: %d handlers still run; their tasks start again elsewhere after this process has exited", w.bodies.inUse())
	}
	w.bodies.wg.Wait()
	return nil
}

const (
	// lastWords is what the ends of bodies that returned at the last moment get to reach Redis.
	lastWords = time.Second
	// shutdownTimeout bounds the end of asynq's server, whose parts stop one after the other, each after its current
	// exchange with Redis.
	shutdownTimeout = 3 * time.Second
)

// shutdown ends asynq's server; false when Redis keeps it from ending, and then the process should exit.
func (w *Worker) shutdown(srv *asynq.Server) bool {
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		srv.Shutdown()
		_ = w.server.Close() // asynq crashes when its connection is closed under it
	})
	select {
	case <-done:
		return true
	case <-time.After(shutdownTimeout):
		return false
	}
}

// leave says goodbye, so that the list of workers is right at once.
func (w *Worker) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	for name := range w.cfg.Queues {
		if err := w.store.Leave(ctx, name, w.id); err != nil {
			w.log.Warn("Could not sign off", "queue", name, "err", err)
			return
		}
	}
}

// acquire takes a slot for a task about to be taken. None is given while an outcome could not be kept if Redis failed.
func (w *Worker) acquire() bool {
	if w.cfg.Spool != nil {
		if err := w.spoolState(); err != nil {
			w.quiet.note(w.log, "Spool", err)
			return false
		}
	}
	return w.bodies.acquire()
}

// takePause is how long a queue is left alone after a failed take, for asynq makes no pause.
const takePause = 250 * time.Millisecond

// takeFailed leaves the queue alone for a while. The others go on: in a cluster they live elsewhere.
func (w *Worker) takeFailed(queue string, err error) {
	w.quiet.note(w.log, "Take", err)
	w.facts.Lock()
	defer w.facts.Unlock()
	c := w.contacts[queue]
	c.pause = time.Now().Add(takePause)
	w.contacts[queue] = c
}
