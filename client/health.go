package client

import (
	"context"
	"encoding/json"
	"net/http"
)

// Health is what a daemon says about itself.
type Health struct {
	// Ready: it can accept and keep tasks now.
	Ready bool `json:"ready"`
	// Redis is "ok", or why it is not.
	Redis string `json:"redis"`
	// Durability is the fsync policy of its Redis: "always", "everysec", "none", "embedded" or "unknown".
	Durability string `json:"durability"`
	// Embedded: its tasks do not outlive the process.
	Embedded bool     `json:"embedded"`
	Problems []string `json:"problems"`
	Draining bool     `json:"draining"` // it is shutting down
	Version  string   `json:"version"`
}

// Ready asks whether the daemon can do its work. A daemon that says no is an answer, not an error.
func (c *Client) Ready(ctx context.Context) (*Health, error) {
	a, err := c.fetch(ctx, call{method: http.MethodGet, path: "/readyz"}, nil)
	if a == nil {
		return nil, err
	}
	h := &Health{}
	if json.Unmarshal(a.body, h) != nil || !h.Ready && h.Redis == "" && len(h.Problems) == 0 {
		if err == nil {
			err = c.strange(a)
		}
		return nil, err
	}
	h.Ready = h.Ready && err == nil
	return h, nil
}

// Live asks whether the daemon's process answers at all.
func (c *Client) Live(ctx context.Context) error {
	_, err := c.fetch(ctx, call{method: http.MethodGet, path: "/livez"}, nil)
	return err
}
