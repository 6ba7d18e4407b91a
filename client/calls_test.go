package client_test

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"offstage/client"
	"offstage/tasks"
)

// TestClient_Requests holds what each call sends and what it makes of the answer.
func TestClient_Requests(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		call   func(*testing.T, *client.Client) (any, error)
		status int
		answer any
		sent   string
		want   any
	}{
		{"Get", func(t *testing.T, c *client.Client) (any, error) { return c.Get(t.Context(), ref()) },
			200, aTask(tasks.Failed), "GET /v1/tasks/default.01abc?owner=o ", aTask(tasks.Failed)},
		{"GetByHandle", func(t *testing.T, c *client.Client) (any, error) {
			return c.Get(t.Context(), tasks.Ref{ID: "a/b?c", Owner: "é"})
		}, 200, aTask(tasks.Failed), "GET /v1/tasks/a%2Fb%3Fc?owner=%C3%A9 ", aTask(tasks.Failed)},
		{"Cancel", func(t *testing.T, c *client.Client) (any, error) {
			return c.Cancel(t.Context(), ref(), client.CancelOptions{Reason: "r"})
		}, 200, map[string]any{"cancelled": 1, "tasks": []tasks.Change{{ID: "x", From: tasks.Running, To: tasks.Cancelled}}},
			`POST /v1/tasks/default.01abc/cancel?owner=o {"reason":"r"}`,
			[]tasks.Change{{ID: "x", From: tasks.Running, To: tasks.Cancelled}}},
		{"Retry", func(t *testing.T, c *client.Client) (any, error) { return c.Retry(t.Context(), ref()) },
			200, aTask(tasks.Pending), "POST /v1/tasks/default.01abc/retry?owner=o ", aTask(tasks.Pending)},
		{"Delete", func(t *testing.T, c *client.Client) (any, error) { return nil, c.Delete(t.Context(), ref()) },
			204, nil, "DELETE /v1/tasks/default.01abc?owner=o ", nil},
		{"Events", func(t *testing.T, c *client.Client) (any, error) { return c.Events(t.Context(), ref(), 3, 10) },
			200, map[string]any{"events": []tasks.Event{{Seq: 4, Kind: tasks.EventRunning}}},
			"GET /v1/tasks/default.01abc/events?after=3&limit=10&owner=o ",
			[]tasks.Event{{Seq: 4, Kind: tasks.EventRunning}}},
		{"Queues", func(t *testing.T, c *client.Client) (any, error) { return c.Queues(t.Context()) },
			200, map[string]any{"queues": []any{map[string]any{"name": "default", "backlog": 2, "oldest_pending_age": "3s"}}},
			"GET /v1/queues ", []client.QueueInfo{{Name: "default", Backlog: 2, OldestPendingAge: 3e9}}},
		{"Queue", func(t *testing.T, c *client.Client) (any, error) { return c.Queue(t.Context(), "mail") },
			200, map[string]any{"name": "mail", "paused": true, "counts": map[string]int{"running": 1}},
			"GET /v1/queues/mail ",
			&client.QueueInfo{Name: "mail", Paused: true, Counts: map[tasks.Status]int64{tasks.Running: 1}}},
		{"Pause", func(t *testing.T, c *client.Client) (any, error) { return nil, c.Pause(t.Context(), "mail") },
			200, map[string]any{}, "POST /v1/queues/mail/pause ", nil},
		{"Resume", func(t *testing.T, c *client.Client) (any, error) { return nil, c.Resume(t.Context(), "mail") },
			204, nil, "POST /v1/queues/mail/resume ", nil},
		{"Workers", func(t *testing.T, c *client.Client) (any, error) { return c.Workers(t.Context()) },
			200, map[string]any{"workers": []any{map[string]any{"id": "w", "pid": 7}}},
			"GET /v1/workers ", []client.WorkerInfo{{ID: "w", PID: 7}}},
		{"Live", func(t *testing.T, c *client.Client) (any, error) { return nil, c.Live(t.Context()) },
			200, "ok", "GET /livez ", nil},
		{"Ready", func(t *testing.T, c *client.Client) (any, error) { return c.Ready(t.Context()) },
			200, client.Health{Ready: true, Redis: "ok", Durability: "always"}, "GET /readyz ",
			&client.Health{Ready: true, Redis: "ok", Durability: "always"}},
		{"NotReady", func(t *testing.T, c *client.Client) (any, error) { return c.Ready(t.Context()) },
			503, client.Health{Redis: "refused", Problems: []string{"redis: refused"}}, "GET /readyz ",
			&client.Health{Redis: "refused", Problems: []string{"redis: refused"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var sent string
			c := open(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				sent = r.Method + " " + r.URL.RequestURI() + " " + string(b)
				reply(w, tt.status, tt.answer)
			}, client.Options{})
			got, err := tt.call(t, c)
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			if sent != tt.sent {
				t.Errorf("sent %q, want %q", sent, tt.sent)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.name, diff)
			}
		})
	}
}

