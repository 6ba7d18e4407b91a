package tasks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Spec asks for a task. Type and Owner are required; every other zero field means its default.
type Spec struct {
	Type string
	// Payload is the handler's input: anything encoding/json can encode, or a json.RawMessage. Nil means none.
	Payload any
	Owner   string

	Name        string
	Description string
	// Queue is "default" when empty.
	Queue    string
	Metadata map[string]string
	Parent   *Parent

	// MaxRetries: nil means the configured default (3), 0 means one attempt only.
	MaxRetries *int
	Backoff    *Backoff
	// Timeout bounds one attempt: nil means the configured default (30 m), 0 means none.
	Timeout *time.Duration
	// Deadline is the moment after which the task fails with kind "expired", run or not. Zero means none.
	Deadline time.Time
	// RunAt is the moment before which the task does not start. Zero means now. It excludes Delay.
	RunAt time.Time
	// Delay is RunAt counted from the moment Redis accepts the task. It excludes RunAt.
	Delay time.Duration

	Notify *Notify
	// Retention is how long the record stays after the end; zero means the configured default (24 h).
	Retention time.Duration

	// IdempotencyKey makes the same call return the same task: 1-255 bytes, kept 24 h per owner and queue. Over HTTP
	// it is a header.
	IdempotencyKey string
}

// specWire is Spec's JSON form.
type specWire struct {
	Type        string            `json:"type"`
	Payload     json.RawMessage   `json:"payload,omitempty"`
	Owner       string            `json:"owner"`
	Name        string            `json:"name,omitempty"`
	Description string            `json:"description,omitempty"`
	Queue       string            `json:"queue,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Parent      *Parent           `json:"parent,omitempty"`
	MaxRetries  *int              `json:"max_retries,omitempty"`
	Backoff     *Backoff          `json:"backoff,omitempty"`
	Timeout     *Duration         `json:"timeout,omitempty"`
	Deadline    *Time             `json:"deadline,omitempty"`
	RunAt       *Time             `json:"run_at,omitempty"`
	Delay       *Duration         `json:"delay,omitempty"`
	Notify      *Notify           `json:"notify,omitempty"`
	Retention   *Duration         `json:"retention,omitempty"`
}

// specRead is specWire with the values that have a syntax of their own unread, so that their faults name the field.
type specRead struct {
	specWire
	Backoff   *backoffRead    `json:"backoff"`
	Timeout   json.RawMessage `json:"timeout"`
	Deadline  json.RawMessage `json:"deadline"`
	RunAt     json.RawMessage `json:"run_at"`
	Delay     json.RawMessage `json:"delay"`
	Retention json.RawMessage `json:"retention"`
}

type backoffRead struct {
	Base json.RawMessage `json:"base"`
	Max  json.RawMessage `json:"max"`
}

// resolve reads what was left unread. It gives the first fault.
func (r *specRead) resolve() error {
	w := &r.specWire
	err := errors.Join(
		readField("timeout", r.Timeout, &w.Timeout), readField("deadline", r.Deadline, &w.Deadline),
		readField("run_at", r.RunAt, &w.RunAt), readField("delay", r.Delay, &w.Delay),
		readField("retention", r.Retention, &w.Retention),
	)
	if r.Backoff == nil {
		return err
	}
	var base, most *Duration
	err = errors.Join(err, readField("backoff.base", r.Backoff.Base, &base), readField("backoff.max", r.Backoff.Max, &most))
	w.Backoff = &Backoff{}
	if base != nil {
		w.Backoff.Base = *base
	}
	if most != nil {
		w.Backoff.Max = *most
	}
	return err
}

// readField reads one value; null and nothing leave it nil.
func readField[T any](field string, raw json.RawMessage, into **T) error {
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return invalid(field, err.Error(), "")
	}
	return nil
}

// MarshalJSON writes the form that POST /v1/tasks takes.
func (s Spec) MarshalJSON() ([]byte, error) {
	payload, err := s.PayloadJSON()
	if err != nil {
		return nil, err
	}
	w := specWire{
		Type: s.Type, Payload: payload, Owner: s.Owner, Name: s.Name, Description: s.Description, Queue: s.Queue,
		Metadata: s.Metadata, Parent: s.Parent, MaxRetries: s.MaxRetries, Backoff: s.Backoff, Notify: s.Notify,
		Timeout: (*Duration)(s.Timeout), Deadline: timeOrNil(s.Deadline), RunAt: timeOrNil(s.RunAt),
		Delay: durationOrNil(s.Delay), Retention: durationOrNil(s.Retention),
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads the form that POST /v1/tasks takes. Unknown fields, a wrong type and an explicit zero where
// zero has no meaning are refused with an *InvalidError that names the field.
func (s *Spec) UnmarshalJSON(b []byte) error {
	var r specRead
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return decodeError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return &InvalidError{Field: "body", Reason: "has something after the task"}
	}
	if err := r.resolve(); err != nil {
		return err
	}
	w := &r.specWire
	if w.Retention != nil && *w.Retention == 0 {
		return invalid("retention", "is zero", "the least is 1s")
	}
	*s = Spec{
		Type: w.Type, Owner: w.Owner, Name: w.Name, Description: w.Description, Queue: w.Queue, Metadata: w.Metadata,
		Parent: w.Parent, MaxRetries: w.MaxRetries, Backoff: w.Backoff, Notify: w.Notify,
		Timeout: (*time.Duration)(w.Timeout),
	}
	if w.Payload != nil {
		s.Payload = w.Payload
	}
	if w.Deadline != nil {
		s.Deadline = w.Deadline.Time
	}
	if w.RunAt != nil {
		s.RunAt = w.RunAt.Time
	}
	if w.Delay != nil {
		s.Delay = time.Duration(*w.Delay)
	}
	if w.Retention != nil {
		s.Retention = time.Duration(*w.Retention)
	}
	return nil
}

// PayloadJSON is the payload in JSON; nil for none. A payload that cannot be encoded is an *InvalidError.
func (s *Spec) PayloadJSON() (json.RawMessage, error) {
	if s.Payload == nil {
		return nil, nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // a handler gets what was sent
	if err := enc.Encode(s.Payload); err != nil {
		return nil, invalid("payload", "cannot be encoded as JSON: "+err.Error(), "")
	}
	b := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	if string(b) == "null" {
		return nil, nil
	}
	return b, nil
}

func timeOrNil(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return new(At(t))
}

func durationOrNil(d time.Duration) *Duration {
	if d == 0 {
		return nil
	}
	return new(Duration(d))
}

// decodeError turns encoding/json's error into one that names the field.
func decodeError(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := strings.TrimPrefix(e.Field, "specWire.") // specRead embeds it
		if field == "" {
			field = "body"
		}
		return invalid(field, fmt.Sprintf("is a JSON %s, not a %s", e.Value, e.Type), "")
	}
	if field, ok := unknownField(err); ok {
		return invalid(field, "is not a known field", "")
	}
	return invalid("body", err.Error(), "")
}
