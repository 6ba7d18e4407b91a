package client_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"offstage/client"
	"offstage/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open starts a server for h and makes a client of it.
func open(t *testing.T, h http.HandlerFunc, o client.Options) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	c, err := client.New(s.URL, o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		s.Close()
	})
	return c
}

// reply writes v as JSON.
func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// refuse writes a problem document.
func refuse(w http.ResponseWriter, status int, members map[string]any) {
	members["status"] = status
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(members)
}

func aTask(status tasks.Status) *tasks.Task {
	return &tasks.Task{ID: "default.01abc", Handle: "bg_0", Owner: "o", Type: "email", Queue: "default", Status: status}
}

func ref() tasks.Ref { return tasks.Ref{ID: "default.01abc", Owner: "o"} }

// roundTripper is a server without a network, for tests that fake the time.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// offline makes a client whose requests are answered by h in the same goroutine.
func offline(t *testing.T, o client.Options, h func(http.ResponseWriter, *http.Request) error) *client.Client {
	t.Helper()
	o.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		if err := h(w, r); err != nil {
			return nil, err
		}
		if r.Body != nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
		}
		return w.Result(), nil
	})}
	c, err := client.New("http://offstage.test", o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return c
}
