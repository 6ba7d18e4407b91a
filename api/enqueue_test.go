package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"offstage/api"
	"offstage/tasks"
)

const spec = `{"type":"t","owner":"o","payload":{"n":1}}`

func TestServer_Enqueue(t *testing.T) {
	t.Parallel()
	s := serverOf(t, newFake(), api.Config{})
	res := call(t, s, "POST", "/v1/tasks", spec)
	wantStatus(t, res, 201)
	if got := res.Header.Get("Location"); got != "/v1/tasks/default.0" {
		t.Errorf("Location = %q, want /v1/tasks/default.0", got)
	}
	if got := res.Header.Get("ETag"); got != `"v1"` {
		t.Errorf(`ETag = %s, want "v1"`, got)
	}
	want := tasks.Task{ID: "default.0", Owner: "o", Type: "t", Queue: "default", Status: tasks.Pending,
		Payload: json.RawMessage(`{"n":1}`), Version: 1}
	if diff := cmp.Diff(want, read[tasks.Task](t, res)); diff != "" {
		t.Errorf("task (-want +got):\n%s", diff)
	}
}

// Only the names of fields are the API's: payload and metadata have keys as the sender likes them.
func TestServer_EnqueueTakesForeignKeys(t *testing.T) {
	t.Parallel()
	body := `{"type":"t","owner":"o","payload":{"Type":{"É":1}},"metadata":{"Team":"A"},"max_retries":0,` +
		`"notify":{"on_complete":true,"outcomes":["failed"]},"parent":{"task_id":"default.p"}}`
	wantStatus(t, call(t, serverOf(t, newFake(), api.Config{}), "POST", "/v1/tasks", body), 201)
}

func TestServer_EnqueueIdempotent(t *testing.T) {
	t.Parallel()
	s := serverOf(t, newFake(), api.Config{})
	first := call(t, s, "POST", "/v1/tasks", spec, "Idempotency-Key: k")
	wantStatus(t, first, 201)
	again := call(t, s, "POST", "/v1/tasks", spec, "Idempotency-Key: k")
	wantStatus(t, again, 200)
	if diff := cmp.Diff(text(t, first), text(t, again)); diff != "" {
		t.Errorf("the second answer differs (-first +second):\n%s", diff)
	}
	other := call(t, s, "POST", "/v1/tasks", strings.Replace(spec, "1", "2", 1), "Idempotency-Key: k")
	wantProblem(t, other, 422, "idempotency_mismatch", "")
}

