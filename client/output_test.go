package client_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/client"
	"offstage/tasks"
)

func writeOutput(w http.ResponseWriter, text string, offset, total int64, status tasks.Status) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Offstage-Output-Offset", strconv.FormatInt(offset, 10))
	h.Set("Offstage-Output-Next", strconv.FormatInt(offset+int64(len(text)), 10))
	h.Set("Offstage-Output-Total", strconv.FormatInt(total, 10))
	h.Set("Offstage-Task-Status", string(status))
	_, _ = w.Write([]byte(text))
}

func TestClient_Output(t *testing.T) {
	t.Parallel()
	var asked string
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		writeOutput(w, "héllo", 7, 20, tasks.Running)
	}, client.Options{})
	got, err := c.Output(t.Context(), ref(), client.OutputOptions{Offset: 3, Limit: 6, Wait: time.Second})
	want := &client.Output{Text: "héllo", Offset: 7, Next: 13, Total: 20, Status: tasks.Running}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Output: %v (-want +got):\n%s", err, diff)
	}
	if want := "/v1/tasks/default.01abc/output?limit=6&offset=3&owner=o&wait=1s"; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
	_, _ = c.Output(t.Context(), ref(), client.OutputOptions{Offset: -1})
	if want := "/v1/tasks/default.01abc/output?owner=o"; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
}

func TestClient_Output_BadHeaders(t *testing.T) {
	t.Parallel()
	c := open(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hi")) }, client.Options{})
	if _, err := c.Output(t.Context(), ref(), client.OutputOptions{}); err == nil {
		t.Error("Output without headers succeeded, want an error")
	}
}

// theatre is a task that writes a line a second and is restarted under its readers.
type theatre struct {
	start time.Time
	lines int
	cut   int64 // bytes dropped in front
	away  func(at time.Duration) bool
}

func (th *theatre) serve(w http.ResponseWriter, r *http.Request) error {
	offset, _ := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
	until := time.Now().Add(time.Minute)
	for {
		at := time.Since(th.start)
		if th.away != nil && th.away(at) {
			return syscall.ECONNREFUSED
		}
		n := min(int(at/time.Second), th.lines)
		text := strings.Repeat("a line\n", n)
		status := tasks.Running
		if n == th.lines {
			status = tasks.Completed
		}
		if from := max(offset, th.cut); int64(len(text)) > offset || status.Terminal() || time.Now().After(until) {
			writeOutput(w, text[min(from, int64(len(text))):], from, int64(len(text)), status)
			return nil
		}
		if err := hold(r, time.Now().Add(100*time.Millisecond)); err != nil {
			return err
		}
	}
}

func follow(t *testing.T, c *client.Client) (string, []*client.Output, error) {
	t.Helper()
	var text strings.Builder
	var outs []*client.Output
	for out, err := range c.Follow(t.Context(), ref(), client.FollowOptions{}) {
		if err != nil {
			return text.String(), outs, err
		}
		text.WriteString(out.Text)
		outs = append(outs, out)
	}
	return text.String(), outs, nil
}

func TestClient_Follow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &theatre{start: time.Now(), lines: 3}
		got, outs, err := follow(t, offline(t, client.Options{}, th.serve))
		if want := strings.Repeat("a line\n", 3); err != nil || got != want {
			t.Errorf("Follow = %q, %v, want %q", got, err, want)
		}
		if last := outs[len(outs)-1]; len(outs) != 3 || last.Status != tasks.Completed {
			t.Errorf("Follow gave %d answers, the last %s; want 3, completed", len(outs), last.Status)
		}
	})
}

// P9: a daemon that restarts under a watcher makes neither a gap nor a repeat.
func TestClient_Follow_ResumesAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &theatre{start: time.Now(), lines: 60, away: func(at time.Duration) bool {
			return at > 10*time.Second && at < 40*time.Second
		}}
		got, _, err := follow(t, offline(t, client.Options{}, th.serve))
		if want := strings.Repeat("a line\n", 60); err != nil || got != want {
			t.Errorf("Follow gave %d bytes, %v, want %d", len(got), err, len(want))
		}
	})
}

func TestClient_Follow_PatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &theatre{start: time.Now(), lines: 60, away: func(at time.Duration) bool { return at > 10*time.Second }}
		_, _, err := follow(t, offline(t, client.Options{}, th.serve))
		if d := time.Since(th.start); !errors.Is(err, client.ErrUnreachable) || d < time.Minute || d > 80*time.Second {
			t.Errorf("Follow = %v after %s, want ErrUnreachable after 70s or so", err, d)
		}
	})
}

func TestClient_Follow_TellsOfACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &theatre{start: time.Now().Add(-time.Minute), lines: 5, cut: 14}
		got, outs, err := follow(t, offline(t, client.Options{}, th.serve))
		if err != nil || got != strings.Repeat("a line\n", 3) || outs[0].Offset != 14 {
			t.Errorf("Follow = %q from %d, %v, want 3 lines from 14", got, outs[0].Offset, err)
		}
	})
}

func TestClient_Follow_CallerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &theatre{start: time.Now(), lines: 1000}
		c := offline(t, client.Options{}, th.serve)
		for range c.Follow(t.Context(), ref(), client.FollowOptions{}) {
			break
		}
	})
}
