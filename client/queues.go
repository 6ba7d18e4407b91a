package client

import (
	"context"
	"net/http"
	"net/url"

	"offstage/tasks"
)

// QueueInfo is how a queue stands.
type QueueInfo struct {
	Name   string                 `json:"name"`
	Paused bool                   `json:"paused"`
	Counts map[tasks.Status]int64 `json:"counts"`
	// Backlog is how many tasks could run now and wait for a worker.
	Backlog int64 `json:"backlog"`
	// OldestPendingAge is how long the first of them has been waiting; zero when there is none.
	OldestPendingAge tasks.Duration `json:"oldest_pending_age"`
}

// Queues lists the queues that have ever had a task.
func (c *Client) Queues(ctx context.Context) ([]QueueInfo, error) {
	var got struct {
		Queues []QueueInfo `json:"queues"`
	}
	_, err := c.fetch(ctx, call{method: http.MethodGet, path: "/v1/queues"}, &got)
	return got.Queues, err
}

// Queue reads one queue; one that never had a task is tasks.ErrNotFound.
func (c *Client) Queue(ctx context.Context, name string) (*QueueInfo, error) {
	path, err := queuePath(name, "")
	if err != nil {
		return nil, err
	}
	q := &QueueInfo{}
	if _, err := c.fetch(ctx, call{method: http.MethodGet, path: path}, q); err != nil {
		return nil, err
	}
	return q, nil
}

// Pause keeps the workers from starting tasks of a queue; what runs goes on. Pausing twice changes nothing.
func (c *Client) Pause(ctx context.Context, name string) error {
	return c.steerQueue(ctx, name, "/pause")
}

// Resume ends a pause. Resuming a queue that is not paused changes nothing.
func (c *Client) Resume(ctx context.Context, name string) error {
	return c.steerQueue(ctx, name, "/resume")
}

func (c *Client) steerQueue(ctx context.Context, name, what string) error {
	path, err := queuePath(name, what)
	if err != nil {
		return err
	}
	_, err = c.fetch(ctx, call{method: http.MethodPost, path: path}, nil)
	return err
}

func queuePath(name, below string) (string, error) {
	if err := tasks.ValidateQueue(name); err != nil {
		return "", err
	}
	return "/v1/queues/" + url.PathEscape(name) + below, nil
}
