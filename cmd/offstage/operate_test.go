package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"offstage/client"
	"offstage/tasks"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.answer("GET /v1/queues", 200, map[string]any{"queues": []client.QueueInfo{
		{Name: "default", Paused: true, Counts: map[tasks.Status]int64{tasks.Running: 7}, Backlog: 12,
			OldestPendingAge: tasks.Duration(90 * time.Second)},
	}})
	d.answer("POST /v1/queues/mail/pause", 200, client.QueueInfo{})
	d.answer("POST /v1/queues/mail/resume", 200, client.QueueInfo{})
	offstage(t, d, "", "queue", "list").want(t, 0, "default  paused  12       90s     0          0        7", "")
	offstage(t, d, "", "queue", "list", "-o", "json").want(t, 0, `"oldest_pending_age": "1m30s"`, "")
	offstage(t, d, "", "queue", "pause", "mail").want(t, 0, "", "paused mail")
	offstage(t, d, "", "queue", "resume", "mail").want(t, 0, "", "resumed mail")
	offstage(t, d, "", "queue", "pause", "a/b").want(t, 2, "", "queue: ")
}

func TestWorkerList(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.answer("GET /v1/workers", 200, map[string]any{"workers": []client.WorkerInfo{
		{ID: "w1", Host: "h", PID: 7, Version: "v1", Queues: map[string]int{"a": 1, "b": 6}, Concurrency: 8, Running: 3,
			StartedAt: tasks.At(time.Now().Add(-3 * time.Hour)), SeenAt: tasks.At(time.Now()), Draining: true},
	}})
	offstage(t, d, "", "worker", "list").want(t, 0, "w1      h     7    v1       draining  3/8      3h  0s    b=6 a=1\n", "")
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.answer("GET /readyz", 200, client.Health{Ready: true, Redis: "ok", Durability: "always"})
	offstage(t, d, "", "healthcheck").want(t, 0, "ready        yes", "")
	d = newDaemon(t)
	d.answer("GET /readyz", 503, client.Health{Redis: "connection refused", Problems: []string{"redis: connection refused"}})
	offstage(t, d, "", "healthcheck").want(t, 1, "ready        no", "offstage: not ready: redis: connection refused\n")
	d = newDaemon(t)
	d.HandleFunc("GET /readyz", hang(t))
	offstage(t, d, "", "healthcheck", "--timeout=20ms").want(t, 7, "", "does not answer within 20ms")
}

func TestUnauthorized(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.answer("GET /v1/queues", 401, map[string]any{"code": "unauthorized", "detail": "a token is needed"})
	offstage(t, d, "", "queue", "list").want(t, 1, "", "offstage: a token is needed (set --token or OFFSTAGE_TOKEN)\n")
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.refuse("GET /v1/queues", 503, "unavailable", "redis 127.0.0.1:1: connection refused")
	offstage(t, d, "", "queue", "list").want(t, 7, "", "offstage: redis 127.0.0.1:1: connection refused\n")
}

func TestToken_Sent(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	var got string
	d.HandleFunc("GET /v1/queues", func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		reply(w, 200, map[string]any{})
	})
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ flag, env, want string }{
		{"--token=a", "OFFSTAGE_TOKEN=b", "Bearer a"},
		{"--token=", "OFFSTAGE_TOKEN=b", "Bearer b"},
		{"--token=", "OFFSTAGE_TOKEN_FILE=" + file, "Bearer from-file"},
		{"--token=", "X=", ""},
	} {
		env := []string{"OFFSTAGE_SERVER=" + d.url, tt.env}
		code := run(t.Context(), []string{"queue", "list", tt.flag}, strings.NewReader(""), io.Discard, io.Discard, env)
		if code != 0 || got != tt.want {
			t.Errorf("%s %s: exit code %d, sent %q, want %q", tt.flag, tt.env, code, got, tt.want)
		}
	}
}

// A token from the environment is used, and help does not show it.
func TestToken(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	env := []string{"OFFSTAGE_TOKEN=s3cret", "OFFSTAGE_OWNER=me"}
	if code := run(t.Context(), []string{"task", "get", "--help"}, strings.NewReader(""), &stdout, &stderr, env); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if strings.Contains(stdout.String(), "s3cret") || !strings.Contains(stdout.String(), `(default "me")`) {
		t.Errorf("help:\n%s\nwant the owner of the environment and not its token", stdout.String())
	}
}
