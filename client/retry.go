package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	firstPause    = 100 * time.Millisecond
	longestPause  = 5 * time.Second
	longestAsked  = 30 * time.Second // of what a server may ask for with Retry-After
	repeatedTries = 4                // of a request that may be repeated
)

// repeat sends the request until it is answered with something that will not pass by itself, its tries are used up or
// ctx ends.
func (c *Client) repeat(ctx context.Context, k call, body []byte) (*answer, error) {
	for try := 1; ; try++ {
		a, err := c.once(ctx, k, body)
		failure := err
		if err == nil && passingStatus(a.status) {
			failure = c.refusal(a)
		}
		if failure == nil || try >= k.tries || !passing(failure) {
			return a, err
		}
		if stopped := c.pause(ctx, failure, try); stopped != nil {
			return nil, stopped
		}
	}
}

// passing reports whether err may be over when the same request is made again.
func passing(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return passingStatus(e.Status)
	}
	return errors.Is(err, ErrUnreachable)
}

func passingStatus(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// pause waits as long as the server asked for or, without that, a little longer each time. It returns an error when
// ctx ends first or would end before the pause does.
func (c *Client) pause(ctx context.Context, failure error, try int) error {
	d := backoff(try)
	if e, ok := errors.AsType[*Error](failure); ok && e.RetryAfter > 0 {
		d = min(e.RetryAfter, longestAsked)
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return failure
	}
	if c.onRetry != nil {
		c.onRetry(failure, d)
	}
	if err := sleep(ctx, d); err != nil {
		return fmt.Errorf("%w, after: %w", err, failure)
	}
	return nil
}

// backoff doubles from firstPause to longestPause; a random half keeps clients apart.
func backoff(try int) time.Duration {
	d := longestPause
	if try < 16 {
		d = min(firstPause<<(try-1), longestPause)
	}
	return d/2 + rand.N(d/2)
}

// sleep waits for d; it returns the cause when ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// outage is one stretch of time in which the server could not be reached.
type outage struct {
	c     *Client
	since time.Time // zero while all is well
	tries int
}

// survive waits before the next try. It returns an error when the failure will not pass, when the client's patience
// is over, or when ctx ended.
func (o *outage) survive(ctx context.Context, failure error) error {
	if !passing(failure) || o.c.patience < 0 {
		return failure
	}
	if o.since.IsZero() {
		o.since = time.Now()
	}
	if time.Since(o.since) >= o.c.patience {
		return failure
	}
	o.tries++
	return o.c.pause(ctx, failure, o.tries)
}

// over notes that the server answered.
func (o *outage) over() { o.since, o.tries = time.Time{}, 0 }
