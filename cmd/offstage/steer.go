package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"offstage/client"
	"offstage/tasks"
)

// eachTask makes the RunE of a command about one or more tasks: all are tried, all failures are told.
func (a *app) eachTask(do func(ctx context.Context, c *client.Client, ref tasks.Ref) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		var errs []error
		for _, arg := range args {
			ref := a.ref(arg, cmd.Flag("owner").Changed)
			err := do(cmd.Context(), c, ref)
			if err != nil {
				errs = append(errs, &taskError{ref, err})
			}
			if errors.Is(err, client.ErrUnreachable) {
				break // the others would fare no better
			}
		}
		return errors.Join(errs...)
	}
}

func newTaskCancelCommand(a *app) *cobra.Command {
	var o client.CancelOptions
	cmd := &cobra.Command{
		Use: "cancel TASK...", Short: "Cancel tasks, whatever they are doing", Args: cobra.MinimumNArgs(1),
		RunE: a.eachTask(func(ctx context.Context, c *client.Client, ref tasks.Ref) error {
			changes, err := c.Cancel(ctx, ref, o)
			if err != nil {
				return err
			}
			if len(changes) == 0 {
				a.talk("%s had ended already", ref.ID)
			}
			return a.show(map[string]any{"cancelled": len(changes), "tasks": changes}, func() error {
				for _, ch := range changes {
					if err := a.line(ch.ID + "  " + a.paint(string(ch.From)) + " -> " + a.paint(string(ch.To))); err != nil {
						return err
					}
				}
				return nil
			})
		}),
	}
	cmd.Flags().StringVar(&o.Reason, "reason", "", "why; kept on the task")
	return cmd
}

func newTaskRetryCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "retry TASK...", Short: "Start failed or cancelled tasks once more", Args: cobra.MinimumNArgs(1),
		RunE: a.eachTask(func(ctx context.Context, c *client.Client, ref tasks.Ref) error {
			t, err := c.Retry(ctx, ref)
			if err != nil {
				return err
			}
			return a.show(t, func() error { return a.line(t.ID + "  " + a.paint(string(t.Status))) })
		}),
	}
}

func newTaskDeleteCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "delete TASK...", Aliases: []string{"rm"}, Short: "Forget tasks that have ended", Args: cobra.MinimumNArgs(1),
		RunE: a.eachTask(func(ctx context.Context, c *client.Client, ref tasks.Ref) error {
			if err := c.Delete(ctx, ref); err != nil {
				return err
			}
			a.talk("deleted %s", ref.ID)
			return nil
		}),
	}
}