func TestServer_EnqueueRefuses(t *testing.T) {
	t.Parallel()
	limits := tasks.DefaultLimits()
	limits.MaxPayloadBytes = 1000
	s := serverOf(t, newFake(), api.Config{Limits: limits, Check: func(s tasks.Spec) error {
		if s.Type == "exec" {
			return &tasks.InvalidError{Field: "payload.argv", Reason: "is required"}
		}
		return nil
	}})
	for _, tt := range []struct {
		name, body  string
		headers     []string
		status      int
		code, field string
	}{
		{"UnknownField", `{"type":"t","owner":"o","speed":9}`, nil, 400, "invalid", "speed"},
		{"NestedUnknownField", `{"type":"t","owner":"o","parent":{"x":1}}`, nil, 400, "invalid", "x"},
		{"OtherCase", `{"Type":"t","owner":"o"}`, nil, 400, "invalid", "Type"},
		{"OtherCaseToo", `{"type":"t","owner":"o","Owner":"p"}`, nil, 400, "invalid", "Owner"},
		{"LongS", `{"type":"t","owner":"o","de\u017fcription":"d"}`, nil, 400, "invalid", "de\u017fcription"},
		{"NestedOtherCase", `{"type":"t","owner":"o","notify":{"webhook":{"URL":"x"}}}`, nil, 400, "invalid", "notify.webhook.URL"},
		{"WrongType", `{"type":7,"owner":"o"}`, nil, 400, "invalid", "type"},
		{"Missing", `{"type":"t"}`, nil, 400, "invalid", "owner"},
		{"Reserved", `{"type":"t","owner":"o","name":"self"}`, nil, 422, "reserved_name", "name"},
		{"Trailing", spec + "{}", nil, 400, "invalid", "body"},
		{"Backwards", "}{", nil, 400, "invalid", "body"},
		{"Array", "[]", nil, 400, "invalid", "body"},
		{"Null", "null", nil, 400, "invalid", "type"},
		{"Space", " ", nil, 400, "invalid", "body"},
		{"DuplicateKey", `{"type":"t","owner":"o","owner":"p"}`, nil, 400, "invalid", "owner"},
		{"NotUTF8", "{\"type\":\"t\",\"owner\":\"o\",\"payload\":[\"\xff\"]}", nil, 400, "invalid", "payload[0]"},
		{"Check", `{"type":"exec","owner":"o"}`, nil, 400, "invalid", "payload.argv"},
		{"Empty", "", []string{"Content-Type: application/json"}, 400, "invalid", "body"},
		{"NoType", spec, []string{"Content-Type: "}, 415, "unsupported_media_type", ""},
		{"Form", spec, []string{"Content-Type: text/plain"}, 415, "unsupported_media_type", ""},
		{"Charset", spec, []string{"Content-Type: application/json; charset=latin1"}, 415, "unsupported_media_type", ""},
		{"EmptyKey", spec, []string{"Idempotency-Key: "}, 400, "invalid", "Idempotency-Key"},
		{"TooLarge", `{"type":"t","owner":"o","payload":"` + strings.Repeat("x", 70_000) + `"}`, nil, 413, "too_large", "body"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantProblem(t, call(t, s, "POST", "/v1/tasks", tt.body, tt.headers...), tt.status, tt.code, tt.field)
		})
	}
}

func TestServer_EnqueueReportsEveryFault(t *testing.T) {
	t.Parallel()
	s := serverOf(t, newFake(), api.Config{})
	p := wantProblem(t, call(t, s, "POST", "/v1/tasks", `{"max_retries":-1,"type":"t"}`), 400, "invalid", "owner")
	want := []api.Fault{
		{Field: "owner", Detail: "is required", Hint: "1 to 128 bytes"},
		{Field: "max_retries", Detail: "is -1", Hint: "0 to 1000"},
	}
	if diff := cmp.Diff(want, p.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// endless is a body without end that counts what was read of it.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.read += len(b)
	return len(b), nil
}

func TestServer_EnqueueReadsNoMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	s := serverOf(t, newFake(), api.Config{})
	body := &endless{}
	req := httptest.NewRequest("POST", "http://localhost/v1/tasks", io.Reader(body))
	req.ContentLength = -1
	req.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, req)
	wantProblem(t, rec.Result(), 413, "too_large", "body")
	if most := 1<<20 + 64<<10 + 1; body.read > most {
		t.Errorf("read %d bytes of the body, want at most %d", body.read, most)
	}
}

func TestServer_EnqueueUnavailable(t *testing.T) {
	t.Parallel()
	q := newFake()
	q.err = fmt.Errorf("enqueue t: %w: OOM command not allowed", tasks.ErrUnavailable)
	res := call(t, serverOf(t, q, api.Config{}), "POST", "/v1/tasks", spec)
	p := wantProblem(t, res, 503, "unavailable", "")
	if !strings.Contains(p.Detail, "OOM") {
		t.Errorf("detail = %q, want the reason in it", p.Detail)
	}
	if res.Header.Get("Retry-After") == "" {
		t.Error("503 has no Retry-After")
	}
}

type batchAnswer struct {
	Results []struct {
		Task  *tasks.Task
		Error *api.Problem
	}
}

