package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/tasks"
)

func TestTaskGet(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	failed := failedExec(3)
	failed.Name, failed.Metadata = "nightly", map[string]string{"team": "a"}
	failed.Payload = json.RawMessage(`{"argv":["sh"]}`)
	failed.Output = strings.Repeat("x\n", 30) + "\x1b[31mred\n"
	failed.StartedAt, failed.CompletedAt = tasks.At(time.Now().Add(-3*time.Second)), tasks.At(time.Now())
	d.answer("GET /v1/tasks/default.01abc", 200, failed)
	g := offstage(t, d, "", "task", "get", anID)
	g.want(t, 0, "failed (exit code 3)", "")
	for _, want := range []string{"default.01abc (bg_0)", "nightly", "team=a", "error: exit status 3", "max_retries 3",
		"s ago)", "ran 3", "failed attempts\n  1  ", `{"argv":["sh"]}`, "the end of it", "\ufffd[31mred"} {
		if !strings.Contains(g.stdout, want) {
			t.Errorf("the card lacks %q", want)
		}
	}
	if n := strings.Count(g.stdout, "\n  x"); n != 19 {
		t.Errorf("the card has %d lines of x, want 19", n)
	}
	if t.Failed() {
		t.Log(g.stdout)
	}
	if want := []string{"GET /v1/tasks/default.01abc"}; !cmp.Equal(want, d.sent()) {
		t.Errorf("sent %q, want %q: an id needs no owner", d.sent(), want)
	}
}

func TestTaskGet_JSON(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.answer("GET /v1/tasks/bg_0", 200, failedExec(3))
	g := offstage(t, d, "", "task", "get", "bg_0", "-o", "json")
	var task tasks.Task
	if err := json.Unmarshal([]byte(g.stdout), &task); err != nil || task.Status != tasks.Failed {
		t.Errorf("stdout %s: %v, want a failed task", g.stdout, err)
	}
	if want := []string{"GET /v1/tasks/bg_0?owner=cli"}; !cmp.Equal(want, d.sent()) {
		t.Errorf("sent %q, want %q", d.sent(), want)
	}
}

func TestTaskGet_NotFound(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.answer("GET /v1/tasks/{id}", 404, map[string]any{"code": "not_found", "title": "no such task"})
	offstage(t, d, "", "task", "get", anID).want(t, 3, "", "offstage: default.01abc: no such task\n")
	offstage(t, d, "", "task", "get", "bg_7", "--owner=me").want(t, 3, "", "bg_7: no such task of owner me (--owner names another)")
}

func TestTask_Usage(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	offstage(t, d, "", "task", "get").want(t, 2, "", "accepts 1 arg(s), received 0 (see 'offstage task get --help')")
	offstage(t, d, "", "task", "bogus").want(t, 2, "", `unknown command "bogus" for "offstage task"`)
	offstage(t, d, "", "task").want(t, 2, "", "Usage:")
	offstage(t, d, "", "enqeue").want(t, 2, "", `unknown command "enqeue" for "offstage"`)
	offstage(t, d, "", "task", "list", "--status=done").want(t, 2, "", `--status "done"`)
	offstage(t, d, "", "task", "get", "..").want(t, 2, "", "is not a task")
	offstage(t, d, "", "--server=localhost:1", "task", "list").want(t, 2, "", "--server: is not an http or https URL")
}

func TestTaskList(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.HandleFunc("GET /v1/tasks", func(w http.ResponseWriter, r *http.Request) {
		one, two := aTask(tasks.Running), aTask(tasks.Failed)
		two.Name, two.Attempt = "n\x1b", 2
		if r.URL.Query().Get("page_token") == "" {
			reply(w, 200, map[string]any{"tasks": []*tasks.Task{one}, "next_page_token": "x"})
			return
		}
		reply(w, 200, map[string]any{"tasks": []*tasks.Task{two}})
	})
	g := offstage(t, d, "", "task", "list", "--status=running,failed", "--type=email", "--queue=default")
	want := "ID             HANDLE  STATUS   TYPE   AGE  ATTEMPT  NAME\n" +
		"default.01abc  bg_0    running  email  5s   0        \n" +
		"default.01abc  bg_0    failed   email  5s   2        n\ufffd\n"
	if diff := cmp.Diff(want, g.stdout); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
	if want := "GET /v1/tasks?owner=cli&page_size=50&queue=default&status=running&status=failed&type=email"; d.sent()[0] != want {
		t.Errorf("sent %q, want %q", d.sent()[0], want)
	}
	offstage(t, d, "", "task", "list", "--limit=1").want(t, 0, "running", "there are more")
	offstage(t, d, "", "task", "list", "-A").want(t, 0, "OWNER", "")
}

func TestTaskList_Empty(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.answer("GET /v1/tasks", 200, map[string]any{"tasks": []any{}})
	offstage(t, d, "", "task", "list").want(t, 0, "", "no tasks of owner cli")
	if g := offstage(t, d, "", "task", "list", "-o", "json"); g.stdout != "[]\n" || g.stderr != "" {
		t.Errorf("stdout %q, stderr %q, want an empty array", g.stdout, g.stderr)
	}
}

func TestTaskWatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		end  *tasks.Task
		code int
	}{{aTask(tasks.Completed), 0}, {failedExec(3), 5}, {aTask(tasks.Cancelled), 6}} {
		c := newCommand(t)
		c.print("hello\n", tt.end)
		g := offstage(t, c.fakeDaemon, "", "task", "watch", anID)
		g.want(t, tt.code, "hello\n", "offstage: default.01abc "+string(tt.end.Status))
		if g.stdout != "hello\n" {
			t.Errorf("stdout %q, want the output only", g.stdout)
		}
	}
}

func TestTaskWatch_SaysWhatChanges(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	var looks atomic.Int64
	running, retrying := aTask(tasks.Running), failedExec(1)
	running.Attempt, running.Progress = 1, 0.5
	retrying.Status = tasks.Retrying
	states := []*tasks.Task{running, retrying, aTask(tasks.Completed)}
	d.HandleFunc("GET /v1/tasks/{id}/output", func(w http.ResponseWriter, _ *http.Request) {
		writeOutput(w, "", 0, states[min(looks.Load(), 2)].Status)
	})
	d.HandleFunc("GET /v1/tasks/{id}", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, states[min(looks.Add(1)-1, 2)])
	})
	g := offstage(t, d, "", "task", "watch", anID)
	for _, want := range []string{"running, attempt 1, 50 %\n", "retrying, attempt 1: exit status 1, next at ", " completed\n"} {
		if !strings.Contains(g.stderr, want) {
			t.Errorf("stderr %q lacks %q", g.stderr, want)
		}
	}
}

func TestTaskOutput(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.HandleFunc("GET /v1/tasks/{id}/output", func(w http.ResponseWriter, r *http.Request) {
		offset, _ := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
		text := "0123456789"
		w.Header().Set("Offstage-Output-Offset", strconv.FormatInt(offset, 10))
		w.Header().Set("Offstage-Output-Total", "10")
		w.Header().Set("Offstage-Output-Next", strconv.FormatInt(min(offset+4, 10), 10))
		w.Header().Set("Offstage-Task-Status", "running")
		_, _ = w.Write([]byte(text[offset:min(offset+4, 10)]))
	})
	g := offstage(t, d, "", "task", "output", anID)
	g.want(t, 0, "0123456789", "")
	if n := len(d.sent()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
	offstage(t, d, "", "task", "output", anID, "--offset=8").want(t, 0, "89", "")
}

func TestTaskOutput_Follow(t *testing.T) {
	t.Parallel()
	c := newCommand(t)
	c.print("hello\n", failedExec(1))
	offstage(t, c.fakeDaemon, "", "task", "output", "-f", anID).want(t, 0, "hello\n", "")
}

func TestTaskCancel(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.answer("POST /v1/tasks/default.a/cancel", 200, map[string]any{"cancelled": 1,
		"tasks": []tasks.Change{{ID: "default.a", From: tasks.Running, To: tasks.Cancelled}}})
	d.answer("POST /v1/tasks/default.b/cancel", 200, map[string]any{"cancelled": 0, "tasks": []any{}})
	d.refuse("POST /v1/tasks/default.c/cancel", 404, "not_found", "no such task")
	offstage(t, d, "", "task", "cancel", "default.a", "--reason=enough").want(t, 0, "default.a  running -> cancelled\n", "")
	if want := `POST /v1/tasks/default.a/cancel {"reason":"enough"}`; d.sent()[0] != want {
		t.Errorf("sent %q, want %q", d.sent()[0], want)
	}
	offstage(t, d, "", "task", "cancel", "default.b").want(t, 0, "", "default.b had ended already")
	offstage(t, d, "", "task", "cancel", "default.c", "default.a").want(t, 3, "default.a", "default.c: no such task")
	offstage(t, d, "", "task", "cancel", "default.a", "-o", "json").want(t, 0, `"cancelled": 1`, "")
}

func TestTaskRetry(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.answer("POST /v1/tasks/default.a/retry", 200, aTask(tasks.Pending))
	d.answer("POST /v1/tasks/default.b/retry", 409, map[string]any{"code": "terminated", "detail": "task has ended: completed",
		"task_status": "completed"})
	offstage(t, d, "", "task", "retry", "default.a").want(t, 0, anID+"  pending\n", "")
	offstage(t, d, "", "task", "retry", "default.b").want(t, 4, "", "offstage: default.b: task has ended: completed\n")
}

func TestTaskDelete(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.answer("DELETE /v1/tasks/default.a", 204, nil)
	d.refuse("DELETE /v1/tasks/default.b", 409, "not_terminated", "task has not ended")
	offstage(t, d, "", "task", "delete", "default.a").want(t, 0, "", "deleted default.a")
	offstage(t, d, "", "task", "delete", "default.b").want(t, 4, "", "default.b: task has not ended")
}
