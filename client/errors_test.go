package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"offstage/client"
	"offstage/tasks"
)

// get is the error of a Get from a server that answers with h.
func get(t *testing.T, h http.HandlerFunc) error {
	t.Helper()
	_, err := open(t, h, client.Options{}).Get(t.Context(), ref())
	if err == nil {
		t.Fatal("Get succeeded, want an error")
	}
	return err
}

func TestError_Sentinels(t *testing.T) {
	t.Parallel()
	for _, code := range tasks.Codes() {
		t.Run(code.Code, func(t *testing.T) {
			err := get(t, func(w http.ResponseWriter, _ *http.Request) {
				refuse(w, code.Status, map[string]any{"code": code.Code, "title": "No", "detail": "not today"})
			})
			want := code.Err
			if errors.Is(want, tasks.ErrNotOwner) {
				want = tasks.ErrNotFound // a foreign task looks absent
			}
			if !errors.Is(err, want) {
				t.Errorf("Get = %v, want errors.Is %v", err, want)
			}
			e, ok := errors.AsType[*client.Error](err)
			if !ok || e.Status != code.Status || e.Code != code.Code {
				t.Errorf("Get = %#v, want an *Error with status %d and code %q", err, code.Status, code.Code)
			}
		})
	}
}

func TestError_Members(t *testing.T) {
	t.Parallel()
	err := get(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		refuse(w, 400, map[string]any{"type": "about:blank", "title": "Invalid", "code": "invalid",
			"detail": "is -1", "field": "max_retries", "hint": "0 to 1000", "request_id": "r1"})
	})
	want := &client.Error{Status: 400, Code: "invalid", Field: "max_retries", Detail: "is -1", Hint: "0 to 1000",
		RequestID: "r1", RetryAfter: 7 * time.Second}
	got, _ := errors.AsType[*client.Error](err)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(client.Error{})); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if got, want := err.Error(), "max_retries: is -1 (0 to 1000)"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
}

func TestError_TextDoesNotRepeatItself(t *testing.T) {
	t.Parallel()
	e := &client.Error{Detail: "max_retries: is -1 (0 to 1000)", Field: "max_retries", Hint: "0 to 1000"}
	if got, want := e.Error(), "max_retries: is -1 (0 to 1000)"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
}

func TestError_Terminated(t *testing.T) {
	t.Parallel()
	err := get(t, func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, 409, map[string]any{"code": "terminated", "detail": "has ended", "task_status": "completed"})
	})
	e, ok := errors.AsType[*tasks.TerminatedError](err)
	if !ok || e.Status != tasks.Completed || !errors.Is(err, tasks.ErrTerminated) {
		t.Errorf("Get = %v, want a *TerminatedError with status completed", err)
	}
}

func TestError_WithoutProblem(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]error{
		401: client.ErrUnauthorized, 502: client.ErrUnreachable, 503: client.ErrUnreachable, 504: client.ErrUnreachable,
	} {
		err := get(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", status) })
		if !errors.Is(err, want) {
			t.Errorf("status %d: Get = %v, want %v", status, err, want)
		}
	}
	err := get(t, http.NotFound)
	if errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("a foreign server's 404 = %v, want no ErrNotFound", err)
	}
	if !strings.Contains(err.Error(), "is it an offstage daemon?") {
		t.Errorf("a foreign server's 404 = %q, want the way out", err)
	}
}

func TestError_Unauthorized(t *testing.T) {
	t.Parallel()
	err := get(t, func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, 401, map[string]any{"code": "unauthorized", "detail": "a token is needed"})
	})
	if !errors.Is(err, client.ErrUnauthorized) {
		t.Errorf("Get = %v, want ErrUnauthorized", err)
	}
}

func TestError_Redirect(t *testing.T) {
	t.Parallel()
	err := get(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.test/", http.StatusFound)
	})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != 302 {
		t.Errorf("Get = %v, want the redirect as an *Error", err)
	}
}

func TestError_NotJSON(t *testing.T) {
	t.Parallel()
	err := get(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	if !strings.Contains(err.Error(), "not what offstage sends") {
		t.Errorf("Get = %v, want a complaint about the answer", err)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	server := "http://" + closedPort(t)
	c, err := client.New(server, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Get(t.Context(), ref())
	if !errors.Is(err, client.ErrUnreachable) {
		t.Fatalf("Get = %v, want ErrUnreachable", err)
	}
	want := "offstage at " + server + ": connection refused " +
		"(is the daemon running? start it with 'offstage serve', or set --server)"
	if err.Error() != want {
		t.Errorf("text = %q, want %q", err, want)
	}
}

func TestUnreachable_Hangs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	c := open(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}, client.Options{Timeout: 20 * time.Millisecond})
	defer close(release)
	_, err := c.Get(t.Context(), ref())
	if !errors.Is(err, client.ErrUnreachable) || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("Get from a hung server = %v, want ErrUnreachable, no answer in time", err)
	}
}

func TestUnreachable_NotWhenTheCallerGivesUp(t *testing.T) {
	t.Parallel()
	c := open(t, func(http.ResponseWriter, *http.Request) {}, client.Options{})
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if _, err := c.Get(ctx, ref()); !errors.Is(err, enough) || errors.Is(err, client.ErrUnreachable) {
		t.Errorf("Get = %v, want the caller's cause only", err)
	}
}

func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "127.0.0.1:8484", "ftp://x", "http://", "http://u:p@x", "http://x?q=1", "http://x y"} {
		_, err := client.New(base, client.Options{})
		if e, ok := errors.AsType[*tasks.InvalidError](err); !ok || e.Field != "server" {
			t.Errorf("New(%q) = %v, want an *InvalidError about server", base, err)
		}
	}
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
