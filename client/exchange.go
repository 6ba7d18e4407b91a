package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"offstage/tasks"
)

// maxAnswerBytes bounds what is read of one answer: a page of tasks with payloads and results at their limits.
const maxAnswerBytes = 512 << 20

// call is one request of the API.
type call struct {
	method string
	path   string // escaped, from the root
	query  url.Values
	header map[string]string
	body   any           // encoded as JSON; nil for none
	wait   time.Duration // the long poll that query asks for
	tries  int           // how often it may be sent in all; zero means once
}

// answer is what came back, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// fetch makes the call, repeating it as it allows, and decodes the answer into `into` unless that is nil.
func (c *Client) fetch(ctx context.Context, k call, into any) (*answer, error) {
	body, err := encode(k.body)
	if err != nil {
		return nil, err
	}
	a, err := c.repeat(ctx, k, body)
	if err != nil {
		return nil, err
	}
	if a.status < 200 || a.status > 299 {
		return a, c.refusal(a)
	}
	if into == nil {
		return a, nil
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		return nil, fmt.Errorf("%s %s: the answer is not what offstage sends: %w", k.method, k.path, err)
	}
	return a, nil
}

func encode(v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	b, err := json.Marshal(v)
	if bad, ok := errors.AsType[*tasks.InvalidError](err); ok {
		return nil, bad // without encoding/json's own words around it
	}
	return b, err
}

// once sends the request one time. A refusal is an answer here, not an error.
func (c *Client) once(ctx context.Context, k call, body []byte) (*answer, error) {
	tctx, cancel := context.WithTimeout(ctx, c.timeout+k.wait)
	defer cancel()
	req, err := c.request(tctx, k, body)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return nil, c.broken(ctx, err)
	case len(b) > maxAnswerBytes:
		return nil, fmt.Errorf("%s %s: the answer is over %d MiB", k.method, k.path, maxAnswerBytes>>20)
	}
	return &answer{status: res.StatusCode, header: res.Header, body: b}, nil
}

func (c *Client) request(ctx context.Context, k call, body []byte) (*http.Request, error) {
	target := c.server + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, target, r)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", k.method, k.path, err)
	}
	req.Header.Set("User-Agent", c.agent)
	req.Header.Set("Accept", "application/json, application/problem+json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for name, value := range k.header {
		req.Header.Set(name, value)
	}
	return req, nil
}

// broken tells a caller that gave up from a server that did not answer.
func (c *Client) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return &UnreachableError{Server: c.server, Err: err}
}

// taskPath is the path of one task, and of what hangs below it.
func taskPath(ref tasks.Ref, below string) (string, error) {
	switch ref.ID {
	case "", ".", "..":
		return "", &tasks.InvalidError{Field: "id", Reason: fmt.Sprintf("%q is not a task", ref.ID),
			Hint: "an id or, together with the owner, a handle"}
	}
	return "/v1/tasks/" + url.PathEscape(ref.ID) + below, nil
}

// ownerQuery carries the owner of a ref; the server reads every task of an operator that sends none.
func ownerQuery(ref tasks.Ref) url.Values {
	q := url.Values{}
	if ref.Owner != "" {
		q.Set("owner", ref.Owner)
	}
	return q
}
