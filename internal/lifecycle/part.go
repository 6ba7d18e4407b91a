package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// The ways a lifecycle goes wrong, and the causes that parts see. Compare with errors.Is.
var (
	// ErrStopping is in the cause of a part's context once the part is asked to stop; what made the daemon stop is
	// in the cause as well.
	ErrStopping = errors.New("stopping")
	// ErrForced is in the cause, and in the error of [Runner.Run], when the stop is not to be waited for.
	ErrForced = errors.New("stopping at once")
	// ErrEnded: a part that had called ready ended by itself.
	ErrEnded = errors.New("ended by itself")
	// ErrStuck: a part did not end within its StopTimeout. Its goroutine is left behind; end the process.
	ErrStuck = errors.New("did not stop in time")
	// ErrNotReady: a part did not call ready within its StartTimeout.
	ErrNotReady = errors.New("not ready in time")
)

// DefaultStopTimeout is the StopTimeout of a part that sets none.
const DefaultStopTimeout = 10 * time.Second

// Part is something that runs for as long as the daemon does, or a step on the way to its start.
type Part struct {
	// Name stands in logs and errors.
	Name string
	// Run does the part's work until ctx ends, and returns when everything it started has ended too. It calls ready
	// once it can be used (a listener is bound, a connection is made); parts behind it wait for that. Calling ready
	// again does nothing.
	//
	// Once ctx has ended, nil and errors that are ctx's error or cause mean a clean stop. Before, an error stops all
	// parts; nil without ready means a step that is done, nil after ready is ErrEnded. A panic and a Goexit are
	// errors.
	Run func(ctx context.Context, ready func()) error
	// StartTimeout bounds how long Run may take to call ready. Zero and negative mean no bound.
	StartTimeout time.Duration
	// StopTimeout bounds how long Run may take to return once its ctx has ended. Zero means DefaultStopTimeout;
	// negative means no bound.
	StopTimeout time.Duration
}

// PartError says which part went wrong. It unwraps to what went wrong.
type PartError struct {
	Part string
	Err  error
}

func (e *PartError) Error() string { return e.Part + ": " + e.Err.Error() }

// Unwrap gives what went wrong.
func (e *PartError) Unwrap() error { return e.Err }

// PanicError is a panic in a part, or a Goexit when Value is nil.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return "left with runtime.Goexit"
	}
	return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack)
}

// Unwrap gives the value of the panic when it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// running is a part that has been started.
type running struct {
	Part
	cancel context.CancelCauseFunc
	ready  chan struct{} // closed by ready
	done   chan struct{} // closed after failed is set
	failed error         // what the part's end means, nil for a good one
}

// run runs the part to its end and closes done, whatever happens in it.
func (r *running) run(ctx context.Context, ready func()) {
	defer close(r.done)
	returned := false
	defer func() {
		if !returned {
			r.failed = &PartError{Part: r.Name, Err: &PanicError{Value: recover(), Stack: debug.Stack()}}
		}
	}()
	err := r.Run(ctx, ready)
	r.failed = r.judge(err, ctx.Err() != nil)
	returned = true
}

// judge says what err, with which Run has just returned, means; stopped tells whether it had been asked to.
func (r *running) judge(err error, stopped bool) error {
	switch {
	case err == nil && (stopped || !closed(r.ready)):
		return nil
	case err == nil:
		err = ErrEnded
	case stopped && (errors.Is(err, context.Canceled) || errors.Is(err, ErrStopping)):
		return nil
	}
	return &PartError{Part: r.Name, Err: err}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