func TestServer_EnqueueBatch(t *testing.T) {
	t.Parallel()
	s := serverOf(t, newFake(), api.Config{})

	res := call(t, s, "POST", "/v1/tasks/batch", `{"tasks":[`+spec+`,`+spec+`]}`)
	wantStatus(t, res, 201)
	if got := read[batchAnswer](t, res); len(got.Results) != 2 || got.Results[1].Task == nil {
		t.Errorf("results = %+v, want two tasks", got.Results)
	}

	res = call(t, s, "POST", "/v1/tasks/batch", `{"tasks":[{"Type":"t","owner":"o"},`+spec+`]}`)
	wantStatus(t, res, 207)
	if got := read[batchAnswer](t, res).Results; got[0].Error == nil || got[0].Error.Field != "Type" || got[1].Task == nil {
		t.Errorf("results = %+v, want an error about Type and a task", got)
	}

	res = call(t, s, "POST", "/v1/tasks/batch", `{"tasks":[{"x":1},`+spec+`,{"type":"t"}]}`)
	wantStatus(t, res, 207)
	got := read[batchAnswer](t, res).Results
	if len(got) != 3 || got[0].Error == nil || got[1].Task == nil || got[2].Error == nil {
		t.Fatalf("results = %+v, want error, task, error", got)
	}
	if got[0].Error.Field != "x" || got[2].Error.Field != "owner" || got[2].Error.Status != 400 {
		t.Errorf("fields = %q, %q, want x, owner", got[0].Error.Field, got[2].Error.Field)
	}
}

func TestServer_EnqueueBatchRefuses(t *testing.T) {
	t.Parallel()
	q := newFake()
	s := serverOf(t, q, api.Config{})
	many := `{"tasks":[` + strings.Repeat(spec+",", 1000) + spec + `]}`
	wantProblem(t, call(t, s, "POST", "/v1/tasks/batch", many), 400, "invalid", "tasks")
	wantProblem(t, call(t, s, "POST", "/v1/tasks/batch", `{"tasks":[]}`), 400, "invalid", "tasks")
	wantProblem(t, call(t, s, "POST", "/v1/tasks/batch", `{"jobs":[]}`), 400, "invalid", "jobs")
	wantProblem(t, call(t, s, "POST", "/v1/tasks/batch", `{"Tasks":[`+spec+`]}`), 400, "invalid", "Tasks")
	wantProblem(t, call(t, s, "POST", "/v1/tasks/batch", `{"tasks":[`+spec+`]}`, "Idempotency-Key: k"), 400, "invalid",
		"Idempotency-Key")
	if n := len(q.tasks); n != 0 {
		t.Errorf("%d tasks were enqueued, want none", n)
	}
	q.err = tasks.ErrUnavailable // no 2xx for what nobody holds
	wantProblem(t, call(t, s, "POST", "/v1/tasks/batch", `{"tasks":[`+spec+`]}`), 503, "unavailable", "")
}

func FuzzEnqueueBody(f *testing.F) {
	for _, seed := range []string{
		spec, "}{", "null", `{"a":1,"a":2}`, `{"type":"t","owner":"o","payload":"\ud800"}`, `[1e400]`, "\"\xff\"",
		`{"type":"t","owner":"o","payload":[[[{"":{"\u0000":-0.0e-0}}]]],"timeout":"1s"}`, "{\"\x00\":1}", `{"":""}`,
		strings.Repeat("[", 2000), `{"type":"t","owner":"o","run_at":"9999-01-01T00:00:00Z"}`, "01", "[1,]", `{"a":1,}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 {
			return
		}
		s := serverOf(t, newFake(), api.Config{})
		res := call(t, s, "POST", "/v1/tasks", string(body))
		switch res.StatusCode {
		case http.StatusCreated:
			if !json.Valid(body) || !utf8.Valid(body) {
				t.Errorf("accepted %q", body)
			}
		case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
			if p := read[api.Problem](t, res); p.Field == "" {
				t.Errorf("%q: problem names no field: %+v", body, p)
			}
		default:
			t.Errorf("%q: status %d", body, res.StatusCode)
		}
	})
}
