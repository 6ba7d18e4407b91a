package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"

	"offstage/tasks"
)

// Enqueue hands in a task; nil means that it is durable. The bool is true when the call created it, and false when an
// earlier call with the same idempotency key did.
//
// A request that gets no answer, or is told that the server is busy, is repeated a few times within ctx: the spec's
// idempotency key, or one made for the call, keeps that from making two tasks. Every refusal is an *[Error].
func (c *Client) Enqueue(ctx context.Context, spec tasks.Spec) (*tasks.Task, bool, error) {
	key := spec.IdempotencyKey
	if key == "" {
		key = rand.Text()
	}
	t := &tasks.Task{}
	a, err := c.fetch(ctx, call{
		method: http.MethodPost, path: "/v1/tasks", body: spec, tries: repeatedTries,
		header: map[string]string{"Idempotency-Key": key},
	}, t)
	if err != nil {
		return nil, false, err
	}
	// A key that nobody else knows: what it names was created here, also when the answer came at the second try.
	return t, a.status == http.StatusCreated || spec.IdempotencyKey == "", nil
}

// BatchResult is what became of one spec of a batch: exactly one of the fields is set.
type BatchResult struct {
	Task *tasks.Task
	Err  error // an *Error
}

// EnqueueBatch hands in up to 1000 tasks at once, each for itself: there is one result per spec, in order, and an
// error only when nothing is known of any of them. A batch carries no idempotency keys, so it is never repeated, and
// a spec that has one is refused with a *tasks.InvalidError.
func (c *Client) EnqueueBatch(ctx context.Context, specs []tasks.Spec) ([]BatchResult, error) {
	for i, s := range specs {
		if s.IdempotencyKey != "" {
			return nil, &tasks.InvalidError{Field: fmt.Sprintf("tasks[%d].idempotency_key", i),
				Reason: "is not carried by a batch", Hint: "enqueue that task on its own"}
		}
	}
	type body struct {
		Tasks []tasks.Spec `json:"tasks"`
	}
	var got struct {
		Results []struct {
			Task  *tasks.Task `json:"task"`
			Error *problem    `json:"error"`
		} `json:"results"`
	}
	_, err := c.fetch(ctx, call{method: http.MethodPost, path: "/v1/tasks/batch", body: body{specs}}, &got)
	if err != nil {
		return nil, err
	}
	if len(got.Results) != len(specs) {
		return nil, fmt.Errorf("batch of %d tasks: the server answered with %d results", len(specs), len(got.Results))
	}
	out := make([]BatchResult, len(specs))
	for i, r := range got.Results {
		switch {
		case r.Error != nil:
			out[i].Err = r.Error.err(0)
		case r.Task != nil:
			out[i].Task = r.Task
		default:
			return nil, fmt.Errorf("batch: the server's result %d is neither a task nor an error", i)
		}
	}
	return out, nil
}
