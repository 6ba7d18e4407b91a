package api_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"offstage/api"
)

func TestDashboard_Page(t *testing.T) {
	t.Parallel()
	s, _ := dashboard(t, true)
	res := call(t, s, "GET", "/monitoring/", "")
	wantStatus(t, res, 200)
	policy := res.Header.Get("Content-Security-Policy")
	for _, want := range []string{"frame-ancestors 'none'", "default-src 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("Content-Security-Policy has no %s: %s", want, policy)
		}
	}
	if n := strings.Count(policy, "'sha256-"); n != 2 {
		t.Errorf("Content-Security-Policy allows %d inline scripts, want asynqmon's two: %s", n, policy)
	}
	script, _, _ := strings.Cut(policy[strings.Index(policy, "script-src"):], ";")
	if strings.Contains(script, "unsafe") {
		t.Errorf("%s, want nothing unsafe", script)
	}
	if got := res.Header.Get("X-Frame-Options"); got != "DENY" {
		t.Errorf("X-Frame-Options = %q, want DENY", got)
	}
	if body := text(t, res); !strings.Contains(body, `FLAG_READ_ONLY="true"`) || !strings.Contains(body, `src="/monitoring/static/js/`) {
		t.Errorf("the page is not asynqmon's, read-only, below /monitoring: %.300s", body)
	}
	wantStatus(t, call(t, s, "GET", "/monitoring/queues/default", ""), 200)
	js := call(t, s, "GET", "/monitoring/static/js/main.5adda2da.chunk.js", "")
	if got := js.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/javascript") {
		t.Errorf("Content-Type of the script = %q", got)
	}
}

func TestDashboard_ReadOnly(t *testing.T) {
	t.Parallel()
	s, seen := dashboard(t, true)
	for _, target := range []string{
		"DELETE /monitoring/api/queues/default", "POST /monitoring/api/queues/default:pause",
		"POST /monitoring/api/queues/default/active_tasks/x:cancel", "PUT /monitoring/",
		"DELETE /monitoring/api/queues/default/pending_tasks:delete_all",
	} {
		method, path, _ := strings.Cut(target, " ")
		wantProblem(t, call(t, s, method, path, ""), 403, "read_only", "")
	}
	if got := seen.commands(); len(got) != 0 {
		t.Errorf("Redis saw %v, want nothing", got)
	}
}

func TestDashboard_Writable(t *testing.T) {
	t.Parallel()
	s, seen := dashboard(t, false)
	call(t, s, "POST", "/monitoring/api/queues/default:pause", "")
	if got := seen.commands(); len(got) == 0 {
		t.Error("Redis saw nothing, want the pause")
	}
	wantProblem(t, call(t, s, "POST", "/monitoring/api/queues/default:pause", "", "Origin: http://evil.example"), 403,
		"foreign_host", "")
}

func TestDashboard_ClampsPages(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"":                      "0 19",
		"?size=50&page=2":       "50 99",
		"?size=1000000000":      "0 99",
		"?size=1e9":             "0 99",
		"?size=-5":              "0 0",
		"?size=x":               "0 19",
		"?size=NaN":             "0 19",
		"?size=5&size=99999999": "0 4",
		"?page=9e99&size=100":   "99999900 99999999",
	} {
		s, seen := dashboard(t, true)
		call(t, s, "GET", "/monitoring/api/queues/default/pending_tasks"+query, "")
		// asynq counts from the end of the list: its script takes the last position first.
		if got := seen.ranges(); !slices.Contains(got, want) {
			t.Errorf("%s asked for %v, want %s", query, got, want)
		}
	}
}

func TestDashboard_Close(t *testing.T) {
	t.Parallel()
	seen := &recorded{}
	d := api.Monitoring(seen, true, "")
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatalf("Close = %v, want nil", err)
		}
	}
	for i, c := range seen.made {
		if err := c.Close(); !errors.Is(err, redis.ErrClosed) {
			t.Errorf("client %d of %d was left open (Close = %v)", i, len(seen.made), err)
		}
	}
	if len(seen.made) == 0 {
		t.Error("no client was made")
	}
}

// dashboard mounts a dashboard in a server. Redis is not there: what is sent to it is recorded.
func dashboard(t *testing.T, readOnly bool) (*api.Server, *recorded) {
	t.Helper()
	seen := &recorded{}
	d := api.Monitoring(seen, readOnly, "")
	t.Cleanup(func() { _ = d.Close() })
	return serverOf(t, newFake(), api.Config{Monitoring: d}), seen
}

// recorded makes clients that send nothing and remember what they should have sent. Every queue exists, everything
// else fails.
type recorded struct {
	made []*redis.Client

	mu   sync.Mutex
	cmds []redis.Cmder
}

func (r *recorded) MakeRedisClient() any {
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	c.AddHook(r)
	r.made = append(r.made, c)
	return c
}

func (r *recorded) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
}

func (r *recorded) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return net.ErrClosed }
}

func (r *recorded) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cmds = append(r.cmds, cmd)
		if b, ok := cmd.(*redis.BoolCmd); ok && cmd.Name() == "sismember" {
			b.SetVal(true)
			return nil
		}
		cmd.SetErr(http.ErrServerClosed)
		return cmd.Err()
	}
}

func (r *recorded) commands() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, c := range r.cmds {
		all = append(all, c.String())
	}
	return all
}

// ranges are the list positions that asynq's list script was asked for, from the head of the list.
func (r *recorded) ranges() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, c := range r.cmds {
		args := c.Args()
		if len(args) < 3 {
			continue
		}
		stop, ok1 := args[len(args)-2].(int64)
		start, ok2 := args[len(args)-3].(int64)
		if ok1 && ok2 {
			all = append(all, fmt.Sprint(-stop-1, " ", -start-1))
		}
	}
	return all
}
