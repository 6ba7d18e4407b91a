package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"offstage/client"
	"offstage/tasks"
)

func newQueueCommand(a *app) *cobra.Command {
	cmd := newGroup("queue", "Look at queues, pause and resume them")
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Aliases: []string{"ls"}, Short: "List the queues with their counts", Args: cobra.NoArgs,
			RunE: a.withClient(a.listQueues),
		},
		&cobra.Command{
			Use: "pause QUEUE", Short: "Start no more tasks of a queue; what runs goes on", Args: cobra.ExactArgs(1),
			RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
				if err := c.Pause(ctx, args[0]); err != nil {
					return err
				}
				a.talk("paused %s", args[0])
				return nil
			}),
		},
		&cobra.Command{
			Use: "resume QUEUE", Short: "End a pause", Args: cobra.ExactArgs(1),
			RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
				if err := c.Resume(ctx, args[0]); err != nil {
					return err
				}
				a.talk("resumed %s", args[0])
				return nil
			}),
		},
	)
	return cmd
}

// withClient makes the RunE of a command that needs the daemon.
func (a *app) withClient(do func(context.Context, *client.Client, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		return do(cmd.Context(), c, args)
	}
}

func (a *app) listQueues(ctx context.Context, c *client.Client, _ []string) error {
	queues, err := c.Queues(ctx)
	if err != nil {
		return err
	}
	return a.show(queues, func() error {
		rows := [][]string{{"QUEUE", "STATE", "BACKLOG", "OLDEST"}}
		for _, s := range tasks.Statuses() {
			rows[0] = append(rows[0], string(s))
		}
		for _, q := range queues {
			state := "active"
			if q.Paused {
				state = "paused"
			}
			row := []string{q.Name, state, strconv.FormatInt(q.Backlog, 10), rough(time.Duration(q.OldestPendingAge))}
			for _, s := range tasks.Statuses() {
				row = append(row, strconv.FormatInt(q.Counts[s], 10))
			}
			rows = append(rows, row)
		}
		return a.table(rows)
	})
}
