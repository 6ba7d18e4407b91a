package tasks_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/tasks"
)

// whole has every field of a spec set.
func whole() tasks.Spec {
	return tasks.Spec{
		Type: "email:send", Payload: json.RawMessage(`{"to":"<ada@example.com>"}`), Owner: "session-1",
		Name: "mail", Description: "greets\nAda", Queue: "mails", Metadata: map[string]string{"team": "growth", "a b": ""},
		Parent:     &tasks.Parent{TaskID: "default.01", RunID: "r", CallID: "c", AgentID: "a"},
		MaxRetries: new(0), Backoff: &tasks.Backoff{Base: tasks.Duration(250 * time.Millisecond), Max: tasks.Duration(time.Minute)},
		Timeout: new(90 * time.Second), Deadline: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		RunAt: time.Date(2026, 11, 20, 13, 0, 0, 5e6, time.UTC), Retention: 48 * time.Hour,
		Notify: &tasks.Notify{OnComplete: true, Outcomes: []tasks.Status{tasks.Failed},
			Webhook: &tasks.Webhook{URL: "https://example.com/hook", SecretRef: "main"}},
	}
}

const wholeJSON = `{"type":"email:send","payload":{"to":"\u003cada@example.com\u003e"},"owner":"session-1","name":"mail",` +
	`"description":"greets\nAda","queue":"mails","metadata":{"a b":"","team":"growth"},` +
	`"parent":{"task_id":"default.01","run_id":"r","call_id":"c","agent_id":"a"},"max_retries":0,` +
	`"backoff":{"base":"250ms","max":"1m0s"},"timeout":"1m30s","deadline":"2026-11-21T12:00:00.000Z",` +
	`"run_at":"2026-11-20T13:00:00.005Z",` +
	`"notify":{"on_complete":true,"outcomes":["failed"],"webhook":{"url":"https://example.com/hook","secret_ref":"main"}},` +
	`"retention":"48h0m0s"}`

