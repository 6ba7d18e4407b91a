package client

import (
	"context"
	"net/http"

	"offstage/tasks"
)

// WorkerInfo is one process that runs tasks.
type WorkerInfo struct {
	ID      string `json:"id"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
	// Queues maps each queue it takes from to its weight.
	Queues      map[string]int `json:"queues"`
	Concurrency int            `json:"concurrency"` // how many tasks it runs at once
	Running     int            `json:"running"`
	StartedAt   tasks.Time     `json:"started_at"`
	SeenAt      tasks.Time     `json:"seen_at"`
	// Draining is set once it is shutting down: it takes nothing new.
	Draining bool `json:"draining"`
}

// Workers lists the processes that have been heard of lately.
func (c *Client) Workers(ctx context.Context) ([]WorkerInfo, error) {
	var got struct {
		Workers []WorkerInfo `json:"workers"`
	}
	_, err := c.fetch(ctx, call{method: http.MethodGet, path: "/v1/workers"}, &got)
	return got.Workers, err
}
