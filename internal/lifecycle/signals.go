package lifecycle

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return "received signal: " + e.Signal.String() }

// Signals ends the returned context, with a *SignalError as its cause, at the first SIGTERM or SIGINT of the process,
// and closes force at the second one. A third one kills the process, as if nobody listened.
//
// stop ends the listening and the context, and waits for the goroutine behind it; it may be called again. Signals
// reach every caller of Signals in the process, so call it once.
func Signals(parent context.Context, logger *slog.Logger) (ctx context.Context, force <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	forced := make(chan struct{})
	received := make(chan os.Signal, 2)
	signal.Notify(received, syscall.SIGTERM, syscall.SIGINT)
	var wg sync.WaitGroup
	quit := make(chan struct{})
	wg.Go(func() {
		defer signal.Stop(received)
		select {
		case s := <-received:
			logger.Info("Received signal, stopping; a second one stops at once", "signal", s.String())
			cancel(&SignalError{Signal: s})
		case <-quit:
			return
		}
		select {
		case s := <-received:
			logger.Warn("Received second signal, stopping at once", "signal", s.String())
			close(forced)
		case <-quit:
		}
	})
	stop = sync.OnceFunc(func() {
		close(quit)
		wg.Wait()
		cancel(context.Canceled)
	})
	return ctx, forced, stop
}
