package tasks_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"offstage/tasks"
)

// TestSpec_Validate is a part of checks 28 and 29: one case for each rule, refused by the name of its field.
func TestSpec_Validate(t *testing.T) {
	t.Parallel()
	const kB = 1 << 10
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprint("k", i)] = ""
	}
	tests := []struct {
		name   string
		change func(*tasks.Spec)
		want   []string // the fields named; none: it is taken
	}{
		{"Whole", func(*tasks.Spec) {}, nil},
		{"NoType", func(s *tasks.Spec) { s.Type = "" }, []string{"type"}},
		{"NoOwner", func(s *tasks.Spec) { s.Owner = "" }, []string{"owner"}},
		{"Nothing", func(s *tasks.Spec) { *s = tasks.Spec{} }, []string{"owner", "type"}},
		{"LongestOwner", func(s *tasks.Spec) { s.Owner = strings.Repeat("é", 64) }, nil},
		{"LongOwner", func(s *tasks.Spec) { s.Owner = strings.Repeat("o", 129) }, []string{"owner"}},
		{"LongType", func(s *tasks.Spec) { s.Type = strings.Repeat("t", 129) }, []string{"type"}},
		{"HugeName", func(s *tasks.Spec) { s.Name = strings.Repeat("n", 10*kB) }, []string{"name"}},
		{"LongDescription", func(s *tasks.Spec) { s.Description = strings.Repeat("d", 4*kB+1) }, []string{"description"}},
		{"LongKey", func(s *tasks.Spec) { s.IdempotencyKey = strings.Repeat("k", 256) }, []string{"idempotency_key"}},
		{"NulType", func(s *tasks.Spec) { s.Type = "a\x00b" }, []string{"type"}},
		{"NulOwner", func(s *tasks.Spec) { s.Owner = "\x00" }, []string{"owner"}},
		{"NulName", func(s *tasks.Spec) { s.Name = "a\x00" }, []string{"name"}},
		{"NulDescription", func(s *tasks.Spec) { s.Description = "\x00" }, []string{"description"}},
		{"NulMetadata", func(s *tasks.Spec) { s.Metadata = map[string]string{"k": "\x00"} }, []string{"metadata.k"}},
		{"NewlineName", func(s *tasks.Spec) { s.Name = "a\nb" }, []string{"name"}},
		{"BadUTF8Owner", func(s *tasks.Spec) { s.Owner = "a\xff" }, []string{"owner"}},
		{"SurrogateName", func(s *tasks.Spec) { s.Name = "\xed\xa0\x80" }, []string{"name"}},
		{"BadUTF8Description", func(s *tasks.Spec) { s.Description = "\xc3" }, []string{"description"}},
		{"BadUTF8Metadata", func(s *tasks.Spec) { s.Metadata = map[string]string{"k": "\xff"} }, []string{"metadata.k"}},
		{"BadUTF8Payload", func(s *tasks.Spec) { s.Payload = json.RawMessage("\"\xff\"") }, []string{"payload"}},
		{"SpaceAround", func(s *tasks.Spec) { s.Name, s.Owner = " n", "o " }, []string{"name", "owner"}},
		{"UnencodablePayload", func(s *tasks.Spec) { s.Payload = func() {} }, []string{"payload"}},

		{"QueueDot", func(s *tasks.Spec) { s.Queue = "a.b" }, []string{"queue"}},
		{"QueueBrace", func(s *tasks.Spec) { s.Queue = "a}b" }, []string{"queue"}},
		{"QueueDash", func(s *tasks.Spec) { s.Queue = "-a" }, []string{"queue"}},
		{"QueueBG", func(s *tasks.Spec) { s.Queue = "bg" }, []string{"queue"}},
		{"QueueLong", func(s *tasks.Spec) { s.Queue = strings.Repeat("q", 65) }, []string{"queue"}},
		{"QueueUmlaut", func(s *tasks.Spec) { s.Queue = "ä" }, []string{"queue"}},
		{"QueuePlain", func(s *tasks.Spec) { s.Queue = "A-b_9" }, nil},

		{"MetadataMany", func(s *tasks.Spec) { s.Metadata = many }, []string{"metadata"}},
		{"MetadataLarge", func(s *tasks.Spec) {
			s.Metadata = map[string]string{"a": strings.Repeat("x", 8*kB), "b": strings.Repeat("x", 8*kB)}
		}, []string{"metadata"}},
		{"MetadataKeyEmpty", func(s *tasks.Spec) { s.Metadata = map[string]string{"": "v"} }, []string{"metadata"}},
		{"MetadataKeyHuge", func(s *tasks.Spec) { s.Metadata = map[string]string{strings.Repeat("k", 10*kB): "v"} }, []string{"metadata"}},
		{"MetadataKeyControl", func(s *tasks.Spec) { s.Metadata = map[string]string{"a\tb": "v"} }, []string{"metadata"}},

		{"ParentTask", func(s *tasks.Spec) { s.Parent = &tasks.Parent{TaskID: "\x00"} }, []string{"parent.task_id"}},
		{"ParentRun", func(s *tasks.Spec) { s.Parent = &tasks.Parent{RunID: strings.Repeat("r", 129)} }, []string{"parent.run_id"}},
		{"ParentCall", func(s *tasks.Spec) { s.Parent = &tasks.Parent{CallID: " "} }, []string{"parent.call_id"}},
		{"ParentAgent", func(s *tasks.Spec) { s.Parent = &tasks.Parent{AgentID: "\xff"} }, []string{"parent.agent_id"}},

		{"RetriesNone", func(s *tasks.Spec) { s.MaxRetries = new(0) }, nil},
		{"RetriesMost", func(s *tasks.Spec) { s.MaxRetries = new(1000) }, nil},
		{"RetriesNegative", func(s *tasks.Spec) { s.MaxRetries = new(-1) }, []string{"max_retries"}},
		{"Retries2e33", func(s *tasks.Spec) { s.MaxRetries = new(1 << 33) }, []string{"max_retries"}},
		{"BackoffNegative", func(s *tasks.Spec) { s.Backoff = &tasks.Backoff{Base: -1} }, []string{"backoff.base"}},
		{"BackoffHuge", func(s *tasks.Spec) { s.Backoff = &tasks.Backoff{Max: math.MaxInt64} }, []string{"backoff.max"}},
		{"BackoffCrossed", func(s *tasks.Spec) { s.Backoff = &tasks.Backoff{Base: 2e9, Max: 1e9} }, []string{"backoff.base"}},

		{"Timeout500ms", func(s *tasks.Spec) { s.Timeout = new(500 * time.Millisecond) }, nil},
		{"TimeoutNone", func(s *tasks.Spec) { s.Timeout = new(time.Duration(0)) }, nil},
		{"TimeoutNegative", func(s *tasks.Spec) { s.Timeout = new(time.Duration(-1)) }, []string{"timeout"}},
		{"TimeoutNanosecond", func(s *tasks.Spec) { s.Timeout = new(time.Nanosecond) }, []string{"timeout"}},
		{"TimeoutLargest", func(s *tasks.Spec) { s.Timeout = new(time.Duration(math.MaxInt64)) }, []string{"timeout"}},
		{"DelayNegative", func(s *tasks.Spec) { s.RunAt, s.Delay = time.Time{}, -time.Second }, []string{"delay"}},
		{"DelayHuge", func(s *tasks.Spec) { s.RunAt, s.Delay, s.Deadline = time.Time{}, math.MaxInt64, time.Time{} }, []string{"delay"}},
		{"DelayBesideRunAt", func(s *tasks.Spec) { s.Delay = time.Second }, []string{"delay"}},
		{"RunAtPast", func(s *tasks.Spec) { s.RunAt = noon.Add(-time.Hour) }, nil},
		{"RunAt1969", func(s *tasks.Spec) { s.RunAt = year(1969) }, []string{"run_at"}},
		{"RunAt9999", func(s *tasks.Spec) { s.RunAt, s.Deadline = year(9999), time.Time{} }, []string{"run_at"}},
		{"DeadlinePast", func(s *tasks.Spec) { s.Deadline = noon.Add(-time.Second) }, []string{"deadline"}},
		{"DeadlineNow", func(s *tasks.Spec) { s.Deadline = noon }, []string{"deadline"}},
		{"DeadlineBeforeRunAt", func(s *tasks.Spec) { s.Deadline = s.RunAt }, []string{"deadline"}},
		{"DeadlineBeforeDelay", func(s *tasks.Spec) { s.RunAt, s.Delay, s.Deadline = time.Time{}, time.Hour, noon.Add(time.Minute) }, []string{"deadline"}},
		{"Deadline9999", func(s *tasks.Spec) { s.Deadline = year(9999) }, []string{"deadline"}},
		{"RetentionShort", func(s *tasks.Spec) { s.Retention = 999 * time.Millisecond }, []string{"retention"}},
		{"RetentionNegative", func(s *tasks.Spec) { s.Retention = -time.Hour }, []string{"retention"}},
		{"RetentionLong", func(s *tasks.Spec) { s.Retention = 367 * 24 * time.Hour }, []string{"retention"}},

		{"Outcome", func(s *tasks.Spec) { s.Notify = &tasks.Notify{Outcomes: []tasks.Status{"completed", "running"}} }, []string{"notify.outcomes"}},
		{"WebhookNone", func(s *tasks.Spec) { s.Notify = &tasks.Notify{Webhook: &tasks.Webhook{}} }, []string{"notify.webhook.url"}},
		{"WebhookScheme", func(s *tasks.Spec) { s.Notify.Webhook.URL = "file:///etc/passwd" }, []string{"notify.webhook.url"}},
		{"WebhookUser", func(s *tasks.Spec) { s.Notify.Webhook.URL = "https://a:b@example.com" }, []string{"notify.webhook.url"}},
		{"WebhookSecret", func(s *tasks.Spec) { s.Notify.Webhook.SecretRef = "\n" }, []string{"notify.webhook.secret_ref"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := whole()
			tt.change(&s)
			err := s.Validate(tasks.DefaultLimits(), noon)
			got := fields(err)
			for i, f := range got { // a key of the caller's making follows
				if strings.HasPrefix(f, "metadata key ") {
					got[i] = "metadata"
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Fatalf("Validate = %v, naming %v, want %v", err, got, tt.want)
			}
			if err == nil {
				return
			}
			if !errors.Is(err, tasks.ErrInvalid) {
				t.Errorf("%v is not ErrInvalid", err)
			}
			if len(err.Error()) > 500 || strings.Contains(err.Error(), "\x00") {
				t.Errorf("an error of %d bytes that is not fit for a log: %.100q...", len(err.Error()), err)
			}
		})
	}
}

