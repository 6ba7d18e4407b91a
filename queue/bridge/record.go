package bridge

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"offstage/tasks"
)

// Spec is the part of a record that never changes. It is stored as one JSON field.
type Spec struct {
	Name        string            `json:"na,omitempty"`
	Description string            `json:"de,omitempty"`
	Metadata    map[string]string `json:"me,omitempty"`
	Parent      *tasks.Parent     `json:"pa,omitempty"`
	Notify      *tasks.Notify     `json:"no,omitempty"`
	Backoff     *tasks.Backoff    `json:"ba,omitempty"`
	MaxRetries  int               `json:"mr,omitempty"`
	TimeoutMS   int64             `json:"to,omitempty"`
	DeadlineMS  int64             `json:"dl,omitempty"`
}

// record is a record's hash as Redis holds it.
type record map[string]string

// flatRecord reads the reply of HGETALL inside a script.
func flatRecord(v any) record {
	list, _ := v.([]any)
	r := make(record, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		r[text(list[i])] = text(list[i+1])
	}
	return r
}

func (r record) int(field string) int64 {
	n, _ := strconv.ParseInt(r[field], 10, 64)
	return n
}

func (r record) time(field string) tasks.Time { return tasks.AtMilli(r.int(field)) }

// task gives the record the form that readers see, without payload, result and output, which are stored apart.
func (r record) task(a address) *tasks.Task {
	var spec Spec
	_ = json.Unmarshal([]byte(r["spec"]), &spec) // ours; a damaged one reads as empty
	t := &tasks.Task{
		ID: a.public(), Handle: Handle(a.queue, r.int("n")), Owner: r["owner"], Type: r["type"], Queue: a.queue,
		Name: spec.Name, Description: spec.Description, Metadata: spec.Metadata, Parent: spec.Parent,
		Notify: spec.Notify, Backoff: spec.Backoff, MaxRetries: spec.MaxRetries,
		Timeout:  tasks.Duration(time.Duration(spec.TimeoutMS) * time.Millisecond),
		Deadline: tasks.AtMilli(spec.DeadlineMS), Retention: tasks.Duration(r.int("keep")) * tasks.Duration(time.Millisecond),
		Status: tasks.Status(r["status"]), Attempt: int(r.int("attempt")), Interruptions: int(r.int("interruptions")),
		Worker: r["worker"], Version: r.int("version"),
		CreatedAt: r.time("created"), StartedAt: r.time("started"), CompletedAt: r.time("done"), ExpiresAt: r.time("expires"),
	}
	t.Progress, _ = strconv.ParseFloat(r["progress"], 64)
	if r["due"] != "" && r["due"] != r["created"] {
		t.ScheduledAt = r.time("due")
	}
	if r["error"] != "" {
		t.Error = decode[tasks.Error](r["error"])
	}
	if r["errors"] != "" {
		t.Errors = *decode[[]tasks.Failure](r["errors"])
	}
	if r["cancel_at"] != "" {
		t.Cancel = &tasks.Cancel{RequestedAt: r.time("cancel_at"), By: r["cancel_by"], Reason: r["cancel_why"],
			Abandoned: r["abandoned"] == "1"}
	}
	return t
}

// Handle is the short name of an owner's n-th task in a queue, counted from 0.
func Handle(queue string, n int64) string {
	if queue == "default" {
		queue = "bg"
	}
	return queue + "_" + strconv.FormatInt(n, 10)
}

// ParseHandle is the inverse of [Handle].
func ParseHandle(s string) (queue string, n int64, ok bool) {
	i := strings.LastIndexByte(s, '_')
	if i < 1 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(s[i+1:], 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != s[i+1:] {
		return "", 0, false
	}
	switch queue = s[:i]; queue {
	case "bg":
		return "default", n, true
	case "default":
		return "", 0, false
	}
	return queue, n, true
}

// rawJSON gives bytes of unknown origin a place in JSON: as they are when they are JSON, as a string otherwise.
func rawJSON(b []byte) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	if json.Valid(b) {
		return b
	}
	s, _ := json.Marshal(strings.ToValidUTF8(string(b), "\uFFFD"))
	return s
}

func decode[T any](s string) *T {
	var v T
	_ = json.Unmarshal([]byte(s), &v) // ours; a damaged one reads as empty
	return &v
}

// text is a reply's string, whatever its kind.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return ""
}

func integer(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}
