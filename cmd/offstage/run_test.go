package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/tasks"
)

// command is a fake of a task of type exec on a fake daemon.
type command struct {
	*fakeDaemon
	mu      sync.Mutex
	output  string
	end     *tasks.Task // nil while it runs
	changed chan struct{}
	asked   chan struct{} // gets a value for each cancel
}

func newCommand(t *testing.T) *command {
	t.Helper()
	c := &command{fakeDaemon: newDaemon(t), changed: make(chan struct{}), asked: make(chan struct{}, 9)}
	c.answer("POST /v1/tasks", 201, aTask(tasks.Pending))
	c.HandleFunc("GET /v1/tasks/{id}/output", c.serveOutput)
	c.HandleFunc("GET /v1/tasks/{id}", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, c.task()) })
	c.HandleFunc("POST /v1/tasks/{id}/cancel", func(w http.ResponseWriter, _ *http.Request) {
		c.asked <- struct{}{}
		reply(w, 200, map[string]any{"cancelled": 1, "tasks": []tasks.Change{{ID: anID, From: "running", To: "cancelled"}}})
	})
	return c
}

func (c *command) task() *tasks.Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		return c.end
	}
	return aTask(tasks.Running)
}

// print adds output; an end finishes the task in the same step.
func (c *command) print(s string, end *tasks.Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.output += s
	c.end = end
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *command) serveOutput(w http.ResponseWriter, r *http.Request) {
	offset, _ := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
	for {
		c.mu.Lock()
		output, end, changed := c.output, c.end, c.changed
		c.mu.Unlock()
		switch {
		case end != nil:
			writeOutput(w, output, offset, end.Status)
			return
		case int64(len(output)) > offset:
			writeOutput(w, output, offset, tasks.Running)
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	c := newCommand(t)
	c.print("line 1\nline 2\n", failedExec(3))
	g := offstage(t, c.fakeDaemon, "", "run", "--env", "A=b=c", "--timeout=1m", "--", "sh", "-c", "exit 3", "-o", "x")
	g.want(t, 3, "line 1\nline 2\n", "offstage: task default.01abc (bg_0)\n")
	if g.stderr != "offstage: task default.01abc (bg_0)\n" {
		t.Errorf("stderr %q, want the task only", g.stderr)
	}
	want := `POST /v1/tasks {"type":"exec","payload":{"argv":["sh","-c","exit 3","-o","x"],"env":{"A":"b=c"}},` +
		`"owner":"cli","max_retries":0,"timeout":"1m0s"}`
	if diff := cmp.Diff(want, c.sent()[0]); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestRun_Payload(t *testing.T) {
	t.Parallel()
	c := newCommand(t)
	c.print("", aTask(tasks.Completed))
	offstage(t, c.fakeDaemon, "some input", "run", "--cwd=/tmp/../var", "--stdin", "--max-retries=2", "cat", "-n").want(t, 0, "", "task")
	want := `POST /v1/tasks {"type":"exec","payload":{"argv":["cat","-n"],"cwd":"/var","stdin":"some input"},` +
		`"owner":"cli","max_retries":2}`
	if diff := cmp.Diff(want, c.sent()[0]); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestRun_Usage(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	offstage(t, d, "", "run").want(t, 2, "", "requires at least 1 arg(s)")
	offstage(t, d, "", "run", "--env", "x", "--", "true").want(t, 2, "", "NAME=value")
}

func TestRun_JSON(t *testing.T) {
	t.Parallel()
	c := newCommand(t)
	c.print("text\n", failedExec(9))
	g := offstage(t, c.fakeDaemon, "", "-o", "json", "run", "false")
	g.want(t, 9, `"exit_code": 9`, "task")
	if !strings.HasPrefix(g.stdout, "{") {
		t.Errorf("stdout %q, want one JSON document", g.stdout)
	}
}

// lineWriter hands on each write, so that a test sees when it came.
type lineWriter chan string

func (w lineWriter) Write(b []byte) (int, error) {
	w <- string(b)
	return len(b), nil
}

func TestRun_StreamsAsItComes(t *testing.T) {
	t.Parallel()
	c, lines := newCommand(t), make(lineWriter)
	var code int
	var wg sync.WaitGroup
	wg.Go(func() { code = signalled(t.Context(), c.fakeDaemon, nil, lines, io.Discard, "run", "x") })
	for _, line := range []string{"one\n", "two\n", "three\n"} {
		c.print(line, nil)
		if got := <-lines; got != line {
			t.Errorf("got %q, want %q", got, line)
		}
	}
	c.print("", aTask(tasks.Completed))
	if wg.Wait(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestRun_FirstSignalCancels(t *testing.T) {
	t.Parallel()
	c, signals := newCommand(t), make(chan os.Signal, 2)
	var stdout, stderr bytes.Buffer
	var code int
	var wg sync.WaitGroup
	wg.Go(func() { code = signalled(t.Context(), c.fakeDaemon, signals, &stdout, &stderr, "run", "x") })
	signals <- syscall.SIGTERM
	<-c.asked
	cancelled := aTask(tasks.Cancelled)
	cancelled.Cancel = &tasks.Cancel{Reason: "terminated in offstage run"}
	c.print("last words\n", cancelled)
	wg.Wait()
	got{code, stdout.String(), stderr.String()}.want(t, 6, "last words\n", "was cancelled: terminated in offstage run")
	if want := `POST /v1/tasks/default.01abc/cancel?owner=cli {"reason":"terminated in offstage run"}`; !strings.Contains(
		strings.Join(c.sent(), "\n"), want) {
		t.Errorf("sent %q, want %q among it", c.sent(), want)
	}
}

func TestRun_SecondSignalLeaves(t *testing.T) {
	t.Parallel()
	c, signals := newCommand(t), make(chan os.Signal, 2)
	var stdout, stderr bytes.Buffer
	var code int
	var wg sync.WaitGroup
	wg.Go(func() { code = signalled(t.Context(), c.fakeDaemon, signals, &stdout, &stderr, "run", "x") })
	signals <- os.Interrupt
	<-c.asked
	signals <- os.Interrupt
	wg.Wait()
	got{code, stdout.String(), stderr.String()}.want(t, 130, "", "left before the task had ended")
}

// The command may be asked to stop before the daemon has answered: the task is cancelled when it has.
func TestRun_SignalBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 2)
	c := &command{fakeDaemon: newDaemon(t), changed: make(chan struct{}), asked: make(chan struct{}, 9)}
	c.HandleFunc("POST /v1/tasks", func(w http.ResponseWriter, _ *http.Request) {
		signals <- os.Interrupt
		<-time.After(20 * time.Millisecond)
		reply(w, 201, aTask(tasks.Pending))
	})
	c.HandleFunc("GET /v1/tasks/{id}/output", c.serveOutput)
	c.HandleFunc("GET /v1/tasks/{id}", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, c.task()) })
	c.HandleFunc("POST /v1/tasks/{id}/cancel", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{})
		c.print("", aTask(tasks.Cancelled))
	})
	if code := signalled(t.Context(), c.fakeDaemon, signals, io.Discard, io.Discard, "run", "x"); code != 6 {
		t.Errorf("exit code %d, want 6", code)
	}
}

// The task outlives its watcher: when the caller's context ends, nothing is cancelled.
func TestRun_LeavingDoesNotCancel(t *testing.T) {
	t.Parallel()
	c, lines := newCommand(t), make(lineWriter, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	var code int
	var wg sync.WaitGroup
	wg.Go(func() { code = signalled(ctx, c.fakeDaemon, nil, lines, io.Discard, "run", "x") })
	c.print("one\n", nil)
	<-lines
	cancel(errors.New("gone"))
	wg.Wait()
	if code != 1 || len(c.asked) != 0 {
		t.Errorf("exit code %d and %d cancels, want 1 and none", code, len(c.asked))
	}
}

func TestRun_Cut(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.answer("POST /v1/tasks", 201, aTask(tasks.Pending))
	d.answer("GET /v1/tasks/{id}", 200, aTask(tasks.Completed))
	d.HandleFunc("GET /v1/tasks/{id}/output", func(w http.ResponseWriter, _ *http.Request) {
		writeOutput(w, "0123456789", 4, tasks.Completed)
	})
	offstage(t, d, "", "run", "x").want(t, 0, "456789", "4 bytes of output are no longer kept")
}
