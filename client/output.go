package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"offstage/tasks"
)

// OutputOptions say which part of a task's output is wanted.
type OutputOptions struct {
	// Offset is the byte to start at, counted from the first one ever written; negative means the first one that is
	// still kept.
	Offset int64
	// Limit bounds the bytes of one answer; zero means the server's default.
	Limit int
	// Wait lets the server hold the answer until there is something past Offset or the task has ended, at most so
	// long. Zero answers at once.
	Wait time.Duration
}

// Output is a part of what a task wrote.
type Output struct {
	// Text starts at byte Offset, which is past the one asked for when the front was cut since.
	Text   string
	Offset int64
	Next   int64        // where to go on
	Total  int64        // bytes ever written
	Status tasks.Status // of the task, at that moment
}

// Output reads a part of what the task wrote so far.
func (c *Client) Output(ctx context.Context, ref tasks.Ref, o OutputOptions) (*Output, error) {
	path, err := taskPath(ref, "/output")
	if err != nil {
		return nil, err
	}
	a, err := c.fetch(ctx, call{
		method: http.MethodGet, path: path, query: o.query(ref), wait: max(o.Wait, 0),
		header: map[string]string{"Accept": "text/plain, application/problem+json"},
	}, nil)
	if err != nil {
		return nil, err
	}
	return readOutput(a)
}

func (o OutputOptions) query(ref tasks.Ref) url.Values {
	q := ownerQuery(ref)
	if o.Offset >= 0 {
		q.Set("offset", strconv.FormatInt(o.Offset, 10))
	}
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.Wait > 0 {
		q.Set("wait", o.Wait.String())
	}
	return q
}

func readOutput(a *answer) (*Output, error) {
	out := &Output{Text: string(a.body), Status: tasks.Status(a.header.Get("Offstage-Task-Status"))}
	for name, into := range map[string]*int64{
		"Offstage-Output-Offset": &out.Offset, "Offstage-Output-Next": &out.Next, "Offstage-Output-Total": &out.Total,
	} {
		n, err := strconv.ParseInt(a.header.Get(name), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("output: the answer's header %s is %q, not a number", name, a.header.Get(name))
		}
		*into = n
	}
	if !out.Status.Valid() {
		return nil, fmt.Errorf("output: the answer's header Offstage-Task-Status is %q, not a status", out.Status)
	}
	return out, nil
}

// FollowOptions say where Follow begins and how often it looks.
type FollowOptions struct {
	// Offset as in OutputOptions.
	Offset int64
	// Poll is how often an answer comes while the task writes nothing; zero means 30 s.
	Poll time.Duration
}

// Follow goes through a task's output as it is written, and ends once the task has ended and all of it was seen.
// Every answer of the server is passed on, also one with empty Text that tells of the Status. After an error, which
// comes with a nil Output, it ends.
//
// It goes on by offset, so a restart of the daemon that is over within Options.Patience neither loses nor repeats
// output. What the server has cut meanwhile is missing: then an Offset is greater than the Next before it.
func (c *Client) Follow(ctx context.Context, ref tasks.Ref, o FollowOptions) iter.Seq2[*Output, error] {
	return func(yield func(*Output, error) bool) {
		err := c.follow(ctx, ref, o, func(out *Output) bool { return yield(out, nil) })
		if err != nil {
			yield(nil, err)
		}
	}
}

func (c *Client) follow(ctx context.Context, ref tasks.Ref, o FollowOptions, yield func(*Output) bool) error {
	poll := longestPoll
	if o.Poll > 0 {
		poll = o.Poll
	}
	offset, lost := o.Offset, &outage{c: c}
	for {
		asked := time.Now()
		out, err := c.Output(ctx, ref, OutputOptions{Offset: offset, Wait: poll})
		if err != nil {
			if err := lost.survive(ctx, err); err != nil {
				return err
			}
			continue
		}
		lost.over()
		if out.Total < offset { // the task was started anew with empty output
			offset = 0
			continue
		}
		if !yield(out) || out.Status.Terminal() && out.Next >= out.Total {
			return nil
		}
		if offset = out.Next; out.Text != "" {
			continue
		}
		if err := atLeast(ctx, asked, min(shortestPoll, poll)); err != nil {
			return err
		}
	}
}
