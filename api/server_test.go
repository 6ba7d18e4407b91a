package api_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/api"
	"offstage/queue"
	"offstage/tasks"
)

func TestNew_Errors(t *testing.T) {
	t.Parallel()
	if _, err := api.New(api.Config{}); err == nil {
		t.Error("New without a queue = nil error, want one")
	}
}

func TestServer_UnknownRoutes(t *testing.T) {
	t.Parallel()
	s := serverOf(t, newFake(), api.Config{})
	for _, target := range []string{"/", "/v1", "/v1/task", "/v1/tasks/", "/v1/tasks/a/b", "/metrics", "/monitoring/", "/favicon.ico"} {
		wantProblem(t, call(t, s, "GET", target, ""), 404, "route_not_found", "")
	}
	for target, allow := range map[string]string{
		"PUT /v1/tasks": "GET, HEAD, POST", "POST /v1/tasks/default.x": "DELETE, GET, HEAD",
		"GET /v1/tasks/default.x/cancel": "POST", "POST /livez": "GET, HEAD",
	} {
		method, path, _ := strings.Cut(target, " ")
		res := call(t, s, method, path, "")
		if got := res.Header.Get("Allow"); got != allow {
			t.Errorf("%s: Allow = %q, want %q", target, got, allow)
		}
		wantProblem(t, res, 405, "method_not_allowed", "")
	}
}

func TestServer_OptionalRoutes(t *testing.T) {
	t.Parallel()
	say := func(what string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, what) })
	}
	s := serverOf(t, newFake(), api.Config{Metrics: say("metrics"), Monitoring: say("monitoring")})
	for target, want := range map[string]string{
		"/metrics": "metrics", "/monitoring/": "monitoring", "/monitoring/api/queues": "monitoring",
	} {
		if got := text(t, call(t, s, "GET", target, "")); got != want {
			t.Errorf("GET %s = %q, want %q", target, got, want)
		}
	}
	res := call(t, s, "GET", "/monitoring", "")
	if res.StatusCode/100 != 3 || res.Header.Get("Location") != "/monitoring/" {
		t.Errorf("GET /monitoring = %d to %q, want a redirect to /monitoring/", res.StatusCode, res.Header.Get("Location"))
	}
}

func TestServer_RequestID(t *testing.T) {
	t.Parallel()
	s := serverOf(t, newFake(), api.Config{})
	for given, kept := range map[string]bool{
		"abc-1.2_3:4": true, "": false, "a b": false, "a\"b": false, strings.Repeat("x", 65): false, "é": false,
	} {
		got := call(t, s, "GET", "/livez", "", "X-Request-Id: "+given).Header.Get("X-Request-Id")
		if (got == given) != kept || got == "" {
			t.Errorf("X-Request-Id %q became %q, want kept = %v", given, got, kept)
		}
	}
}

func TestServer_Panic(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	q := newFake()
	q.panics = true
	s := serverOf(t, q, api.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p := wantProblem(t, call(t, s, "GET", "/v1/queues", ""), 500, "internal", "")
	for _, want := range []string{"Request panicked", "request_id=" + p.RequestID, "fakeQueue was told to", "operate.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log has no %q:\n%s", want, log.String())
		}
	}
}

