package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"offstage/tasks"
)

// Config says how a [Worker] works. The zero value is ready to use.
type Config struct {
	// Queues are the queues to serve, with their weights; nil means queue default only.
	Queues map[string]int
	// StrictPriority takes from a queue only when those of greater weight are empty, instead of by share.
	StrictPriority bool
	// Concurrency bounds how many bodies run at once; zero means 10.
	Concurrency int
	// PollInterval is how long to wait when the queues are empty; zero means 100 ms.
	PollInterval time.Duration
	// CancelGrace is how long a handler may go on after its context ended before its task ends without it; zero
	// means 10 s, negative none at all.
	CancelGrace time.Duration
	// DrainTimeout bounds how long Run waits for running tasks once its context ends; then their contexts are
	// cancelled with tasks.ErrDraining. Zero means 30 s, negative means at once.
	DrainTimeout time.Duration
	// MaxInterruptions is how often a crash may cut a task short before it fails as orphaned; zero means 3, negative
	// none.
	MaxInterruptions int
	// Spool keeps outcomes that Redis does not take for CommitHold. Nil means that they are kept in memory, each with
	// its slot, and are lost with the process.
	Spool Spool
	// CommitHold is how long an outcome that Redis does not take is kept in memory before it goes to the Spool; zero
	// means 5 s, negative not at all.
	CommitHold time.Duration
	// Heartbeat is how often the worker tells Redis that it lives; zero means 2 s.
	Heartbeat time.Duration
	// Lease is how long a silent worker keeps its tasks; zero means 10 s. All workers of a queue must agree.
	Lease time.Duration
	// Abort, when closed, ends Run at once: the contexts of running bodies are cancelled and nobody is waited for. Their
	// tasks go to other workers once this one is seen dead. Nil means never.
	Abort <-chan struct{}
	// BeforeTakeover is called before tasks of a worker that went silent are freed, to clean up what it may have left
	// on this host; nil means nothing is.
	BeforeTakeover func()
	// Logger gets what an operator should know; nil means slog.Default().
	Logger *slog.Logger
	// Version is shown in the list of workers.
	Version string
}

// slack is what the runtime gets on top of CancelGrace to notice that a handler has returned.
const slack = 2 * time.Second

func (c Config) withDefaults() (Config, error) {
	if len(c.Queues) == 0 {
		c.Queues = map[string]int{"default": 1}
	}
	var errs []error
	for name, weight := range c.Queues {
		if err := tasks.ValidateQueue(name); err != nil {
			errs = append(errs, err)
		}
		if weight < 1 {
			errs = append(errs, &tasks.InvalidError{Field: "queues." + name, Reason: fmt.Sprintf("weight is %d", weight), Hint: "at least 1"})
		}
	}
	if c.Concurrency < 0 {
		errs = append(errs, &tasks.InvalidError{Field: "concurrency", Reason: "is negative"})
	}
	setDefault(&c.Concurrency, 10)
	setDefault(&c.PollInterval, 100*time.Millisecond)
	setDefault(&c.CancelGrace, 10*time.Second)
	setDefault(&c.DrainTimeout, 30*time.Second)
	setDefault(&c.MaxInterruptions, 3)
	setDefault(&c.CommitHold, 5*time.Second)
	setDefault(&c.Heartbeat, 2*time.Second)
	setDefault(&c.Lease, 10*time.Second)
	c.CancelGrace, c.MaxInterruptions = max(c.CancelGrace, 0), max(c.MaxInterruptions, 0)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, errors.Join(errs...)
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