// TestSpec_ValidateAll: every fault is reported at once, and the spec stays as it was.
func TestSpec_ValidateAll(t *testing.T) {
	t.Parallel()
	s := tasks.Spec{Name: "self", Queue: "no queue", MaxRetries: new(-1), Deadline: noon, Retention: 1}
	before := encode(t, s)
	err := s.Validate(tasks.DefaultLimits(), noon)
	want := []string{"deadline", "deadline", "max_retries", "name", "owner", "queue", "retention", "type"}
	if got := slices.Compact(fields(err)); !slices.Equal(got, slices.Compact(want)) {
		t.Errorf("Validate = %v, naming %v, want %v", err, got, want)
	}
	if after := encode(t, s); after != before {
		t.Errorf("Validate changed the spec to %s", after)
	}
}

// TestSpec_ValidateSentinels: what is not plainly invalid says so.
func TestSpec_ValidateSentinels(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"parent", "self", "all", "broadcast"} {
		s := tasks.Spec{Type: "t", Owner: "o", Name: name}
		if err := s.Validate(tasks.DefaultLimits(), noon); !errors.Is(err, tasks.ErrReservedName) || !slices.Equal(fields(err), []string{"name"}) {
			t.Errorf("name %q: %v, want ErrReservedName that names name", name, err)
		}
	}
	limits := tasks.DefaultLimits()
	limits.MaxPayloadBytes = 10
	for payload, want := range map[string]error{`"12345678"`: nil, `"123456789"`: tasks.ErrTooLarge} {
		s := tasks.Spec{Type: "t", Owner: "o", Payload: json.RawMessage(payload)}
		err := s.Validate(limits, noon)
		if !errors.Is(err, want) || (want != nil && !strings.Contains(err.Error(), "task.max_payload")) {
			t.Errorf("payload of %d bytes, at most 10: %v, want %v", len(payload), err, want)
		}
	}
}
