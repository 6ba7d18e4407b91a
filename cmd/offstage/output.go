package main

import (
	"context"

	"github.com/spf13/cobra"

	"offstage/client"
	"offstage/tasks"
)

func newTaskOutputCommand(a *app) *cobra.Command {
	var offset int64
	var limit int
	var follow bool
	cmd := &cobra.Command{
		Use: "output TASK", Short: "Print what a task has written",
		Long: `Print what a task has written so far and is still kept, from byte --offset of everything it ever wrote. With -f
the command stays until the task has ended.`,
		Args: cobra.ExactArgs(1),
		RunE: a.oneTask(func(ctx context.Context, c *client.Client, ref tasks.Ref) error {
			if follow {
				f := &follower{a: a, c: c, ref: ref, opts: client.FollowOptions{Offset: offset}}
				_, err := f.run(ctx)
				return err
			}
			return a.printOutput(ctx, c, ref, client.OutputOptions{Offset: offset, Limit: limit})
		}),
	}
	cmd.Flags().Int64Var(&offset, "offset", -1, "byte to start at, -1 for the first one kept")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many bytes, 0 for all")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the task has ended")
	return cmd
}

// printOutput prints what there is now, in as many requests as that takes.
func (a *app) printOutput(ctx context.Context, c *client.Client, ref tasks.Ref, o client.OutputOptions) error {
	rest := o.Limit
	for {
		out, err := c.Output(ctx, ref, o)
		if err != nil {
			return err
		}
		if o.Offset >= 0 && out.Offset > o.Offset {
			a.talk("%d bytes of output are no longer kept", out.Offset-o.Offset)
		}
		if err := a.write(out.Text); err != nil {
			return err
		}
		rest -= len(out.Text)
		if out.Text == "" || out.Next >= out.Total || o.Limit > 0 && rest <= 0 {
			return nil
		}
		if o.Offset = out.Next; o.Limit > 0 {
			o.Limit = rest
		}
	}
}
