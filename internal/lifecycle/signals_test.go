package lifecycle_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"offstage/internal/lifecycle"
)

// Signals go to the whole process, so these tests do not run beside each other.

func raise(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		t.Fatalf("kill self: %v", err)
	}
}

func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s did not happen within 10s", what)
	}
}

func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		ctx, force, stop := lifecycle.Signals(t.Context(), quiet())
		raise(t, s)
		await(t, ctx.Done(), "the end of the context")
		got, ok := errors.AsType[*lifecycle.SignalError](context.Cause(ctx))
		if !ok || got.Signal != s {
			t.Errorf("cause after %v = %v, want a *SignalError of it", s, context.Cause(ctx))
		}
		select {
		case <-force:
			t.Errorf("one %v closes force", s)
		default:
		}
		raise(t, syscall.SIGTERM)
		await(t, force, "force")
		stop()
		stop()
	}
}

func TestSignals_Stop(t *testing.T) {
	ctx, force, stop := lifecycle.Signals(t.Context(), quiet())
	stop()
	if !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Errorf("cause after stop = %v, want %v", context.Cause(ctx), context.Canceled)
	}
	select {
	case <-force:
		t.Error("stop closes force")
	default:
	}
}

func TestSignals_ParentEnds(t *testing.T) {
	parent, cancel := context.WithCancelCause(t.Context())
	ctx, _, stop := lifecycle.Signals(parent, quiet())
	defer stop()
	cancel(errBoom)
	if !errors.Is(context.Cause(ctx), errBoom) {
		t.Errorf("cause = %v, want the parent's", context.Cause(ctx))
	}
	raise(t, syscall.SIGTERM) // must not kill the test: stop has not been called
	time.Sleep(10 * time.Millisecond)
}
