package api_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/api"
	"offstage/queue"
	"offstage/tasks"
)

func TestServer_Get(t *testing.T) {
	t.Parallel()
	s := serverOf(t, newFake(task("default.x", tasks.Running)), api.Config{})

	res := call(t, s, "GET", "/v1/tasks/default.x", "")
	wantStatus(t, res, 200)
	if got := res.Header.Get("ETag"); got != `"v7"` {
		t.Errorf(`ETag = %s, want "v7"`, got)
	}
	if got := read[tasks.Task](t, res).ID; got != "default.x" {
		t.Errorf("id = %q, want default.x", got)
	}
	wantStatus(t, call(t, s, "HEAD", "/v1/tasks/default.x", ""), 200)
	wantStatus(t, call(t, s, "GET", "/v1/tasks/bg_0?owner=o", ""), 200)
	wantStatus(t, call(t, s, "GET", "/v1/tasks/default.x?owner=o", ""), 200)
}

// A foreign task looks exactly like an absent one (promise P10).
func TestServer_GetForeignLooksAbsent(t *testing.T) {
	t.Parallel()
	s := serverOf(t, newFake(task("default.x", tasks.Running)), api.Config{})
	foreign := wantProblem(t, call(t, s, "GET", "/v1/tasks/default.x?owner=p", ""), 404, "not_found", "")
	absent := wantProblem(t, call(t, s, "GET", "/v1/tasks/default.y?owner=p", ""), 404, "not_found", "")
	foreign.RequestID, absent.RequestID = "", ""
	if diff := cmp.Diff(absent, foreign); diff != "" {
		t.Errorf("a foreign task can be told from an absent one (-absent +foreign):\n%s", diff)
	}
}

func TestServer_GetConditional(t *testing.T) {
	t.Parallel()
	s := serverOf(t, newFake(task("default.x", tasks.Running)), api.Config{})
	for match, want := range map[string]int{
		`"v7"`: 304, `W/"v7"`: 304, `"v1", "v7"`: 304, `*`: 304, `"v6"`: 200, `v7`: 200, ``: 200,
	} {
		res := call(t, s, "GET", "/v1/tasks/default.x", "", "If-None-Match: "+match)
		wantStatus(t, res, want)
		if body := text(t, res); want == 304 && (body != "" || res.Header.Get("ETag") != `"v7"`) {
			t.Errorf("304 has body %q and ETag %s", body, res.Header.Get("ETag"))
		}
	}
}

func TestServer_GetWait(t *testing.T) {
	t.Parallel()
	s := serverOf(t, newFake(task("default.run", tasks.Running), task("default.end", tasks.Completed)), api.Config{})
	start := time.Now()
	wantStatus(t, call(t, s, "GET", "/v1/tasks/default.end?wait=1m", ""), 200)
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("waited %s for a task that had ended", d)
	}
	res := call(t, s, "GET", "/v1/tasks/default.run?wait=10ms", "")
	wantStatus(t, res, 200)
	if got := read[tasks.Task](t, res).Status; got != tasks.Running {
		t.Errorf("status = %q, want running", got)
	}
}

func TestServer_List(t *testing.T) {
	t.Parallel()
	q := newFake(task("default.x", tasks.Running))
	q.next = "token"
	s := serverOf(t, q, api.Config{})
	res := call(t, s, "GET", "/v1/tasks?owner=o&status=running,pending&status=failed&status=running&type=t&parent=p&"+
		"queue=default&page_size=20&page_token=pt", "")
	wantStatus(t, res, 200)
	page := read[queue.Page](t, res)
	if len(page.Tasks) != 1 || page.NextPageToken != "token" {
		t.Errorf("page = %+v, want one task and token", page)
	}
	want := queue.Filter{Owner: "o", Statuses: []tasks.Status{tasks.Running, tasks.Pending, tasks.Failed}, Type: "t",
		Parent: "p", Queue: "default", PageSize: 20, PageToken: "pt"}
	if diff := cmp.Diff(want, q.filter); diff != "" {
		t.Errorf("filter (-want +got):\n%s", diff)
	}
	empty := text(t, call(t, serverOf(t, newFake(), api.Config{}), "GET", "/v1/tasks", ""))
	if empty != `{"tasks":[]}`+"\n" {
		t.Errorf("empty list = %s, want tasks to be []", empty)
	}
}