func TestServer_AccessLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := serverOf(t, newFake(), api.Config{
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	call(t, s, "GET", "/v1/tasks/default.x?owner=secret", "", "X-Request-Id: rid")
	for _, want := range []string{"level=DEBUG", "request_id=rid", "method=GET", "path=/v1/tasks/default.x", "status=404", "duration="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log has no %q: %s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "secret") || strings.Contains(log.String(), "ERROR") {
		t.Errorf("log has the query or an error: %s", log.String())
	}
}

func TestServer_Health(t *testing.T) {
	t.Parallel()
	q := newFake()
	q.health.Durability = "everysec"
	s := serverOf(t, q, api.Config{Version: "v1"})
	type health struct {
		queue.Health
		Draining bool
		Version  string
	}

	res := call(t, s, "GET", "/readyz?verbose", "")
	wantStatus(t, res, 200)
	want := health{Health: queue.Health{Ready: true, Redis: "ok", Durability: "everysec"}, Version: "v1"}
	if diff := cmp.Diff(want, read[health](t, res)); diff != "" {
		t.Errorf("readyz (-want +got):\n%s", diff)
	}

	s.SetDraining()
	res = call(t, s, "GET", "/readyz", "")
	wantStatus(t, res, 503)
	if got := read[health](t, res); got.Ready || !got.Draining || len(got.Problems) != 1 {
		t.Errorf("readyz while draining = %+v, want not ready with one problem", got)
	}
	wantStatus(t, call(t, s, "GET", "/livez", ""), 200)
}

func TestServer_NotReady(t *testing.T) {
	t.Parallel()
	q := newFake()
	q.health = queue.Health{Redis: "connection refused", Problems: []string{"redis: connection refused"}}
	s := serverOf(t, q, api.Config{})
	wantStatus(t, call(t, s, "GET", "/readyz", ""), 503)
	q.err = errors.New("no answer")
	res := call(t, s, "GET", "/readyz", "")
	wantStatus(t, res, 503)
	if got := read[queue.Health](t, res); got.Ready || got.Redis != "no answer" {
		t.Errorf("readyz = %+v, want the error in redis", got)
	}
	wantStatus(t, call(t, s, "GET", "/livez", ""), 200)
}

// running is a server on a real listener.
type running struct {
	url    string
	stop   context.CancelFunc
	served chan error
}

func start(t *testing.T, s *api.Server) *running {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r := &running{url: "http://" + ln.Addr().String(), stop: stop, served: make(chan error, 1)}
	go func() { r.served <- s.Serve(ctx, ln) }()
	t.Cleanup(stop)
	return r
}

func fetch(t *testing.T, url string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	return http.DefaultClient.Do(req)
}

// A call that waits for a task answers when the server stops, with the task as it is then.
func TestServer_ServeStopsWaits(t *testing.T) {
	t.Parallel()
	q := newFake(task("default.x", tasks.Running))
	q.out = &queue.Output{Text: "so far", Status: tasks.Running}
	r := start(t, serverOf(t, q, api.Config{}))
	type answer struct {
		res *http.Response
		err error
	}
	answers := make(chan answer, 2)
	for _, target := range []string{"/v1/tasks/default.x?wait=5m", "/v1/tasks/default.x/output?wait=5m"} {
		go func() {
			res, err := fetch(t, r.url+target)
			answers <- answer{res, err}
		}()
	}
	select {
	case a := <-answers:
		t.Fatalf("answer before the server stopped: %+v, %v", a.res, a.err)
	case <-time.After(300 * time.Millisecond):
	}
	began := time.Now()
	r.stop()
	for range 2 {
		a := <-answers
		if a.err != nil {
			t.Fatalf("waiting call = %v, want an answer", a.err)
		}
		wantStatus(t, a.res, 200)
		_ = a.res.Body.Close()
	}
	if err := <-r.served; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("stopping took %s", d)
	}
	if _, err := fetch(t, r.url+"/livez"); err == nil {
		t.Error("the server still answers")
	}
}

func TestServer_ServeListenerFails(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	if err := serverOf(t, newFake(), api.Config{}).Serve(t.Context(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve on a closed listener = %v, want net.ErrClosed", err)
	}
}

// A client that goes away ends its own wait and nothing else (promise P9).
func TestServer_ClientGoesAway(t *testing.T) {
	t.Parallel()
	gone := make(chan error, 1)
	q := &leavingQueue{fakeQueue: newFake(), gone: gone, asked: make(chan struct{})}
	s, err := api.New(api.Config{Queue: q})
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, s)
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "GET", r.url+"/v1/tasks/default.x?wait=5m", nil)
	done := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		done <- err
	}()
	<-q.asked
	leave()
	if err := <-done; err == nil {
		t.Error("the request succeeded")
	}
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait's context ended with %v, want context.Canceled", err)
	}
	r.stop()
	<-r.served
}

// A body that does not arrive whole is refused, never answered with a 2xx.
func TestServer_BodyCutOff(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(serverOf(t, newFake(), api.Config{}).Handler())
	srv.Config.ReadTimeout = 200 * time.Millisecond
	srv.Start()
	t.Cleanup(srv.Close)
	for name, tt := range map[string]struct {
		closes bool
		status int
		code   string
		field  string
	}{
		"Stalled": {false, 408, "request_timeout", ""},
		"Closed":  {true, 400, "invalid", "body"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
				"Content-Length: 1000\r\n\r\n"+spec)
			if tt.closes {
				_ = conn.(*net.TCPConn).CloseWrite()
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			wantProblem(t, res, tt.status, tt.code, tt.field)
		})
	}
}

// A call whose client went away is cut, so that nothing on the way takes it for a success.
func TestServer_GoneClientGetsNoAnswer(t *testing.T) {
	t.Parallel()
	q := newFake()
	q.err = fmt.Errorf("enqueue t: %w", context.Canceled)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	req := httptest.NewRequestWithContext(ctx, "POST", "http://localhost/v1/tasks", strings.NewReader(spec))
	req.Header.Set("Content-Type", "application/json")
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("panic = %v, want http.ErrAbortHandler", err)
		}
	}()
	serverOf(t, q, api.Config{}).Handler().ServeHTTP(httptest.NewRecorder(), req)
}

// leavingQueue tells when its Wait began and how its context ended.
type leavingQueue struct {
	*fakeQueue
	asked chan struct{}
	gone  chan error
}

func (q *leavingQueue) Wait(ctx context.Context, _ tasks.Ref, _ time.Duration) (*tasks.Task, error) {
	close(q.asked)
	<-ctx.Done()
	q.gone <- ctx.Err()
	return nil, ctx.Err()
}
