package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// forcedGrace is how long a forced stop waits for the parts, all of them together, so that they can at least kill
// what they started outside the process.
const forcedGrace = time.Second

// Run is [Runner.Run] without a force channel.
func Run(ctx context.Context, logger *slog.Logger, parts ...Part) error {
	return Runner{Logger: logger}.Run(ctx, parts...)
}

// Runner runs parts. It may be copied and used again.
type Runner struct {
	// Logger must be set.
	Logger *slog.Logger
	// Force, when closed, ends the waiting: every context is cancelled at once and Run returns a second later at the
	// latest. Nil means never. A part that is stopping already does not hear of it through its context; give it this
	// channel if it waits for long.
	Force <-chan struct{}
}

// Run starts the parts one after the other, each when the one before is ready, and blocks until ctx ends or a part
// fails. Then it stops the parts that were started, the last one first, each one when the one after it has ended: its
// context is cancelled, with a cause that holds ErrStopping and the reason. The end of ctx reaches the parts in that
// order only; values of ctx are visible to them.
//
// The error is nil when ctx ended and all parts stopped cleanly. Otherwise it joins a *PartError for each part that
// failed or got stuck, and ErrForced when Force was closed.
func (r Runner) Run(ctx context.Context, parts ...Part) error {
	g := &group{Runner: r, ended: make(chan *running, len(parts))}
	err := g.start(ctx, parts)
	if err == nil {
		err = g.wait(ctx)
	}
	reason := err
	if reason == nil {
		reason = context.Cause(ctx)
	}
	return errors.Join(err, g.stop(reason))
}

// group is the parts of one Run in the order of their start.
type group struct {
	Runner
	parts    []*running
	ended    chan *running // each part once, when it has ended
	reported *running      // whose failure made the group stop
	wg       sync.WaitGroup
}

// start starts the parts until all are ready, one fails, or ctx or the force channel says stop.
func (g *group) start(ctx context.Context, parts []Part) error {
	for _, p := range parts {
		if ctx.Err() != nil {
			return nil
		}
		if err := g.startOne(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) startOne(ctx context.Context, p Part) error {
	r := g.launch(ctx, p)
	began := time.Now()
	late, release := after(max(p.StartTimeout, 0))
	defer release()
	for {
		select {
		case <-r.ready:
			g.Logger.Debug("Part is ready", "part", p.Name, "duration", time.Since(began))
			return nil
		case other := <-g.ended:
			if other.failed != nil || other == r {
				return g.report(other)
			}
		case <-late:
			return &PartError{Part: p.Name, Err: fmt.Errorf("%w (%v)", ErrNotReady, p.StartTimeout)}
		case <-g.Force:
			return ErrForced
		case <-ctx.Done():
			return nil
		}
	}
}

func (g *group) launch(ctx context.Context, p Part) *running {
	r := &running{Part: p, ready: make(chan struct{}), done: make(chan struct{})}
	ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	g.parts = append(g.parts, r)
	g.wg.Go(func() {
		defer func() { g.ended <- r }()
		r.run(ctx, sync.OnceFunc(func() { close(r.ready) }))
	})
	return r
}

// wait blocks until there is a reason to stop: nil when it is the end of ctx.
func (g *group) wait(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.Force:
			return ErrForced
		case r := <-g.ended:
			if err := g.report(r); err != nil {
				return err
			}
		}
	}
}

// report gives r's failure and keeps in mind that it was given.
func (g *group) report(r *running) error {
	if r.failed != nil {
		g.reported = r
	}
	return r.failed
}

// stop stops the parts in reverse order and gives the failures that have not been reported.
func (g *group) stop(reason error) error {
	g.Logger.Info("Stopping", "reason", reason.Error())
	cause := fmt.Errorf("%w: %w", ErrStopping, reason)
	var errs []error
	for i, r := range slices.Backward(g.parts) {
		r.cancel(cause)
		if !g.await(r) {
			return errors.Join(append(errs, g.force(i, reason))...)
		}
		errs = append(errs, g.outcome(r))
	}
	return errors.Join(errs...)
}

// await waits until r has ended or its time is over; false when the force channel was closed before.
func (g *group) await(r *running) bool {
	timeout := r.StopTimeout
	if timeout == 0 {
		timeout = DefaultStopTimeout
	}
	late, release := after(max(timeout, 0))
	defer release()
	select {
	case <-r.done:
	case <-late:
	case <-g.Force:
		return closed(r.done)
	}
	return true
}

// outcome is what to report of r once its time is over.
func (g *group) outcome(r *running) error {
	switch {
	case !closed(r.done):
		return &PartError{Part: r.Name, Err: ErrStuck}
	case r == g.reported:
		return nil
	}
	return r.failed
}

// force cancels parts 0 to last at once and gives them forcedGrace to end.
func (g *group) force(last int, reason error) error {
	var errs []error
	if !errors.Is(reason, ErrForced) {
		errs = append(errs, ErrForced)
	}
	g.Logger.Warn("Stopping at once", "parts", last+1)
	for _, r := range g.parts[:last+1] {
		r.cancel(fmt.Errorf("%w: %w", ErrStopping, ErrForced))
	}
	late, release := after(forcedGrace)
	defer release()
	over := false
	for i := last; i >= 0; i-- {
		if !over {
			select {
			case <-g.parts[i].done:
			case <-late:
				over = true
			}
		}
		errs = append(errs, g.outcome(g.parts[i]))
	}
	return errors.Join(errs...)
}

// after is a channel that gets a value after d, never when d is zero. Call release when done with it.
func after(d time.Duration) (c <-chan time.Time, release func()) {
	if d == 0 {
		return nil, func() {}
	}
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
