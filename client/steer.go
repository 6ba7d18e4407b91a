package client

import (
	"context"
	"net/http"

	"offstage/tasks"
)

// CancelOptions say more about a request to cancel.
type CancelOptions struct {
	Reason string // kept on the task
}

// Cancel asks for a task to end as cancelled, whatever it is doing. It returns what changed; an empty list means that
// the task had ended already. A running task is cancelled once its handler has let go: Wait for that. The request is
// repeated like that of Enqueue.
func (c *Client) Cancel(ctx context.Context, ref tasks.Ref, o CancelOptions) ([]tasks.Change, error) {
	path, err := taskPath(ref, "/cancel")
	if err != nil {
		return nil, err
	}
	type body struct {
		Reason string `json:"reason,omitempty"`
	}
	var got struct {
		Tasks []tasks.Change `json:"tasks"`
	}
	_, err = c.fetch(ctx, call{method: http.MethodPost, path: path, query: ownerQuery(ref), body: body(o),
		tries: repeatedTries}, &got)
	return got.Tasks, err
}

// Retry starts a failed or cancelled task once more, as a new run of the same task. One that has not ended is
// tasks.ErrNotTerminated, a completed one a *tasks.TerminatedError.
func (c *Client) Retry(ctx context.Context, ref tasks.Ref) (*tasks.Task, error) {
	path, err := taskPath(ref, "/retry")
	if err != nil {
		return nil, err
	}
	t := &tasks.Task{}
	if _, err := c.fetch(ctx, call{method: http.MethodPost, path: path, query: ownerQuery(ref)}, t); err != nil {
		return nil, err
	}
	return t, nil
}

// Delete forgets a task that has ended; one that has not is tasks.ErrNotTerminated.
func (c *Client) Delete(ctx context.Context, ref tasks.Ref) error {
	path, err := taskPath(ref, "")
	if err != nil {
		return err
	}
	_, err = c.fetch(ctx, call{method: http.MethodDelete, path: path, query: ownerQuery(ref)}, nil)
	return err
}
