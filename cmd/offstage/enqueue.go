package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"offstage/client"
	"offstage/tasks"
)

// maxInputBytes bounds what is read of stdin: well over any payload that a daemon takes.
const maxInputBytes = 64 << 20

func newEnqueueCommand(a *app) *cobra.Command {
	var flags specFlags
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "enqueue TYPE [JSON|-]",
		Short: "Hand in a task and print its id",
		Long: `Hand in a task of any type; the payload is JSON, or '-' to read it from stdin. The id is printed once the task
is durable. With --wait the command stays until the task has ended and prints its result instead; the exit code says
how it ended. Interrupting the wait leaves the task alone.`,
		Example: `  offstage enqueue email:send '{"to": "a@example.org"}' --max-retries 5
  offstage enqueue http '{"url": "http://localhost:9000/hook"}' --wait=30s`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := flags.build(cmd.Flags())
			if err != nil {
				return err
			}
			if spec.Type, spec.Owner = args[0], a.owner; len(args) == 2 {
				if spec.Payload, err = a.payload(args[1]); err != nil {
					return err
				}
			}
			return a.enqueue(cmd.Context(), spec, cmd.Flags().Changed("wait"), wait)
		},
	}
	flags.add(cmd.Flags())
	a.ownerFlag(cmd.Flags())
	cmd.Flags().DurationVar(&wait, "wait", 0, "stay until it has ended, or for at most the given time (--wait=30s)")
	cmd.Flags().Lookup("wait").NoOptDefVal = "0s"
	return cmd
}

func (a *app) payload(arg string) (any, error) {
	b := []byte(arg)
	if arg == "-" {
		var err error
		if b, err = io.ReadAll(io.LimitReader(a.stdin, maxInputBytes+1)); err != nil {
			return nil, fmt.Errorf("read stdin: %w", err)
		}
		if len(b) > maxInputBytes {
			return nil, usagef("the payload on stdin is over %d MiB", maxInputBytes>>20)
		}
	}
	if json.Valid(b) {
		return json.RawMessage(b), nil
	}
	if _, err := time.ParseDuration(arg); err == nil {
		return nil, usagef("the payload %q is not JSON; a bound of the wait is written --wait=%s", arg, arg)
	}
	return nil, usagef("the payload is not JSON")
}

func (a *app) enqueue(ctx context.Context, spec tasks.Spec, wait bool, bound time.Duration) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	t, created, err := c.Enqueue(ctx, spec)
	if err != nil {
		return err
	}
	if !created {
		a.talk("the idempotency key was used before: this is the task of then")
	}
	if !wait {
		return a.show(t, func() error { return a.line(t.ID) })
	}
	a.talk("task %s (%s)", t.ID, t.Handle)
	return a.await(ctx, c, t, bound)
}

// await waits for the end and prints the result.
func (a *app) await(ctx context.Context, c *client.Client, t *tasks.Task, bound time.Duration) error {
	t, err := c.Wait(ctx, tasks.Ref{ID: t.ID, Owner: t.Owner}, bound)
	if err != nil {
		return err
	}
	err = a.show(t, func() error {
		if len(t.Result) == 0 {
			return nil
		}
		return a.line(string(t.Result))
	})
	if err != nil {
		return err
	}
	if !t.Status.Terminal() {
		return &exitError{exitWaitOver, fmt.Sprintf("task %s is still %s after %s", t.ID, t.Status, bound)}
	}
	return outcome(t)
}
