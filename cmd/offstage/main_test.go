package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"offstage/tasks"
)

// leakChecked runs the tests and then looks for goroutines that outlived them.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			return 1
		}
	}
	return code
}

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"offstage": main})
}

// fakeDaemon is a fake of the HTTP API: a test fills in what it needs.
type fakeDaemon struct {
	*http.ServeMux
	url string

	mu       sync.Mutex
	requests []string // method, path with query, and body
}

func newDaemon(t *testing.T) *fakeDaemon {
	t.Helper()
	d := &fakeDaemon{ServeMux: http.NewServeMux()}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		d.mu.Lock()
		d.requests = append(d.requests, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(b)))
		d.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(b))
		d.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	d.url = s.URL
	return d
}

// sent is what the daemon was asked so far.
func (d *fakeDaemon) sent() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.requests...)
}

// answer serves v as JSON for a pattern.
func (d *fakeDaemon) answer(pattern string, status int, v any) {
	d.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { reply(w, status, v) })
}

// refuse serves a problem document for a pattern.
func (d *fakeDaemon) refuse(pattern string, status int, code, detail string) {
	d.answer(pattern, status, map[string]any{"status": status, "code": code, "detail": detail})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func writeOutput(w http.ResponseWriter, all string, offset int64, status tasks.Status) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Offstage-Output-Offset", strconv.FormatInt(offset, 10))
	h.Set("Offstage-Output-Next", strconv.Itoa(len(all)))
	h.Set("Offstage-Output-Total", strconv.Itoa(len(all)))
	h.Set("Offstage-Task-Status", string(status))
	_, _ = io.WriteString(w, all[offset:])
}

// got is what came of a command.
type got struct {
	code           int
	stdout, stderr string
}

// offstage runs the CLI against a daemon, with more environment as NAME=value if there is a need.
func offstage(t *testing.T, d *fakeDaemon, stdin string, args ...string) got {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr, []string{"OFFSTAGE_SERVER=" + d.url})
	return got{code, stdout.String(), stderr.String()}
}

// want fails the test unless the code is the wanted one and the streams contain the wanted text.
func (g got) want(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if g.code != code {
		t.Errorf("exit code %d, want %d", g.code, code)
	}
	if !strings.Contains(g.stdout, stdout) || stdout == "" && g.stdout != "" {
		t.Errorf("stdout %q, want %q in it", g.stdout, stdout)
	}
	if !strings.Contains(g.stderr, stderr) || stderr == "" && g.stderr != "" {
		t.Errorf("stderr %q, want %q in it", g.stderr, stderr)
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", g.stdout, g.stderr)
	}
}

const anID = "default.01abc"

func aTask(status tasks.Status) *tasks.Task {
	return &tasks.Task{ID: anID, Handle: "bg_0", Owner: "cli", Type: "email", Queue: "default", Status: status,
		MaxRetries: 3, CreatedAt: tasks.At(time.Now().Add(-5 * time.Second))}
}

func failedExec(code int) *tasks.Task {
	t := aTask(tasks.Failed)
	t.Type, t.Attempt, t.Result = "exec", 1, json.RawMessage(`{"exit_code":`+strconv.Itoa(code)+`}`)
	t.Error = &tasks.Error{Kind: tasks.KindError, Message: "exit status " + strconv.Itoa(code), Retryable: true}
	t.Errors = []tasks.Failure{{Attempt: 1, Kind: tasks.KindError, Message: t.Error.Message, At: t.CreatedAt}}
	t.Output = "line 1\nline 2\n"
	return t
}

// signalled runs the CLI with a channel in place of the process' signals.
func signalled(ctx context.Context, d *fakeDaemon, signals <-chan os.Signal, stdout, stderr io.Writer, args ...string) int {
	a := newApp(strings.NewReader(""), stdout, stderr, []string{"OFFSTAGE_SERVER=" + d.url})
	a.signals = func() (<-chan os.Signal, func()) { return signals, func() {} }
	return a.run(ctx, args)
}

// hang is a handler that never answers.
func hang(t *testing.T) http.HandlerFunc {
	t.Helper()
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-t.Context().Done():
		}
	}
}
