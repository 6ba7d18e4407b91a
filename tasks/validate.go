package tasks

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The bounds of a Spec.
const (
	MaxOwnerBytes          = 128
	MaxTypeBytes           = 128
	MaxNameBytes           = 128
	MaxDescriptionBytes    = 4096
	MaxQueueBytes          = 64
	MaxMetadataKeys        = 64
	MaxMetadataBytes       = 16 << 10
	MaxIdempotencyKeyBytes = 255
	MaxRetriesLimit        = 1000
	MaxDuration            = 366 * 24 * time.Hour // timeouts, delays and backoffs
	MaxRetention           = 366 * 24 * time.Hour
	MinRetention           = time.Second
)

// Limits holds what a deployment configures of a task's defaults and sizes. The zero value is not useful; start from
// [DefaultLimits].
type Limits struct {
	Timeout         time.Duration // default timeout of an attempt; zero means none
	MaxRetries      int           // default
	Retention       time.Duration // default
	MaxPayloadBytes int
	MaxResultBytes  int
}

// DefaultLimits are the defaults of the task.* configuration.
func DefaultLimits() Limits {
	return Limits{
		Timeout: 30 * time.Minute, MaxRetries: 3, Retention: 24 * time.Hour,
		MaxPayloadBytes: 1 << 20, MaxResultBytes: 1 << 20,
	}
}

// ReservedNames are the words that name no task.
func ReservedNames() []string { return []string{"parent", "self", "all", "broadcast"} }

// Validate reports every fault of s, joined; each is an *InvalidError that names its field. now is the caller's
// clock, used only to refuse a deadline in the past. It does not change s.
func (s *Spec) Validate(l Limits, now time.Time) error {
	v := &validation{}
	v.text("type", s.Type, 1, MaxTypeBytes)
	v.text("owner", s.Owner, 1, MaxOwnerBytes)
	v.text("name", s.Name, 0, MaxNameBytes)
	v.text("idempotency_key", s.IdempotencyKey, 0, MaxIdempotencyKeyBytes)
	v.prose("description", s.Description, MaxDescriptionBytes)
	if slices.Contains(ReservedNames(), s.Name) {
		v.errs = append(v.errs, &InvalidError{Field: "name", Reason: fmt.Sprintf("%q is reserved", s.Name),
			Hint: "reserved: " + strings.Join(ReservedNames(), ", "), Sentinel: ErrReservedName})
	}
	if s.Queue != "" {
		v.add(ValidateQueue(s.Queue))
	}
	v.metadata(s.Metadata)
	v.parent(s.Parent)
	v.retries(s)
	v.times(s, now)
	v.notify(s.Notify)
	v.payload(s, l)
	return errors.Join(v.errs...)
}

// ValidateQueue reports whether name can name a queue: 1-64 letters, digits, '-' and '_', starting with a letter or
// digit. (A dot would end the queue part of an id, a brace would break the Redis hash tag.)
func ValidateQueue(name string) error {
	if name == "bg" {
		return invalid("queue", "\"bg\" is reserved", "handles of queue default start with bg_")
	}
	if name == "" || len(name) > MaxQueueBytes {
		return invalid("queue", fmt.Sprintf("is %d bytes long", len(name)), fmt.Sprintf("1 to %d", MaxQueueBytes))
	}
	for i, r := range name {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || i > 0 && (r == '-' || r == '_')
		if !ok {
			return invalid("queue", fmt.Sprintf("%q has a %q", name, r), "letters, digits, '-' and '_', starting with a letter or digit")
		}
	}
	return nil
}

func invalid(field, reason, hint string) *InvalidError {
	return &InvalidError{Field: field, Reason: reason, Hint: hint}
}

// unknownField finds the field's name in encoding/json's message, which has no type of its own.
func unknownField(err error) (string, bool) {
	quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field ")
	if !ok {
		return "", false
	}
	field, uerr := strconv.Unquote(quoted)
	return field, uerr == nil
}

type validation struct{ errs []error }

func (v *validation) fail(field, reason, hint string) {
	v.errs = append(v.errs, invalid(field, reason, hint))
}

func (v *validation) add(err error) {
	if err != nil {
		v.errs = append(v.errs, err)
	}
}

// text checks a one-line identifier: least to most bytes, UTF-8, printable.
func (v *validation) text(field, s string, least, most int) {
	switch {
	case len(s) < least:
		v.fail(field, "is required", fmt.Sprintf("%d to %d bytes", least, most))
	case len(s) > most:
		v.fail(field, fmt.Sprintf("is %d bytes long", len(s)), fmt.Sprintf("at most %d", most))
	case !utf8.ValidString(s):
		v.fail(field, "is not valid UTF-8", "")
	case strings.ContainsFunc(s, unicode.IsControl):
		v.fail(field, "has a control character", "")
	case s != strings.TrimSpace(s):
		v.fail(field, "starts or ends with white space", "")
	}
}

// prose checks free text: UTF-8, no NUL.
func (v *validation) prose(field, s string, most int) {
	switch {
	case len(s) > most:
		v.fail(field, fmt.Sprintf("is %d bytes long", len(s)), fmt.Sprintf("at most %d", most))
	case !utf8.ValidString(s):
		v.fail(field, "is not valid UTF-8", "")
	case strings.Contains(s, "\x00"):
		v.fail(field, "has a NUL character", "")
	}
}