func TestClient_List(t *testing.T) {
	t.Parallel()
	var sent string
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		sent = r.URL.RawQuery
		reply(w, 200, client.Page{Tasks: []*tasks.Task{aTask(tasks.Running)}, NextPageToken: "t2"})
	}, client.Options{})
	got, err := c.List(t.Context(), client.Filter{Owner: "o", Statuses: []tasks.Status{tasks.Running, tasks.Pending},
		Type: "ty", Queue: "q", Parent: "p", PageSize: 5, PageToken: "t1"})
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	if want := "owner=o&page_size=5&page_token=t1&parent=p&queue=q&status=running&status=pending&type=ty"; sent != want {
		t.Errorf("sent %s, want %s", sent, want)
	}
	if len(got.Tasks) != 1 || got.NextPageToken != "t2" {
		t.Errorf("List = %+v, want one task and token t2", got)
	}
}

func TestClient_All(t *testing.T) {
	t.Parallel()
	pages := 0
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		token := r.URL.Query().Get("page_token")
		if want := []string{"", "1", "2"}[pages]; token != want {
			t.Errorf("page %d asked with token %q, want %q", pages, token, want)
		}
		pages++
		p := client.Page{Tasks: []*tasks.Task{{ID: "t" + strconv.Itoa(pages)}}, NextPageToken: strconv.Itoa(pages)}
		switch pages {
		case 2: // a short page is not the last one
			p.Tasks = nil
		case 3:
			p.NextPageToken = ""
		}
		reply(w, 200, p)
	}, client.Options{})
	var got []string
	for task, err := range c.All(t.Context(), client.Filter{}) {
		if err != nil {
			t.Fatalf("All: %v", err)
		}
		got = append(got, task.ID)
	}
	if diff := cmp.Diff([]string{"t1", "t3"}, got); diff != "" {
		t.Errorf("All (-want +got):\n%s", diff)
	}
}

func TestClient_All_Error(t *testing.T) {
	t.Parallel()
	c := open(t, func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, 400, map[string]any{"code": "invalid", "field": "page_token", "detail": "page_token: is not a token"})
	}, client.Options{})
	n := 0
	for task, err := range c.All(t.Context(), client.Filter{}) {
		n++
		if task != nil || !errors.Is(err, tasks.ErrInvalid) {
			t.Errorf("All = %v, %v, want nil, ErrInvalid", task, err)
		}
	}
	if n != 1 {
		t.Errorf("All gave %d items, want the one error", n)
	}
}

func TestClient_RefusesOddNames(t *testing.T) {
	t.Parallel()
	c := open(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("sent %s", r.URL) }, client.Options{})
	for _, id := range []string{"", ".", ".."} {
		if _, err := c.Get(t.Context(), tasks.Ref{ID: id}); !errors.Is(err, tasks.ErrInvalid) {
			t.Errorf("Get(%q) = %v, want ErrInvalid", id, err)
		}
	}
	if err := c.Pause(t.Context(), "../x"); !errors.Is(err, tasks.ErrInvalid) {
		t.Errorf("Pause = %v, want ErrInvalid", err)
	}
}

func TestClient_Ready_Stranger(t *testing.T) {
	t.Parallel()
	c := open(t, http.NotFound, client.Options{})
	if h, err := c.Ready(t.Context()); err == nil {
		t.Errorf("Ready of a stranger = %+v, want an error", h)
	}
}
