package main

import (
	"context"
	"errors"
	"fmt"

	"offstage/client"
	"offstage/tasks"
)

// follower copies a task's output to stdout as it is written.
type follower struct {
	a    *app
	c    *client.Client
	ref  tasks.Ref
	opts client.FollowOptions
	// seen hears of every answer of the server; nil for nobody.
	seen func(context.Context, *client.Output) error
}

// run copies until the task has ended, and returns it as it ended. With -o json only that is written.
func (f *follower) run(ctx context.Context) (*tasks.Task, error) {
	if err := f.copy(ctx); err != nil {
		return nil, f.interrupted(ctx, err)
	}
	t, err := f.c.Wait(ctx, f.ref, 0)
	if err != nil {
		return nil, f.interrupted(ctx, err)
	}
	if f.a.format == "json" {
		return t, f.a.json(t)
	}
	return t, nil
}

func (f *follower) copy(ctx context.Context) error {
	next := f.opts.Offset
	for out, err := range f.c.Follow(ctx, f.ref, f.opts) {
		if err != nil {
			return err
		}
		if next >= 0 && out.Offset > next {
			f.a.talk("%d bytes of output are no longer kept", out.Offset-next)
		}
		next = out.Next
		if out.Text != "" && f.a.format != "json" {
			if err := f.a.write(out.Text); err != nil {
				return err
			}
		}
		if f.seen != nil {
			if err := f.seen(ctx, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// interrupted explains that the task goes on without its watcher.
func (f *follower) interrupted(ctx context.Context, err error) error {
	if cause, ok := errors.AsType[*exitError](context.Cause(ctx)); ok {
		return cause
	}
	if errors.Is(err, client.ErrUnreachable) || errors.Is(err, tasks.ErrUnavailable) {
		return fmt.Errorf("%w; the task goes on: 'offstage task watch %s' comes back to it", err, f.ref.ID)
	}
	return err
}
