package main

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"offstage/client"
	"offstage/tasks"
)

func newTaskListCommand(a *app) *cobra.Command {
	var f client.Filter
	var statuses []string
	var limit int
	var everybody bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List an owner's tasks, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Owner = a.owner; everybody {
				f.Owner = ""
			}
			for _, s := range statuses {
				if !tasks.Status(s).Valid() {
					return usagef("--status %q is none of %v", s, tasks.Statuses())
				}
				f.Statuses = append(f.Statuses, tasks.Status(s))
			}
			if limit < 1 {
				return usagef("--limit %d is less than 1", limit)
			}
			return a.listTasks(cmd.Context(), f, limit)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&statuses, "status", nil, "only these, separated by commas")
	flags.StringVar(&f.Type, "type", "", "only this type")
	flags.StringVar(&f.Queue, "queue", "", "only this queue")
	flags.StringVar(&f.Parent, "parent", "", "only children of this task")
	flags.IntVar(&limit, "limit", 50, "at most so many")
	flags.BoolVarP(&everybody, "all-owners", "A", false, "tasks of every owner")
	return cmd
}

func (a *app) listTasks(ctx context.Context, f client.Filter, limit int) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	f.PageSize = min(limit, 100)
	found, more := []*tasks.Task{}, false
	for t, err := range c.All(ctx, f) {
		if err != nil {
			return err
		}
		if more = len(found) == limit; more {
			break
		}
		found = append(found, t)
	}
	if err := a.show(found, func() error { return a.taskTable(found, f.Owner) }); err != nil {
		return err
	}
	if more {
		a.talk("there are more: --limit shows them")
	}
	return nil
}

func (a *app) taskTable(found []*tasks.Task, owner string) error {
	if len(found) == 0 {
		if owner != "" {
			a.talk("no tasks of owner %s (-A lists those of every owner)", owner)
		}
		return nil
	}
	rows := [][]string{{"ID", "HANDLE", "STATUS", "TYPE", "AGE", "ATTEMPT", "NAME"}}
	for _, t := range found {
		rows = append(rows, []string{t.ID, t.Handle, string(t.Status), t.Type, a.ago(t.CreatedAt), strconv.Itoa(t.Attempt), t.Name})
	}
	if owner == "" {
		for i := range rows {
			cell := "OWNER"
			if i > 0 {
				cell = found[i-1].Owner
			}
			rows[i] = slices.Insert(rows[i], 1, cell)
		}
	}
	return a.table(rows)
}
