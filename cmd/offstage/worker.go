package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"offstage/client"
)

func newWorkerCommand(a *app) *cobra.Command {
	cmd := newGroup("worker", "Look at the processes that run tasks")
	cmd.AddCommand(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the workers", Args: cobra.NoArgs,
		RunE: a.withClient(a.listWorkers),
	})
	return cmd
}

func (a *app) listWorkers(ctx context.Context, c *client.Client, _ []string) error {
	workers, err := c.Workers(ctx)
	if err != nil {
		return err
	}
	return a.show(workers, func() error {
		rows := [][]string{{"WORKER", "HOST", "PID", "VERSION", "STATE", "RUNNING", "UP", "SEEN", "QUEUES"}}
		for _, w := range workers {
			state := "working"
			if w.Draining {
				state = "draining"
			}
			rows = append(rows, []string{w.ID, w.Host, strconv.Itoa(w.PID), w.Version, state,
				fmt.Sprintf("%d/%d", w.Running, w.Concurrency), a.ago(w.StartedAt), a.ago(w.SeenAt), weights(w.Queues)})
		}
		return a.table(rows)
	})
}

// weights is "critical=6 default=3", heaviest first.
func weights(queues map[string]int) string {
	names := slices.SortedFunc(maps.Keys(queues), func(x, y string) int {
		if queues[x] != queues[y] {
			return queues[y] - queues[x]
		}
		return strings.Compare(x, y)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s=%d", name, queues[name])
	}
	return strings.Join(names, " ")
}
