package client

import (
	"context"
	"net/http"
	"strconv"

	"offstage/tasks"
)

// Events reads a page of a task's events in the order of their seq: those after the given one (zero starts at the
// front), at most limit (zero means the server's default).
func (c *Client) Events(ctx context.Context, ref tasks.Ref, after int64, limit int) ([]tasks.Event, error) {
	path, err := taskPath(ref, "/events")
	if err != nil {
		return nil, err
	}
	q := ownerQuery(ref)
	if after > 0 {
		q.Set("after", strconv.FormatInt(after, 10))
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var got struct {
		Events []tasks.Event `json:"events"`
	}
	_, err = c.fetch(ctx, call{method: http.MethodGet, path: path, query: q}, &got)
	return got.Events, err
}
