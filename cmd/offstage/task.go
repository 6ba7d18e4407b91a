package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"offstage/client"
	"offstage/tasks"
)

func newTaskCommand(a *app) *cobra.Command {
	cmd := newGroup("task", "Look at tasks and steer them")
	a.ownerFlag(cmd.PersistentFlags())
	cmd.AddCommand(
		newTaskListCommand(a), newTaskGetCommand(a), newTaskWatchCommand(a), newTaskOutputCommand(a),
		newTaskCancelCommand(a), newTaskRetryCommand(a), newTaskDeleteCommand(a),
	)
	return cmd
}

// oneTask makes the RunE of a command about one task.
func (a *app) oneTask(do func(ctx context.Context, c *client.Client, ref tasks.Ref) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		ref := a.ref(args[0], cmd.Flag("owner").Changed)
		if err := do(cmd.Context(), c, ref); err != nil {
			return &taskError{ref, err}
		}
		return nil
	}
}

// taskError says which task a refusal is about. What is no refusal speaks for itself.
type taskError struct {
	ref tasks.Ref
	err error
}

func (e *taskError) Error() string {
	if _, refused := errors.AsType[*client.Error](e.err); !refused {
		return e.err.Error()
	}
	s := e.ref.ID + ": " + e.err.Error()
	if errors.Is(e.err, tasks.ErrNotFound) && e.ref.Owner != "" {
		s += fmt.Sprintf(" of owner %s (--owner names another)", e.ref.Owner)
	}
	return s
}

func (e *taskError) Unwrap() error { return e.err }