func TestServer_RefusesParameters(t *testing.T) {
	t.Parallel()
	s := serverOf(t, newFake(task("default.x", tasks.Completed)), api.Config{})
	for target, field := range map[string]string{
		"GET /v1/tasks?ownr=o":                          "ownr",
		"GET /v1/tasks?status=done":                     "status",
		"GET /v1/tasks?status=":                         "status",
		"GET /v1/tasks?page_size=0":                     "page_size",
		"GET /v1/tasks?page_size=1e3":                   "page_size",
		"GET /v1/tasks?queue=a.b":                       "queue",
		"GET /v1/tasks?owner=a&owner=b":                 "owner",
		"GET /v1/tasks?owner=%zz":                       "query",
		"GET /v1/tasks/default.x?wait=5":                "wait",
		"GET /v1/tasks/default.x?wait=6m":               "wait",
		"GET /v1/tasks/default.x?wait=-1s":              "wait",
		"GET /v1/tasks/default.x/output?offset=-1":      "offset",
		"GET /v1/tasks/default.x/output?limit=99999999": "limit",
		"GET /v1/tasks/default.x/events?after=x":        "after",
		"GET /v1/tasks/default.x/events?limit=0":        "limit",
		"GET /v1/queues?x=1":                            "x",
		"GET /v1/queues/a.b":                            "queue",
		"GET /v1/workers?x=1":                           "x",
		"POST /v1/tasks?x=1":                            "x",
		"POST /v1/tasks/default.x/cancel?tree=true":     "tree",
		"DELETE /v1/tasks/default.x?force=1":            "force",
	} {
		method, path, _ := strings.Cut(target, " ")
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			wantProblem(t, call(t, s, method, path, ""), 400, "invalid", field)
		})
	}
}

func TestServer_Cancel(t *testing.T) {
	t.Parallel()
	q := newFake(task("default.run", tasks.Running), task("default.end", tasks.Failed))
	s := serverOf(t, q, api.Config{})

	res := call(t, s, "POST", "/v1/tasks/default.run/cancel?owner=o", `{"reason":"enough","tree":false}`)
	wantStatus(t, res, 200)
	if got, want := text(t, res), `{"cancelled":1,"tasks":[{"id":"default.run","from":"running","to":"cancelled"}]}`; got != want+"\n" {
		t.Errorf("cancel = %s, want %s", got, want)
	}
	if q.cancels.Reason != "enough" {
		t.Errorf("reason = %q, want enough", q.cancels.Reason)
	}
	res = call(t, s, "POST", "/v1/tasks/default.end/cancel", "")
	wantStatus(t, res, 200)
	if got, want := text(t, res), `{"cancelled":0,"tasks":[]}`; got != want+"\n" {
		t.Errorf("cancel of an ended task = %s, want %s", got, want)
	}
}

func TestServer_CancelRefuses(t *testing.T) {
	t.Parallel()
	s := serverOf(t, newFake(task("default.run", tasks.Running)), api.Config{})
	for body, field := range map[string]string{
		`{"tree":true}`: "tree", `{"why":"x"}`: "why", `{"Reason":"x"}`: "Reason", `{"reason":3}`: "reason", `{`: "body",
		`{"reason":"` + strings.Repeat("x", 1025) + `"}`: "reason", `{"reason":"\u0000"}`: "reason",
	} {
		wantProblem(t, call(t, s, "POST", "/v1/tasks/default.run/cancel", body), 400, "invalid", field)
	}
	wantProblem(t, call(t, s, "POST", "/v1/tasks/default.no/cancel", ""), 404, "not_found", "")
	wantProblem(t, call(t, s, "POST", "/v1/tasks/default.run/cancel", "{}", "Content-Type: text/plain"), 415,
		"unsupported_media_type", "")
}

func TestServer_RetryAndDelete(t *testing.T) {
	t.Parallel()
	s := serverOf(t, newFake(task("default.run", tasks.Running), task("default.fail", tasks.Failed),
		task("default.done", tasks.Completed)), api.Config{})

	wantStatus(t, call(t, s, "POST", "/v1/tasks/default.fail/retry", ""), 200)
	wantProblem(t, call(t, s, "POST", "/v1/tasks/default.run/retry", ""), 409, "not_terminated", "")
	p := wantProblem(t, call(t, s, "POST", "/v1/tasks/default.done/retry", "{}"), 409, "terminated", "")
	if p.TaskStatus != tasks.Completed {
		t.Errorf("task_status = %q, want completed", p.TaskStatus)
	}
	wantProblem(t, call(t, s, "POST", "/v1/tasks/default.fail/retry", `{"now":1}`), 400, "invalid", "now")

	res := call(t, s, "DELETE", "/v1/tasks/default.done", "")
	wantStatus(t, res, 204)
	if body := text(t, res); body != "" {
		t.Errorf("204 has body %q", body)
	}
	wantProblem(t, call(t, s, "DELETE", "/v1/tasks/default.run", ""), 409, "not_terminated", "")
}

