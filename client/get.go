package client

import (
	"context"
	"net/http"
	"time"

	"offstage/tasks"
)

// longestPoll is how long one request of Wait and Follow asks the server to wait.
const longestPoll = 30 * time.Second

// shortestPoll is the least time between two long polls: a server that is going down answers at once.
const shortestPoll = 200 * time.Millisecond

// Get reads a task. An absent one, and one that belongs to somebody else, is tasks.ErrNotFound.
func (c *Client) Get(ctx context.Context, ref tasks.Ref) (*tasks.Task, error) {
	return c.get(ctx, ref, 0)
}

func (c *Client) get(ctx context.Context, ref tasks.Ref, wait time.Duration) (*tasks.Task, error) {
	path, err := taskPath(ref, "")
	if err != nil {
		return nil, err
	}
	q := ownerQuery(ref)
	if wait > 0 {
		q.Set("wait", wait.String())
	}
	t := &tasks.Task{}
	if _, err := c.fetch(ctx, call{method: http.MethodGet, path: path, query: q, wait: wait}, t); err != nil {
		return nil, err
	}
	return t, nil
}

// Wait returns the task once it has ended, or as it stands when bound ran out; a bound of zero or less never runs
// out. It outlives a server that goes away for no longer than Options.Patience, within the bound. Giving up waiting,
// by bound or by ctx, does not touch the task.
func (c *Client) Wait(ctx context.Context, ref tasks.Ref, bound time.Duration) (*tasks.Task, error) {
	start, lost, bounded := time.Now(), &outage{c: c}, ctx
	if bound > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, bound)
		defer cancel()
	}
	for {
		asked, wait := time.Now(), longestPoll
		if bound > 0 {
			wait = min(wait, max(bound-time.Since(start), 0).Round(time.Millisecond))
		}
		t, err := c.get(ctx, ref, wait)
		if err != nil {
			if err := lost.survive(bounded, err); err != nil {
				return nil, err
			}
			continue
		}
		lost.over()
		if t.Status.Terminal() || bound > 0 && time.Since(start) >= bound {
			return t, nil
		}
		if err := atLeast(ctx, asked, min(shortestPoll, wait)); err != nil {
			return nil, err
		}
	}
}

// atLeast waits until d has passed since start.
func atLeast(ctx context.Context, start time.Time, d time.Duration) error {
	if rest := d - time.Since(start); rest > 0 {
		return sleep(ctx, rest)
	}
	return nil
}
