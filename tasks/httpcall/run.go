package httpcall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"offstage/tasks"
)

const maxRetryAfter = 24 * time.Hour

// Run checks payload as [Check] does, makes the call and writes one line about it to out. The Result is meaningful
// beside an error too, when an answer came.
//
// A status that is not expected is an error: [tasks.Permanent] for 3xx (no redirect is followed) and for 4xx other than
// 408, 425 and 429; [tasks.RetryAfter], with a delay of at most a day, for 429 and 503 that ask for it. What went wrong
// on the way may be retried, but for a destination that is not allowed: that is [tasks.Rejected], in the same words
// whatever the reason. When ctx ends, the error wraps its cause. Run may be called from any number of goroutines.
func Run(ctx context.Context, payload []byte, out io.Writer, p Policy) (Result, error) {
	r, err := parse(payload, p)
	if err != nil {
		return Result{}, err
	}
	req, err := r.build(ctx, p)
	if err != nil {
		return Result{}, tasks.Permanent(fmt.Errorf("%s: %w", r.text(), err))
	}
	transport := p.guard().Transport()
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return Result{}, r.failure(ctx, err)
	}
	defer resp.Body.Close()
	result, err := read(resp, p.responseBytes())
	result.DurationMS = time.Since(began).Milliseconds()
	// The line is for people; that nobody takes it does not undo the call.
	_, _ = fmt.Fprintf(out, "%s: %s in %d ms\n", r.text(), status(resp.StatusCode), result.DurationMS)
	if err != nil {
		return result, r.failure(ctx, err)
	}
	return result, r.verdict(resp)
}

func (r *request) build(ctx context.Context, p Policy) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", p.userAgent())
	switch {
	case r.isJSON:
		req.Header.Set("Content-Type", "application/json")
	case r.body != nil:
		req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	for name, v := range r.headers {
		req.Header.Set(name, v)
	}
	return req, nil
}

// failure says what went wrong on the way, without the query of the URL.
func (r *request) failure(ctx context.Context, err error) error {
	if errors.Is(err, ErrDenied) {
		return tasks.Rejected(denied())
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%s: %w", r.text(), err)
}

// verdict is the error for the status of resp.
func (r *request) verdict(resp *http.Response) error {
	code := resp.StatusCode
	if r.expects(code) {
		return nil
	}
	err := fmt.Errorf("%s: %s", r.text(), status(code))
	switch {
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		if d, ok := retryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
			return tasks.RetryAfter(d, err)
		}
	case code == http.StatusRequestTimeout || code == http.StatusTooEarly:
	case code >= 300 && code <= 399:
		return tasks.Permanent(fmt.Errorf("%w (redirects are not followed)", err))
	case code >= 400 && code <= 499:
		return tasks.Permanent(err)
	}
	return err
}

// status writes a code with our own words for it: those of the server could be anything.
func status(code int) string {
	return strings.TrimSpace(fmt.Sprintf("status %d %s", code, http.StatusText(code)))
}

// retryAfter reads the header: seconds or an HTTP date.
func retryAfter(v string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(v, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter), true
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), maxRetryAfter), true
}
