package client_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"offstage/client"
	"offstage/tasks"
)

func TestClient_Enqueue(t *testing.T) {
	t.Parallel()
	var body, key, auth, agent, kind string
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body, key, auth = string(b), r.Header.Get("Idempotency-Key"), r.Header.Get("Authorization")
		agent, kind = r.UserAgent(), r.Header.Get("Content-Type")
		if r.Method != http.MethodPost || r.URL.Path != "/v1/tasks" {
			t.Errorf("request %s %s, want POST /v1/tasks", r.Method, r.URL)
		}
		reply(w, 201, aTask(tasks.Pending))
	}, client.Options{Token: "secret", UserAgent: "me/1"})
	got, created, err := c.Enqueue(t.Context(), tasks.Spec{Type: "email", Owner: "o", Payload: map[string]int{"n": 1},
		IdempotencyKey: "k1"})
	if err != nil || !created {
		t.Fatalf("Enqueue = %t, %v, want created", created, err)
	}
	if diff := cmp.Diff(aTask(tasks.Pending), got); diff != "" {
		t.Errorf("task (-want +got):\n%s", diff)
	}
	if want := `{"type":"email","payload":{"n":1},"owner":"o"}`; body != want {
		t.Errorf("body = %s, want %s", body, want)
	}
	if key != "k1" || auth != "Bearer secret" || agent != "me/1" || kind != "application/json" {
		t.Errorf("headers: key %q, authorization %q, agent %q, type %q", key, auth, agent, kind)
	}
}

func TestClient_Enqueue_SameKey(t *testing.T) {
	t.Parallel()
	c := open(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, aTask(tasks.Running)) }, client.Options{})
	_, created, err := c.Enqueue(t.Context(), tasks.Spec{Type: "email", Owner: "o", IdempotencyKey: "k"})
	if err != nil || created {
		t.Errorf("Enqueue = %t, %v, want not created", created, err)
	}
}

// A request whose answer was lost is sent again with the same key, and the task counts as created by the call.
func TestClient_Enqueue_RepeatsWithOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		c := offline(t, client.Options{}, func(w http.ResponseWriter, r *http.Request) error {
			keys = append(keys, r.Header.Get("Idempotency-Key"))
			if len(keys) < 3 {
				return syscall.ECONNRESET
			}
			reply(w, 200, aTask(tasks.Pending))
			return nil
		})
		_, created, err := c.Enqueue(t.Context(), tasks.Spec{Type: "email", Owner: "o"})
		if err != nil || !created {
			t.Fatalf("Enqueue = %t, %v, want created", created, err)
		}
		if len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] {
			t.Errorf("keys = %q, want one key three times", keys)
		}
	})
}

func TestClient_Enqueue_GivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, heard := 0, 0
		o := client.Options{OnRetry: func(error, time.Duration) { heard++ }}
		c := offline(t, o, func(http.ResponseWriter, *http.Request) error {
			tries++
			return syscall.ECONNREFUSED
		})
		_, _, err := c.Enqueue(t.Context(), tasks.Spec{Type: "email", Owner: "o"})
		if !errors.Is(err, client.ErrUnreachable) || tries != 4 || heard != 3 {
			t.Errorf("Enqueue = %v after %d tries, OnRetry %d times; want ErrUnreachable, 4, 3", err, tries, heard)
		}
	})
}

func TestClient_Enqueue_HonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at time.Duration
		c := offline(t, client.Options{}, func(w http.ResponseWriter, _ *http.Request) error {
			if at = time.Since(start); at == 0 {
				w.Header().Set("Retry-After", "9")
				refuse(w, 503, map[string]any{"code": "unavailable", "detail": "redis is away"})
				return nil
			}
			reply(w, 201, aTask(tasks.Pending))
			return nil
		})
		if _, _, err := c.Enqueue(t.Context(), tasks.Spec{Type: "email", Owner: "o"}); err != nil {
			t.Fatalf("Enqueue: %v", err)
		}
		if at != 9*time.Second {
			t.Errorf("second try after %s, want 9s", at)
		}
	})
}

// A refusal that will not pass is not asked for twice.
func TestClient_Enqueue_DoesNotRepeatARefusal(t *testing.T) {
	t.Parallel()
	tries := 0
	c := open(t, func(w http.ResponseWriter, _ *http.Request) {
		tries++
		refuse(w, 409, map[string]any{"code": "duplicate_name", "detail": "name is in use"})
	}, client.Options{})
	_, _, err := c.Enqueue(t.Context(), tasks.Spec{Type: "email", Owner: "o", Name: "n"})
	if !errors.Is(err, tasks.ErrDuplicateName) || tries != 1 {
		t.Errorf("Enqueue = %v after %d tries, want ErrDuplicateName after 1", err, tries)
	}
}

func TestClient_Enqueue_BadPayload(t *testing.T) {
	t.Parallel()
	c := open(t, func(http.ResponseWriter, *http.Request) { t.Error("was sent") }, client.Options{})
	_, _, err := c.Enqueue(t.Context(), tasks.Spec{Type: "email", Owner: "o", Payload: json.RawMessage("}{")})
	if _, ok := errors.AsType[*tasks.InvalidError](err); !ok {
		t.Errorf("Enqueue = %v, want an *InvalidError", err)
	}
}

func TestClient_EnqueueBatch(t *testing.T) {
	t.Parallel()
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if want := `{"tasks":[{"type":"a","owner":"o"},{"type":"","owner":"o"}]}`; string(b) != want {
			t.Errorf("body = %s, want %s", b, want)
		}
		reply(w, 207, map[string]any{"results": []any{
			map[string]any{"task": aTask(tasks.Pending)},
			map[string]any{"error": map[string]any{"status": 400, "code": "invalid", "detail": "is required", "field": "type"}},
		}})
	}, client.Options{})
	got, err := c.EnqueueBatch(t.Context(), []tasks.Spec{{Type: "a", Owner: "o"}, {Owner: "o"}})
	if err != nil {
		t.Fatalf("EnqueueBatch: %v", err)
	}
	want := []client.BatchResult{{Task: aTask(tasks.Pending)}, {Err: tasks.ErrInvalid}}
	if diff := cmp.Diff(want, got, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestClient_EnqueueBatch_Refuses(t *testing.T) {
	t.Parallel()
	c := open(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]any{"results": []any{}}) },
		client.Options{})
	if _, err := c.EnqueueBatch(t.Context(), []tasks.Spec{{Type: "a", Owner: "o"}}); err == nil {
		t.Error("EnqueueBatch with too few results succeeded, want an error")
	}
	_, err := c.EnqueueBatch(t.Context(), []tasks.Spec{{Type: "a", Owner: "o", IdempotencyKey: "k"}})
	if e, ok := errors.AsType[*tasks.InvalidError](err); !ok || e.Field != "tasks[0].idempotency_key" {
		t.Errorf("EnqueueBatch with a key = %v, want an *InvalidError about it", err)
	}
}
