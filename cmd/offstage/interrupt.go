package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"offstage/client"
	"offstage/tasks"
)

// interrupter turns the first signal into a cancel of the task and the second into leaving at once.
type interrupter struct {
	a        *app
	c        *client.Client
	leave    context.CancelCauseFunc
	accepted chan tasks.Ref // gets the task once the daemon has it
}

// listen returns when ctx ends, which it brings about at the second signal.
func (i *interrupter) listen(ctx context.Context, signals <-chan os.Signal) {
	var wg sync.WaitGroup
	defer wg.Wait()
	select {
	case <-ctx.Done():
		return
	case s := <-signals:
		i.a.talk("%s: cancelling the task; once more to leave at once", s)
		wg.Go(func() { i.cancel(ctx, s) })
	}
	select {
	case <-ctx.Done():
	case s := <-signals:
		i.leave(&exitError{signalCode(s), "left before the task had ended"})
	}
}

// cancel asks until the daemon has heard it. It may come before the task was accepted.
func (i *interrupter) cancel(ctx context.Context, s os.Signal) {
	var ref tasks.Ref
	select {
	case ref = <-i.accepted:
	case <-ctx.Done():
		return
	}
	for ctx.Err() == nil {
		_, err := i.c.Cancel(ctx, ref, client.CancelOptions{Reason: fmt.Sprintf("%s in offstage run", s)})
		if err == nil || ctx.Err() != nil {
			return
		}
		i.a.talk("cancel: %s", plain(err))
		if !errors.Is(err, client.ErrUnreachable) && !errors.Is(err, tasks.ErrUnavailable) {
			return
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// signalCode is what a shell reports for a process that s ended.
func signalCode(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitFailed
}