func TestSpec_JSON(t *testing.T) {
	t.Parallel()
	delayed := tasks.Spec{Type: "t", Owner: "o", Delay: 1500 * time.Millisecond, Timeout: new(time.Duration(0))}
	tests := []struct {
		name string
		spec tasks.Spec
		want string
	}{
		{"Whole", whole(), wholeJSON},
		{"Least", tasks.Spec{Type: "t", Owner: "o"}, `{"type":"t","owner":"o"}`},
		{"ZeroTimeout", delayed, `{"type":"t","owner":"o","timeout":"0s","delay":"1.5s"}`},
		{"IdempotencyKey", tasks.Spec{Type: "t", Owner: "o", IdempotencyKey: "k"}, `{"type":"t","owner":"o"}`},
		{"NullPayload", tasks.Spec{Type: "t", Owner: "o", Payload: json.RawMessage("null")}, `{"type":"t","owner":"o"}`},
		{"FalsePayload", tasks.Spec{Type: "t", Owner: "o", Payload: false}, `{"type":"t","payload":false,"owner":"o"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, encode(t, tt.spec)); diff != "" {
				t.Fatalf("Marshal (-want +got):\n%s", diff)
			}
			var back tasks.Spec
			if err := json.Unmarshal([]byte(tt.want), &back); err != nil {
				t.Fatalf("Unmarshal: %v", err)
			}
			if diff := cmp.Diff(tt.want, encode(t, back)); diff != "" {
				t.Errorf("there and back (-want +got):\n%s", diff)
			}
			want := tt.spec
			want.IdempotencyKey = ""
			want.Payload, back.Payload = payload(t, want), payload(t, back)
			if diff := cmp.Diff(want, back); diff != "" {
				t.Errorf("Unmarshal(%s) (-want +got):\n%s", tt.want, diff)
			}
		})
	}
}

// payload gives a spec's payload a form that can be compared.
func payload(t *testing.T, s tasks.Spec) any {
	t.Helper()
	b, err := s.PayloadJSON()
	if err != nil {
		t.Fatalf("PayloadJSON: %v", err)
	}
	var v any
	if b != nil && json.Unmarshal(b, &v) != nil {
		t.Fatalf("PayloadJSON gave %q", b)
	}
	return v
}

// TestSpec_PayloadJSON: what a handler gets is what was sent.
func TestSpec_PayloadJSON(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		payload any
		want    string
	}{
		{"None", nil, ""},
		{"Null", json.RawMessage(" null "), ""},
		{"NilPointer", (*int)(nil), ""},
		{"HTML", "<a href='x'>&</a>", `"<a href='x'>&</a>"`},
		{"Raw", json.RawMessage(`{"b":1,"a":[1e400,"<"]}`), `{"b":1,"a":[1e400,"<"]}`},
		{"Struct", struct{ A int }{7}, `{"A":7}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := tasks.Spec{Payload: tt.payload}
			got, err := s.PayloadJSON()
			if err != nil || string(got) != tt.want {
				t.Errorf("PayloadJSON() = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	for name, bad := range map[string]any{"Channel": make(chan int), "NotJSON": json.RawMessage("{"), "NaN": json.Number("nan")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tasks.Spec{Type: "t", Owner: "o", Payload: bad}
			if _, err := s.PayloadJSON(); !slices.Equal(fields(err), []string{"payload"}) {
				t.Errorf("PayloadJSON() = %v, want an error that names payload", err)
			}
			if _, err := json.Marshal(s); err == nil {
				t.Error("Marshal took it")
			}
		})
	}
}

// TestSpec_UnmarshalRefuses is a part of checks 28 and 29: what is not a spec is refused by the name of its field.
func TestSpec_UnmarshalRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, field string }{
		{"Unknown", `{"type":"t","owner":"o","retries":3}`, "retries"},
		{"UnknownInside", `{"parent":{"task":"x"}}`, "task"},
		{"IdempotencyKey", `{"idempotency_key":"k"}`, "idempotency_key"},
		{"Trailing", `{"type":"t"} {}`, "body"},
		{"Backwards", `}{`, "body"},
		{"Empty", ``, "body"},
		{"Cut", `{"type":"t"`, "body"},
		{"Array", `[]`, "body"},
		{"Text", `"x"`, "body"},
		{"TypeNumber", `{"type":7}`, "type"},
		{"OwnerObject", `{"owner":{}}`, "owner"},
		{"MetadataNumber", `{"metadata":{"k":7}}`, "metadata"},
		{"RetriesText", `{"max_retries":"3"}`, "max_retries"},
		{"RetriesFraction", `{"max_retries":1.5}`, "max_retries"},
		{"RetriesHuge", `{"max_retries":1e400}`, "max_retries"},
		{"TimeoutNumber", `{"timeout":5}`, "timeout"},
		{"TimeoutNoUnit", `{"timeout":"5"}`, "timeout"},
		{"TimeoutHuge", `{"timeout":"1e18s"}`, "timeout"},
		{"TimeoutOverflow", `{"timeout":"3000000h"}`, "timeout"},
		{"DelayWords", `{"delay":"a while"}`, "delay"},
		{"BackoffBase", `{"backoff":{"base":"soon"}}`, "backoff.base"},
		{"BackoffMax", `{"backoff":{"max":1}}`, "backoff.max"},
		{"BackoffText", `{"backoff":"1s"}`, "backoff"},
		{"DeadlineDate", `{"deadline":"2026-11-20"}`, "deadline"},
		{"DeadlineNumber", `{"deadline":1763640000}`, "deadline"},
		{"RunAtYear", `{"run_at":"12026-11-20T11:00:00Z"}`, "run_at"},
		{"RetentionZero", `{"retention":"0s"}`, "retention"},
		{"RetentionWords", `{"retention":"forever"}`, "retention"},
		{"OutcomesText", `{"notify":{"outcomes":"all"}}`, "notify.outcomes"},
		{"Deep", strings.Repeat(`{"payload":`, 10001) + strings.Repeat(`}`, 10001), "body"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s tasks.Spec
			err := s.UnmarshalJSON([]byte(tt.in))
			if got := fields(err); !slices.Equal(got, []string{tt.field}) || !errors.Is(err, tasks.ErrInvalid) {
				t.Fatalf("UnmarshalJSON = %v, naming %v, want it to name %s", err, got, tt.field)
			}
			if len(err.Error()) > 500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// TestSpec_UnmarshalZeros: an explicit null is nothing, an explicit zero is zero where zero has a meaning.
func TestSpec_UnmarshalZeros(t *testing.T) {
	t.Parallel()
	var s tasks.Spec
	in := `{"type":"t","owner":"o","payload":null,"max_retries":0,"timeout":"0","delay":"0s","deadline":null,"run_at":null,` +
		`"retention":null,"backoff":null,"parent":null,"notify":null,"metadata":null,"queue":""}`
	if err := json.Unmarshal([]byte(in), &s); err != nil {
		t.Fatal(err)
	}
	want := tasks.Spec{Type: "t", Owner: "o", MaxRetries: new(0), Timeout: new(time.Duration(0))}
	s.Payload = payload(t, s)
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("Unmarshal(%s) (-want +got):\n%s", in, diff)
	}
	for name, empty := range map[string]string{"Payload": `{"payload":""}`, "Zero": `{"payload":0}`, "False": `{"payload":false}`} {
		var s tasks.Spec
		if err := json.Unmarshal([]byte(empty), &s); err != nil || s.Payload == nil {
			t.Errorf("%s: an empty payload is none: %+v, %v", name, s, err)
		}
	}
}

// TestSpec_UnmarshalKeepsOld: a refused body leaves the spec as it was.
func TestSpec_UnmarshalKeepsOld(t *testing.T) {
	t.Parallel()
	s := tasks.Spec{Type: "old"}
	if err := json.Unmarshal([]byte(`{"type":"new","timeout":"x"}`), &s); err == nil || s.Type != "old" {
		t.Errorf("after a refusal (%v): %+v", err, s)
	}
}