func TestServer_Output(t *testing.T) {
	t.Parallel()
	q := newFake(task("default.x", tasks.Running))
	q.out = &queue.Output{Text: "<é>\n", Offset: 10, Next: 15, Total: 20, Status: tasks.Running}
	s := serverOf(t, q, api.Config{})
	res := call(t, s, "GET", "/v1/tasks/default.x/output?offset=3&limit=100", "")
	wantStatus(t, res, 200)
	if got := text(t, res); got != "<é>\n" {
		t.Errorf("body = %q, want the text", got)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/plain; charset=utf-8", "Offstage-Output-Offset": "10", "Offstage-Output-Next": "15",
		"Offstage-Output-Total": "20", "Offstage-Task-Status": "running", "X-Content-Type-Options": "nosniff",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if want := (outputArgs{3, 100, 0}); q.asked != want {
		t.Errorf("asked for %+v, want %+v", q.asked, want)
	}
	wantStatus(t, call(t, s, "GET", "/v1/tasks/default.x/output?wait=1ms", ""), 200)
	if want := (outputArgs{-1, 64 << 10, time.Millisecond}); q.asked != want {
		t.Errorf("asked for %+v, want %+v", q.asked, want)
	}
}

func TestServer_Events(t *testing.T) {
	t.Parallel()
	q := newFake(task("default.x", tasks.Running))
	for seq := range int64(5) {
		q.events = append(q.events, tasks.Event{Seq: seq + 1, Kind: tasks.EventProgress})
	}
	s := serverOf(t, q, api.Config{})
	type page struct {
		Events    []tasks.Event
		NextAfter int64 `json:"next_after"`
	}
	got := read[page](t, call(t, s, "GET", "/v1/tasks/default.x/events?after=1&limit=2", ""))
	if len(got.Events) != 2 || got.Events[0].Seq != 2 || got.NextAfter != 3 {
		t.Errorf("page = %+v, want events 2 and 3, next 3", got)
	}
	if body := text(t, call(t, s, "GET", "/v1/tasks/default.x/events?after=5", "")); body != `{"events":[],"next_after":5}`+"\n" {
		t.Errorf("last page = %s, want no events, next 5", body)
	}
	wantProblem(t, call(t, s, "GET", "/v1/tasks/default.x/events", "", "Accept: text/event-stream"), 406, "not_acceptable", "")
}

func TestServer_Queues(t *testing.T) {
	t.Parallel()
	q := newFake()
	s := serverOf(t, q, api.Config{})
	type list struct{ Queues []queue.Info }
	if got := read[list](t, call(t, s, "GET", "/v1/queues", "")); len(got.Queues) != 1 || got.Queues[0].Name != "default" {
		t.Errorf("queues = %+v, want default", got)
	}
	for _, step := range []struct {
		method, path string
		paused       bool
	}{
		{"POST", "/v1/queues/mail/pause", true}, {"GET", "/v1/queues/mail", true},
		{"POST", "/v1/queues/mail/resume", false}, {"GET", "/v1/queues/mail", false},
	} {
		res := call(t, s, step.method, step.path, "")
		wantStatus(t, res, 200)
		if got := read[queue.Info](t, res); got.Paused != step.paused || got.Name != "mail" {
			t.Errorf("%s %s = %+v, want paused %v", step.method, step.path, got, step.paused)
		}
	}
	if got := text(t, call(t, s, "GET", "/v1/workers", "")); got != `{"workers":[]}`+"\n" {
		t.Errorf("workers = %s, want []", got)
	}
}

func TestServer_QueueUnknown(t *testing.T) {
	t.Parallel()
	q := newFake()
	q.err = fmt.Errorf("%w: no queue", tasks.ErrNotFound)
	s := serverOf(t, q, api.Config{})
	for _, target := range []string{"GET /v1/queues/mail", "POST /v1/queues/mail/pause"} {
		method, path, _ := strings.Cut(target, " ")
		if p := wantProblem(t, call(t, s, method, path, ""), 404, "not_found", ""); p.Title != "no such queue" {
			t.Errorf("%s: title = %q, want it to be about a queue", target, p.Title)
		}
	}
}

func TestServer_EveryConditionHasItsStatus(t *testing.T) {
	t.Parallel()
	for _, c := range tasks.Codes() {
		q := newFake()
		q.err = fmt.Errorf("get default.x: %w", c.Err)
		res := call(t, serverOf(t, q, api.Config{}), "GET", "/v1/tasks/default.x", "")
		wantProblem(t, res, c.Status, c.Code, "")
	}
	q := newFake()
	q.err = errors.New("the secret address is 10.0.0.1")
	p := wantProblem(t, call(t, serverOf(t, q, api.Config{}), "GET", "/v1/tasks/default.x", ""), 500, "internal", "")
	if strings.Contains(p.Detail, "10.0.0.1") {
		t.Errorf("detail = %q, want nothing of the error in it", p.Detail)
	}
}
