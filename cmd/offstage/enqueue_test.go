package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/tasks"
)

func TestEnqueue(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	var key string
	d.HandleFunc("POST /v1/tasks", func(w http.ResponseWriter, r *http.Request) {
		key = r.Header.Get("Idempotency-Key")
		reply(w, 201, aTask(tasks.Pending))
	})
	g := offstage(t, d, "", "enqueue", "email", `{"to": 1}`, "--owner", "me", "--name=n", "--description=d", "--queue", "mail",
		"--metadata", "a=b=c,d", "--metadata", "e=", "--delay", "2s", "--timeout", "0", "--deadline=2030-01-02T03:04:05Z",
		"--max-retries=0", "--retention=1h", "--idempotency-key=k", "--backoff=2s", "--parent=default.p")
	g.want(t, 0, anID+"\n", "")
	want := map[string]any{"type": "email", "payload": map[string]any{"to": 1.0}, "owner": "me", "name": "n",
		"description": "d", "queue": "mail", "metadata": map[string]any{"a": "b=c,d", "e": ""}, "delay": "2s",
		"timeout": "0s", "deadline": "2030-01-02T03:04:05.000Z", "max_retries": 0.0, "retention": "1h0m0s",
		"backoff": map[string]any{"base": "2s"}, "parent": map[string]any{"task_id": "default.p"}}
	var body map[string]any
	_ = json.Unmarshal([]byte(strings.TrimPrefix(d.sent()[0], "POST /v1/tasks ")), &body)
	if diff := cmp.Diff(want, body); diff != "" || key != "k" {
		t.Errorf("key %q, body (-want +got):\n%s", key, diff)
	}
}

func TestEnqueue_Defaults(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.answer("POST /v1/tasks", 201, aTask(tasks.Pending))
	offstage(t, d, "[1,2]", "-o", "json", "enqueue", "email", "-").want(t, 0, `"id": "default.01abc"`, "")
	if want := []string{`POST /v1/tasks {"type":"email","payload":[1,2],"owner":"cli"}`}; !cmp.Equal(want, d.sent()) {
		t.Errorf("sent %q, want %q", d.sent(), want)
	}
}

func TestEnqueue_SameKey(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.answer("POST /v1/tasks", 200, aTask(tasks.Pending))
	offstage(t, d, "", "enqueue", "email", "--idempotency-key=k").want(t, 0, anID+"\n", "was used before")
}

func TestEnqueue_Usage(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	for _, tt := range []struct {
		args   []string
		stderr string
	}{
		{[]string{}, "accepts between 1 and 2 arg(s), received 0 (see 'offstage enqueue --help')"},
		{[]string{"email", "{"}, "the payload is not JSON"},
		{[]string{"email", "--wait", "5s"}, "--wait=5s"},
		{[]string{"email", "--metadata", "x"}, "key=value"},
		{[]string{"email", "--metadata", "x=1", "--metadata", "x=2"}, "a key of its own"},
		{[]string{"email", "--run-at", "tomorrow"}, "2026-11-20T11:00:00Z"},
		{[]string{"email", "--retention", "0"}, "the least is 1s"},
		{[]string{"email", "--max-retries", "many"}, "many"},
		{[]string{"email", "--bogus"}, "unknown flag: --bogus (see 'offstage enqueue --help')"},
		{[]string{"email", "-o", "yaml"}, "neither table nor json"},
	} {
		g := offstage(t, d, "", append([]string{"enqueue"}, tt.args...)...)
		g.want(t, 2, "", tt.stderr)
		if strings.Count(g.stderr, "\n") != 1 || !strings.HasPrefix(g.stderr, "offstage: ") {
			t.Errorf("%v: stderr %q, want one line that starts with offstage:", tt.args, g.stderr)
		}
	}
	if n := len(d.sent()); n != 0 {
		t.Errorf("%d requests were sent, want none", n)
	}
}

func TestEnqueue_Refused(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{"invalid": 2, "duplicate_name": 4, "idempotency_mismatch": 4, "too_large": 2} {
		d := newDaemon(t)
		d.refuse("POST /v1/tasks", 400, code, "not this one")
		offstage(t, d, "", "enqueue", "email").want(t, want, "", "offstage: not this one\n")
	}
	d := newDaemon(t)
	d.answer("POST /v1/tasks", 400, map[string]any{"code": "invalid", "detail": "name: is long", "errors": []any{
		map[string]any{"field": "name", "detail": "is long"},
		map[string]any{"field": "delay", "detail": "is negative", "hint": "0s"},
	}})
	offstage(t, d, "", "enqueue", "email").want(t, 2, "", "offstage: name: is long; delay: is negative (0s)\n")
}

func TestEnqueue_Wait(t *testing.T) {
	t.Parallel()
	completed := aTask(tasks.Completed)
	completed.Result = json.RawMessage(`{"sent":1}`)
	for _, tt := range []struct {
		name           string
		end            *tasks.Task
		args           []string
		code           int
		stdout, stderr string
	}{
		{"Completed", completed, []string{"--wait"}, 0, "{\"sent\":1}\n", "task default.01abc (bg_0)"},
		{"JSON", completed, []string{"--wait", "-o", "json"}, 0, `"status": "completed"`, "task default.01abc"},
		{"Failed", failedExec(3), []string{"--wait"}, 5, `{"exit_code":3}`, "task default.01abc failed: exit status 3"},
		{"Cancelled", aTask(tasks.Cancelled), []string{"--wait"}, 6, "", "was cancelled"},
		{"RunsOut", aTask(tasks.Running), []string{"--wait=20ms"}, 124, "", "is still running after 20ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t)
			d.answer("POST /v1/tasks", 201, aTask(tasks.Pending))
			d.HandleFunc("GET /v1/tasks/{id}", func(w http.ResponseWriter, r *http.Request) {
				if !tt.end.Status.Terminal() {
					wait, _ := time.ParseDuration(r.URL.Query().Get("wait"))
					<-time.After(wait)
				}
				reply(w, 200, tt.end)
			})
			offstage(t, d, "", append([]string{"enqueue", "email"}, tt.args...)...).want(t, tt.code, tt.stdout, tt.stderr)
		})
	}
}