func (v *validation) metadata(m map[string]string) {
	if len(m) > MaxMetadataKeys {
		v.fail("metadata", fmt.Sprintf("has %d keys", len(m)), fmt.Sprintf("at most %d", MaxMetadataKeys))
		return
	}
	size := 0
	for _, k := range slices.Sorted(maps.Keys(m)) {
		size += len(k) + len(m[k])
		if len(k) > MaxTypeBytes { // too long to be named
			v.fail("metadata", fmt.Sprintf("has a key of %d bytes", len(k)), fmt.Sprintf("at most %d", MaxTypeBytes))
			continue
		}
		v.text("metadata key "+strconv.Quote(k), k, 1, MaxTypeBytes)
		v.prose("metadata."+k, m[k], MaxMetadataBytes)
	}
	if size > MaxMetadataBytes {
		v.fail("metadata", fmt.Sprintf("is %d bytes", size), fmt.Sprintf("at most %d", MaxMetadataBytes))
	}
}

func (v *validation) parent(p *Parent) {
	if p == nil {
		return
	}
	v.text("parent.task_id", p.TaskID, 0, MaxTypeBytes)
	v.text("parent.run_id", p.RunID, 0, MaxTypeBytes)
	v.text("parent.call_id", p.CallID, 0, MaxTypeBytes)
	v.text("parent.agent_id", p.AgentID, 0, MaxTypeBytes)
}

func (v *validation) retries(s *Spec) {
	if n := s.MaxRetries; n != nil && (*n < 0 || *n > MaxRetriesLimit) {
		v.fail("max_retries", fmt.Sprintf("is %d", *n), fmt.Sprintf("0 to %d", MaxRetriesLimit))
	}
	if b := s.Backoff; b != nil {
		v.duration("backoff.base", time.Duration(b.Base))
		v.duration("backoff.max", time.Duration(b.Max))
		if b.Base > 0 && b.Max > 0 && b.Base > b.Max {
			v.fail("backoff.base", "is greater than backoff.max", "")
		}
	}
}

func (v *validation) duration(field string, d time.Duration) {
	switch {
	case d < 0:
		v.fail(field, fmt.Sprintf("is negative (%s)", d), "")
	case d > 0 && d < time.Millisecond:
		v.fail(field, fmt.Sprintf("is %s", d), "the least is 1ms")
	case d > MaxDuration:
		v.fail(field, fmt.Sprintf("is %s", d), fmt.Sprintf("at most %s", MaxDuration))
	}
}

func (v *validation) times(s *Spec, now time.Time) {
	if s.Timeout != nil {
		v.duration("timeout", *s.Timeout)
	}
	v.duration("delay", s.Delay)
	if s.Delay != 0 && !s.RunAt.IsZero() {
		v.fail("delay", "is set beside run_at", "give one of the two")
	}
	start := now.Add(s.Delay)
	if !s.RunAt.IsZero() {
		start = s.RunAt
		if s.RunAt.After(now.Add(MaxDuration)) {
			v.fail("run_at", fmt.Sprintf("is %s", s.RunAt.UTC().Format(time.RFC3339)), "at most 366 days ahead")
		} else if s.RunAt.Before(time.Unix(0, 0)) {
			v.fail("run_at", "is before 1970", "")
		}
	}
	if !s.Deadline.IsZero() {
		switch {
		case !s.Deadline.After(now):
			v.fail("deadline", "is in the past", "")
		case !s.Deadline.After(start):
			v.fail("deadline", "is not after the start (run_at, delay)", "")
		case s.Deadline.After(now.Add(2 * MaxDuration)):
			v.fail("deadline", fmt.Sprintf("is %s", s.Deadline.UTC().Format(time.RFC3339)), "at most 732 days ahead")
		}
	}
	if s.Retention != 0 && (s.Retention < MinRetention || s.Retention > MaxRetention) {
		v.fail("retention", fmt.Sprintf("is %s", s.Retention), fmt.Sprintf("%s to %s", MinRetention, MaxRetention))
	}
}

func (v *validation) notify(n *Notify) {
	if n == nil {
		return
	}
	for _, o := range n.Outcomes {
		if !o.Terminal() {
			v.fail("notify.outcomes", fmt.Sprintf("%q is not a terminal status", o), "completed, failed, cancelled")
		}
	}
	if n.Webhook == nil {
		return
	}
	u, err := url.Parse(n.Webhook.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil {
		v.fail("notify.webhook.url", "is not an absolute http or https URL without user info", "")
	}
	v.text("notify.webhook.secret_ref", n.Webhook.SecretRef, 0, MaxTypeBytes)
}

func (v *validation) payload(s *Spec, l Limits) {
	b, err := s.PayloadJSON()
	v.add(err)
	if !utf8.Valid(b) { // a json.RawMessage is taken as it is
		v.fail("payload", "is not valid UTF-8", "")
	}
	if len(b) > l.MaxPayloadBytes {
		v.errs = append(v.errs, &InvalidError{Field: "payload", Reason: fmt.Sprintf("is %d bytes", len(b)),
			Hint: fmt.Sprintf("at most %d (task.max_payload)", l.MaxPayloadBytes), Sentinel: ErrTooLarge})
	}
}
