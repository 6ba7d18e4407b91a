package faults

import (
	"context"
	"fmt"
	"slices"
	"time"

	"offstage/client"
	"offstage/tasks"
)

// Checker compares what was accepted with what the daemon and the ledger say.
type Checker struct {
	Client *client.Client
	Ledger *Ledger
	Owner  string
	// Bound is how long the tasks may take to end.
	Bound time.Duration
	// Detached reports whether the daemon of pid may have lost a task without dying: it was stopped or cut off.
	Detached func(pid int) bool
	// Once says that nothing happened that lets a body run again: every task has one run, and failures apart one only.
	Once bool
	// Died reports whether the daemon of pid was killed, perhaps with an end that nobody had heard of; nil means that
	// none was. Only such a body, or one of a detached daemon, may run again when it was done.
	Died func(pid int) bool
}

// Report is what a check found.
type Report struct {
	Tasks, Runs   int
	Lost          int // accepted and not ended, or gone
	Duplicated    int // more tasks than jobs
	Rerun         int // a body ran again although one was done
	Overlaps      int // bodies of one task at once, allowed or not
	Interruptions int
	Problems      []string // broken promises
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// String is the report's figures in one line.
func (r *Report) String() string {
	return fmt.Sprintf("tasks=%d runs=%d lost=%d duplicated=%d rerun=%d overlaps=%d interruptions=%d broken=%d",
		r.Tasks, r.Runs, r.Lost, r.Duplicated, r.Rerun, r.Overlaps, r.Interruptions, len(r.Problems))
}

// Check waits for the end of all jobs, at most for Bound, and looks at every one.
func (c *Checker) Check(ctx context.Context, jobs []*Job) *Report {
	r := &Report{Tasks: len(jobs)}
	deadline := time.Now().Add(c.Bound)
	ended := map[string]*tasks.Task{}
	for _, j := range jobs {
		t, terr := c.await(ctx, j.ID, deadline)
		if terr != nil || !t.Status.Terminal() {
			r.Lost++
			r.problem("%s (%s) has not ended within %v: %s %v", j.Key, j.ID, c.Bound, show(t), terr)
			continue
		}
		ended[j.Key] = t
	}
	runs, err := c.Ledger.Runs()
	if err != nil {
		r.problem("ledger: %v", err)
	}
	for _, j := range jobs {
		if t := ended[j.Key]; t != nil {
			c.task(r, j, t, runs[j.Key])
			c.events(ctx, r, t)
		}
	}
	for key, list := range runs {
		r.Runs += len(list)
		c.overlaps(r, key, list)
	}
	c.count(ctx, r, jobs)
	return r
}

// await polls, for a daemon may be away or Redis be slow.
func (c *Checker) await(ctx context.Context, id string, deadline time.Time) (*tasks.Task, error) {
	for {
		left := time.Until(deadline)
		t, err := c.Client.Wait(ctx, tasks.Ref{ID: id}, max(min(left, 5*time.Second), 0))
		if err == nil && t.Status.Terminal() || left <= 0 || ctx.Err() != nil {
			return t, err
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// task checks one task that has ended.
func (c *Checker) task(r *Report, j *Job, t *tasks.Task, runs []*Run) {
	r.Interruptions += t.Interruptions
	if !slices.Contains(j.Ends, t.Status) {
		r.problem("%s ended %s, want %v: %s", j.Key, t.Status, j.Ends, show(t))
	}
	if j.Cancelled && t.Status != tasks.Cancelled {
		r.problem("%s was promised to be cancelled and is %s", j.Key, t.Status)
	}
	done := c.bodies(r, j, t, runs)
	if t.Status == tasks.Completed && done == 0 {
		r.problem("%s is completed and no body came to its end", j.Key)
	}
	if done > 1 {
		r.Rerun++
	}
	if spent := t.Attempt - t.Interruptions; t.Status != tasks.Cancelled && spent > j.Failures+1 {
		r.problem("%s: %d attempts, %d interruptions, %d failures on purpose: a fault spent a retry", j.Key, t.Attempt, t.Interruptions, j.Failures)
	}
	if len(runs) > t.Attempt {
		r.problem("%s: %d bodies, but %d attempts", j.Key, len(runs), t.Attempt)
	}
	if c.Once && t.Status == tasks.Completed && len(runs) != j.Failures+1 {
		r.problem("%s: %d bodies ran, want %d: %s", j.Key, len(runs), j.Failures+1, show(t))
	}
}

// bodies checks a task's runs and counts those that did the work.
func (c *Checker) bodies(r *Report, j *Job, t *tasks.Task, runs []*Run) (done int) {
	for i, run := range runs {
		if run.Done && run.Code == 0 {
			done++
			excused := run.Asked || c.detached(run.Daemon) || c.Died != nil && c.Died(run.Daemon)
			if i < len(runs)-1 && !excused {
				r.problem("%s ran again %v after it was done by daemon %d, which lived", j.Key, runs[i+1].Start.Sub(run.Last), run.Daemon)
			}
		}
		if run.Start.After(t.CompletedAt.Add(50*time.Millisecond)) && !c.detached(run.Daemon) {
			r.problem("%s: a body started %v after the end", j.Key, run.Start.Sub(t.CompletedAt.Time))
		}
	}
	return done
}

// events checks that they count up without a gap and end with the one terminal event.
func (c *Checker) events(ctx context.Context, r *Report, t *tasks.Task) {
	kinds, err := c.kinds(ctx, t.ID)
	if err != nil {
		r.problem("%s: events: %v", t.ID, err)
		return
	}
	terminal, started := 0, 0
	for _, k := range kinds {
		if k.Terminal() {
			terminal++
		}
		if k == tasks.EventRunning {
			started++
		}
	}
	if terminal != 1 || len(kinds) == 0 || kinds[len(kinds)-1] != tasks.EventKind(t.Status) {
		r.problem("%s is %s, its events are %v", t.ID, t.Status, kinds)
	}
	if started != t.Attempt {
		r.problem("%s had %d attempts and %d of them in its events", t.ID, t.Attempt, started)
	}
}

// kinds reads all events; a gap in their numbers is an error.
func (c *Checker) kinds(ctx context.Context, id string) (kinds []tasks.EventKind, err error) {
	for {
		page, err := c.Client.Events(ctx, tasks.Ref{ID: id}, int64(len(kinds)), 500)
		if err != nil || len(page) == 0 {
			return kinds, err
		}
		for _, e := range page {
			kinds = append(kinds, e.Kind)
			if e.Seq != int64(len(kinds)) {
				return nil, fmt.Errorf("number %d stands at place %d", e.Seq, len(kinds))
			}
		}
	}
}

// overlaps looks for bodies of one task that lived at the same time.
func (c *Checker) overlaps(r *Report, key string, runs []*Run) {
	for i, a := range runs {
		for _, b := range runs[i+1:] {
			if !b.Start.Before(a.Last) {
				continue
			}
			r.Overlaps++
			if a.Daemon == b.Daemon || !c.detached(a.Daemon) {
				r.problem("%s: two bodies at once for %v, of daemons %d and %d", key, a.Last.Sub(b.Start), a.Daemon, b.Daemon)
			}
		}
	}
}

func (c *Checker) detached(pid int) bool { return c.Detached != nil && c.Detached(pid) }

// count compares the number of tasks with the number of jobs.
func (c *Checker) count(ctx context.Context, r *Report, jobs []*Job) {
	known := map[string]bool{}
	for _, j := range jobs {
		known[j.ID] = true
	}
	if len(known) != len(jobs) {
		r.problem("%d jobs were given %d ids", len(jobs), len(known))
	}
	for t, err := range c.Client.All(ctx, client.Filter{Owner: c.Owner, PageSize: 200}) {
		if err != nil {
			r.problem("list: %v", err)
			return
		}
		if !known[t.ID] {
			r.Duplicated++
			r.problem("%s is a task that nobody was told of: %s", t.ID, show(t))
		}
	}
}

// show is what matters of a task, for a message.
func show(t *tasks.Task) string {
	if t == nil {
		return "no task"
	}
	s := fmt.Sprintf("%s attempt %d interruptions %d worker %s", t.Status, t.Attempt, t.Interruptions, t.Worker)
	if t.Error != nil {
		s += fmt.Sprintf(" error %s: %s", t.Error.Kind, t.Error.Message)
	}
	return s
}
