package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"offstage/tasks"
)

// Filter narrows a list; every empty field means "any".
type Filter struct {
	Owner    string
	Statuses []tasks.Status
	Type     string
	Queue    string
	Parent   string // id of the parent task
	// PageSize is how many tasks the server puts on a page at most; zero means its default.
	PageSize int
	// PageToken goes on where a Page ended; empty starts with the newest task.
	PageToken string
}

// Page is one part of a list, newest first. It may be short, or empty, and still have a token.
type Page struct {
	Tasks []*tasks.Task `json:"tasks"`
	// NextPageToken is empty on the last page.
	NextPageToken string `json:"next_page_token"`
}

// List reads one page of tasks.
func (c *Client) List(ctx context.Context, f Filter) (*Page, error) {
	p := &Page{}
	_, err := c.fetch(ctx, call{method: http.MethodGet, path: "/v1/tasks", query: f.query()}, p)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// All goes through every page from f.PageToken on. After an error, which comes with a nil task, it ends. Tasks that
// are created meanwhile are not seen.
func (c *Client) All(ctx context.Context, f Filter) iter.Seq2[*tasks.Task, error] {
	return func(yield func(*tasks.Task, error) bool) {
		for {
			p, err := c.List(ctx, f)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, t := range p.Tasks {
				if !yield(t, nil) {
					return
				}
			}
			if p.NextPageToken == "" {
				return
			}
			f.PageToken = p.NextPageToken
		}
	}
}

func (f Filter) query() url.Values {
	q := url.Values{}
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	set("owner", f.Owner)
	set("type", f.Type)
	set("queue", f.Queue)
	set("parent", f.Parent)
	set("page_token", f.PageToken)
	for _, s := range f.Statuses {
		q.Add("status", string(s))
	}
	if f.PageSize > 0 {
		q.Set("page_size", strconv.Itoa(f.PageSize))
	}
	return q
}
