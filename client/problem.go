package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"offstage/tasks"
)

// problem is an RFC 9457 document as the server writes it.
type problem struct {
	Title      string       `json:"title"`
	Status     int          `json:"status"`
	Detail     string       `json:"detail"`
	Code       string       `json:"code"`
	Field      string       `json:"field"`
	Hint       string       `json:"hint"`
	Errors     []Fault      `json:"errors"`
	RequestID  string       `json:"request_id"`
	TaskStatus tasks.Status `json:"task_status"` // with code "terminated"
}

// err is the problem as an error. status is used when the document has none.
func (p *problem) err(status int) *Error {
	e := &Error{
		Status: cmp.Or(p.Status, status), Code: p.Code, Field: p.Field, Hint: p.Hint, RequestID: p.RequestID,
		Faults: p.Errors, Detail: cmp.Or(p.Detail, p.Title), sentinel: sentinelOf(p.Code),
	}
	switch {
	case errors.Is(e.sentinel, tasks.ErrTerminated) && p.TaskStatus != "":
		e.sentinel = &tasks.TerminatedError{Status: p.TaskStatus}
	case e.sentinel == nil && e.Status == http.StatusUnauthorized:
		e.sentinel = ErrUnauthorized
	}
	return e
}

// refusal turns an answer that is no success into an error.
func (c *Client) refusal(a *answer) error {
	p := &problem{}
	if !strings.Contains(a.header.Get("Content-Type"), "json") || json.Unmarshal(a.body, p) != nil {
		return c.strange(a)
	}
	e := p.err(a.status)
	e.RequestID = cmp.Or(e.RequestID, a.header.Get("X-Request-Id"))
	e.RetryAfter = retryAfter(a.header, time.Now())
	return e
}

// strange is the error for an answer that does not come from an offstage daemon.
func (c *Client) strange(a *answer) error {
	e := &Error{Status: a.status, RetryAfter: retryAfter(a.header, time.Now()),
		Detail: c.server + " answered " + strconv.Itoa(a.status) + " " + http.StatusText(a.status) + " without a reason",
		Hint:   "is it an offstage daemon? check --server"}
	switch a.status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.sentinel = ErrUnreachable
	case http.StatusUnauthorized:
		e.sentinel, e.Hint = ErrUnauthorized, ""
	}
	return e
}

// retryAfter reads the header of that name, in seconds or as a date; zero when there is none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
