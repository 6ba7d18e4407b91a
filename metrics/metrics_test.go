package metrics_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"offstage/metrics"
	"offstage/queue"
	"offstage/tasks"
)

var _ queue.Observer = (*metrics.Metrics)(nil)

var update = flag.Bool("update", false, "rewrite testdata")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMetrics_Golden(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, "email:send")
	watch(t, m, metrics.Sources{
		Ping: func(context.Context) error { return nil },
		Counts: func(context.Context) ([]metrics.QueueCount, error) {
			return []metrics.QueueCount{{Queue: "default", Counts: map[tasks.Status]int64{tasks.Running: 2, tasks.Failed: 1}}}, nil
		},
		Stats: func(context.Context) ([]metrics.QueueStat, error) {
			return []metrics.QueueStat{{
				Queue: "default", Size: 10, MemoryUsageBytes: 4096, LatencySeconds: 1.5, Pending: 1, Active: 2, Scheduled: 3,
				Retry: 4, Archived: 5, Completed: 6, Aggregating: 7, ProcessedTotal: 8, FailedTotal: 9, Paused: true,
			}}, nil
		},
	})
	report(m)
	got := ours(scrape(t, m))

	const file = "testdata/metrics.golden"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("/metrics differs from %s (-want +got; -update rewrites it):\n%s", file, diff)
	}
}

// report calls each method of the observer once or more.
func report(m *metrics.Metrics) {
	m.TaskEnqueued("default", "email:send")
	m.TaskEnqueued("default", "no worker knows me")
	m.TaskStarted("default", 30*time.Millisecond)
	m.TaskStarted("default", -time.Hour)
	m.AttemptEnded("default", "email:send", "retry")
	m.AttemptEnded("default", "email:send", "failed")
	m.TaskFinished("default", "email:send", tasks.Failed, tasks.KindTimeout, 2*time.Second)
	m.TaskFinished("default", "email:send", tasks.Cancelled, "", 0)
	m.CommitFailed("task_completion", "oom")
	m.CommitFailed("task_completion", "something new")
	m.CommitPending(3)
	m.CommitPending(-1)
	m.StaleWrite("task_completion")
	m.Repaired("archived")
	m.Interrupted("crash")
	m.CancelRequested("task")
	m.CancelLatency(70 * time.Millisecond)
	m.StuckHandlers(1)
	m.UnknownScript("6b1e")
}

// Alerts ask for the rate of these before anything failed.
func TestNew_CommitFailuresExistAtZero(t *testing.T) {
	t.Parallel()
	got := scrape(t, newMetrics(t))
	for _, op := range metrics.Operations() {
		for _, reason := range metrics.Reasons() {
			want := fmt.Sprintf("offstage_state_commit_failures_total{operation=%q,reason=%q} 0\n", op, reason)
			if !strings.Contains(got, want) {
				t.Errorf("/metrics has no line %s", want)
			}
		}
	}
}

func TestNew_GoAndProcessCollectors(t *testing.T) {
	t.Parallel()
	got := scrape(t, newMetrics(t))
	for _, want := range []string{"\ngo_goroutines ", "\nprocess_resident_memory_bytes "} {
		if !strings.Contains(got, want) {
			t.Errorf("/metrics has no line %q", want)
		}
	}
}

func TestNew_Errors(t *testing.T) {
	t.Parallel()
	if m, err := metrics.New(metrics.Options{Version: "v1"}); err != nil || m.Handler() == nil {
		t.Errorf("New(nil registry) = %v, want metrics on a registry of their own", err)
	}
	reg := prometheus.NewRegistry()
	if _, err := metrics.New(metrics.Options{Registry: reg, Version: "v1"}); err != nil {
		t.Fatalf("New = %v, want nil", err)
	}
	if _, err := metrics.New(metrics.Options{Registry: reg, Version: "v1"}); err == nil {
		t.Error("second New on one registry = nil error, want one")
	}
}

func TestMetrics_QueueNamesAreBounded(t *testing.T) {
	t.Parallel()
	m := newMetrics(t)
	for i := range metrics.MaxQueues + 10 {
		m.TaskEnqueued(fmt.Sprintf("q%d", i), "t")
	}
	m.TaskEnqueued("q0", "t")
	got := scrape(t, m)
	if n := strings.Count(got, "\noffstage_tasks_enqueued_total{"); n != metrics.MaxQueues+1 {
		t.Errorf("series = %d, want %d and one for the others", n, metrics.MaxQueues)
	}
	for _, want := range []string{`{queue="other",type="other"} 10`, `{queue="q0",type="other"} 2`} {
		if !strings.Contains(got, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
}

func TestMetrics_QueueNameThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	m := newMetrics(t)
	watch(t, m, metrics.Sources{Counts: func(context.Context) ([]metrics.QueueCount, error) {
		return []metrics.QueueCount{{Queue: "a\xff"}}, nil
	}})
	m.TaskEnqueued("a\xff", "t")
	got := scrape(t, m)
	for _, want := range []string{"offstage_tasks_enqueued_total{queue=\"a\uFFFD\"", "offstage_tasks{queue=\"a\uFFFD\""} {
		if !strings.Contains(got, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
}

func TestMetrics_WatchWhenRedisIsAway(t *testing.T) {
	t.Parallel()
	away := errors.New("connection refused")
	m := newMetrics(t)
	watch(t, m, metrics.Sources{
		Counts: func(context.Context) ([]metrics.QueueCount, error) {
			return []metrics.QueueCount{{Queue: "default"}}, nil
		},
		Stats: func(context.Context) ([]metrics.QueueStat, error) { return nil, away },
	})
	got := scrape(t, m)
	if !strings.Contains(got, "\noffstage_redis_up 0\n") {
		t.Error("offstage_redis_up is not 0")
	}
	if !strings.Contains(got, "offstage_tasks{") || !strings.Contains(got, "offstage_commit_pending 0") {
		t.Error("the series of the healthy sources are missing")
	}
	if strings.Contains(got, "asynq_") {
		t.Error("/metrics has asynq_ series, want none")
	}
}

func TestMetrics_WatchIsBounded(t *testing.T) {
	t.Parallel()
	m := newMetrics(t)
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	watch(t, m, metrics.Sources{Ping: hang})
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		got := scrape(t, m)
		if d := time.Since(start); d != metrics.ScrapeTimeout {
			t.Errorf("scrape took %s, want %s", d, metrics.ScrapeTimeout)
		}
		if !strings.Contains(got, "\noffstage_redis_up 0\n") {
			t.Error("offstage_redis_up is not 0")
		}
	})
}

func newMetrics(t *testing.T, types ...string) *metrics.Metrics {
	t.Helper()
	m, err := metrics.New(metrics.Options{Registry: prometheus.NewRegistry(), Version: "v1.2.3", Types: types})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func watch(t *testing.T, m *metrics.Metrics, s metrics.Sources) {
	t.Helper()
	if err := m.Watch(s); err != nil {
		t.Fatal(err)
	}
}

func scrape(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(rec.Result().Body)
	if err != nil || rec.Code != http.StatusOK {
		t.Fatalf("GET /metrics = %d, %v, want 200", rec.Code, err)
	}
	return string(body)
}

// ours keeps the lines about offstage_ and asynq_ series, without what changes from build to build.
func ours(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
		if strings.HasPrefix(name, "offstage_") || strings.HasPrefix(name, "asynq_") {
			b.WriteString(line)
		}
	}
	return regexp.MustCompile(`goversion="[^"]*"`).ReplaceAllString(b.String(), `goversion="go"`)
}
