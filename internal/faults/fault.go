package faults

import (
	"context"
	"fmt"
	"time"
)

// Fault is something that breaks, and how to mend it. Both funcs are required; neither may need the other to have
// worked.
type Fault struct {
	Name   string
	Inject func(context.Context) error
	Heal   func(context.Context) error
}

// For injects the fault, waits for d and heals it.
func (f Fault) For(ctx context.Context, d time.Duration) error {
	if err := f.Inject(ctx); err != nil {
		return fmt.Errorf("inject %s: %w", f.Name, err)
	}
	pause(ctx, d)
	if err := f.Heal(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("heal %s: %w", f.Name, err)
	}
	return nil
}

// nothing is the Heal of a fault that is over at once.
func nothing(context.Context) error { return nil }

// pause waits for d; it reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// within asks ok every few milliseconds until it says yes; it returns how long that took, and false when bound was over
// or ctx ended first.
func within(ctx context.Context, bound time.Duration, ok func() bool) (time.Duration, bool) {
	began := time.Now()
	for !ok() {
		if time.Since(began) > bound || !pause(ctx, 10*time.Millisecond) {
			return time.Since(began), false
		}
	}
	return time.Since(began), true
}
