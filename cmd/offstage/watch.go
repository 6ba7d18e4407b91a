package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"offstage/client"
	"offstage/tasks"
)

// watchInterval is how often a watcher looks at status, attempt and progress.
const watchInterval = time.Second

func newTaskWatchCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "watch TASK",
		Short: "Follow a task to its end: its output on stdout, what happens to it on stderr",
		Long: `Follow a task to its end: what it writes goes to stdout, its status, attempts and progress to stderr. The exit
code says how it ended. Interrupting the watch leaves the task alone.`,
		Args: cobra.ExactArgs(1),
		RunE: a.oneTask(func(ctx context.Context, c *client.Client, ref tasks.Ref) error {
			w := &watcher{a: a, c: c, ref: ref}
			f := &follower{a: a, c: c, ref: ref, seen: w.seen,
				opts: client.FollowOptions{Offset: -1, Poll: watchInterval}}
			t, err := f.run(ctx)
			if err != nil {
				return err
			}
			w.say(t)
			return outcome(t)
		}),
	}
}

// watcher says what changed about a task.
type watcher struct {
	a      *app
	c      *client.Client
	ref    tasks.Ref
	looked time.Time
	status tasks.Status
	last   string
}

// seen looks at the record when the status is a new one, and else once per interval.
func (w *watcher) seen(ctx context.Context, out *client.Output) error {
	if out.Status == w.status && w.a.now().Sub(w.looked) < watchInterval {
		return nil
	}
	w.looked, w.status = w.a.now(), out.Status
	if t, err := w.c.Get(ctx, w.ref); err == nil { // an error shows at the next read of the output, with patience
		w.say(t)
	}
	return nil
}

func (w *watcher) say(t *tasks.Task) {
	s := fmt.Sprintf("%s %s", t.ID, t.Status)
	if t.Attempt > 0 {
		s += fmt.Sprintf(", attempt %d", t.Attempt)
	}
	if p := progressText(t); p != "" {
		s += ", " + p
	}
	if n := len(t.Errors); n > 0 && t.Status == tasks.Retrying {
		s += ": " + oneLine(t.Errors[n-1].Message)
	}
	if t.Status == tasks.Scheduled || t.Status == tasks.Retrying {
		s += ", next at " + clock(t.ScheduledAt)
	}
	if s != w.last {
		w.a.talk("%s", s)
		w.last = s
	}
}
