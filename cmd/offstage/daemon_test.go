package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"offstage/client"
	"offstage/internal/redistest"
	"offstage/tasks"
)

// process is a real `offstage serve`.
type process struct {
	tb     testing.TB
	cmd    *exec.Cmd
	url    string
	client *client.Client
	exited chan struct{}

	mu  sync.Mutex
	log bytes.Buffer
}

// startDaemon starts `offstage serve` on a free port and waits until it is ready. It is killed at the end of the test.
func startDaemon(tb testing.TB, args ...string) *process {
	tb.Helper()
	p := &process{tb: tb, exited: make(chan struct{})}
	p.cmd = exec.Command("offstage", append([]string{"serve", "--listen", "127.0.0.1:0", "--data-dir", tb.TempDir()}, args...)...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	addr := make(chan string, 1)
	go p.read(stderr, addr)
	tb.Cleanup(func() { p.signal(syscall.SIGKILL); p.wait() })
	select {
	case p.url = <-addr:
	case <-p.exited:
		tb.Fatalf("offstage serve %v exited at once:\n%s", args, p.text())
	case <-time.After(20 * time.Second):
		tb.Fatalf("offstage serve %v says no address:\n%s", args, p.text())
	}
	if p.client, err = client.New(p.url, client.Options{}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { p.client.Close() })
	return p
}

var apiLine = regexp.MustCompile(`API\s+(http://\S+)/v1/tasks`)

// read keeps what the daemon says and finds its address.
func (p *process) read(stderr io.Reader, addr chan<- string) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		p.mu.Lock()
		p.log.WriteString(lines.Text() + "\n")
		p.mu.Unlock()
		if m := apiLine.FindStringSubmatch(lines.Text()); m != nil {
			addr <- m[1]
		}
	}
	_ = p.cmd.Wait()
	close(p.exited)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// wait waits for the end of the process and gives its exit code, -1 when a signal killed it.
func (p *process) wait() int {
	p.tb.Helper()
	select {
	case <-p.exited:
	case <-time.After(30 * time.Second):
		p.tb.Fatalf("the daemon does not exit:\n%s", p.text())
	}
	return p.cmd.ProcessState.ExitCode()
}

// enqueue enqueues a task of type exec.
func (p *process) exec(shell string, change func(*tasks.Spec)) string {
	p.tb.Helper()
	spec := tasks.Spec{Type: "exec", Owner: "tester", Payload: map[string]any{"shell": shell}}
	if change != nil {
		change(&spec)
	}
	task, _, err := p.client.Enqueue(context.Background(), spec)
	if err != nil {
		p.tb.Fatalf("enqueue: %v\n%s", err, p.text())
	}
	return task.ID
}

// ended waits for the end of a task.
func (p *process) ended(id string) *tasks.Task {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	task, err := p.client.Wait(ctx, tasks.Ref{ID: id}, time.Minute)
	if err != nil {
		p.tb.Fatalf("wait for %s: %v\n%s", id, err, p.text())
	}
	return task
}

// until waits for something to become true.
func until(tb testing.TB, what string, d time.Duration, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(d); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("not within %v: %s", d, what)
		}
	}
}

func (p *process) status(path string) (code int, body string) {
	resp, err := http.Get(p.url + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// TestDaemon_Kill is check 9: a worker that is killed in the middle of a task. The task starts again elsewhere within
// 15 s, spends no retry, and nothing of the first attempt survives.
func TestDaemon_Kill(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	args := []string{"--redis-url", redis.URL(), "--exec", "--concurrency", "1"}
	daemons := []*process{startDaemon(t, args...), startDaemon(t, args...)}
	dir := t.TempDir()
	// The grandchild ignores SIGTERM and leaves the session; it would go on writing.
	script := fmt.Sprintf(`if [ ! -e %[1]s/first ]; then
		touch %[1]s/first
		setsid sh -c 'trap "" TERM; while :; do date +%%s%%N >> %[1]s/beats; sleep 0.1; done' &
		sleep 60
	fi; echo second`, dir)
	id := daemons[0].exec(script, func(s *tasks.Spec) { s.MaxRetries = new(0) })
	until(t, "first attempt writes", 10*time.Second, func() bool {
		_, err := os.Stat(filepath.Join(dir, "beats"))
		return err == nil
	})
	task, err := daemons[0].client.Get(t.Context(), tasks.Ref{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	victim, other := daemons[0], daemons[1]
	if strings.Contains(task.Worker, fmt.Sprintf(":%d:", other.cmd.Process.Pid)) {
		victim, other = other, victim
	}
	killed := time.Now()
	victim.signal(syscall.SIGKILL)
	victim.wait()
	got := other.ended(id)
	t.Logf("killed worker's task ended after %v", time.Since(killed))
	if got.Status != tasks.Completed || got.Attempt != 2 || got.Interruptions != 1 || len(got.Errors) != 0 {
		t.Errorf("task: %+v\n%s", got, other.text())
	}
	if since := got.StartedAt.Sub(killed); since > 15*time.Second {
		t.Errorf("started again %v after the kill, want at most 15 s", since)
	}
	before, _ := os.ReadFile(filepath.Join(dir, "beats"))
	time.Sleep(500 * time.Millisecond)
	after, _ := os.ReadFile(filepath.Join(dir, "beats"))
	if !bytes.Equal(before, after) {
		t.Error("a process of the killed attempt still runs")
	}
}

// TestDaemon_Drain: SIGTERM lets short tasks end, puts long ones back, exits 0; the next daemon goes on.
func TestDaemon_Drain(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	args := []string{"--redis-url", redis.URL(), "--exec", "--drain-timeout", "1s", "--cancel-grace", "1s"}
	p := startDaemon(t, args...)
	dir := t.TempDir()
	short := p.exec("sleep 0.5", nil)
	long := p.exec(fmt.Sprintf("trap '' TERM; echo x >> %s/runs; [ $(wc -l < %s/runs) -gt 1 ] || sleep 30", dir, dir), nil)
	until(t, "long task runs", 10*time.Second, func() bool {
		_, err := os.Stat(filepath.Join(dir, "runs"))
		return err == nil
	})
	p.signal(syscall.SIGTERM)
	until(t, "not ready while draining", 2*time.Second, func() bool { code, _ := p.status("/readyz"); return code == 503 })
	if code, _ := p.status("/livez"); code != 200 {
		t.Errorf("livez is %d while draining", code)
	}
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d, want 0:\n%s", code, p.text())
	}
	p = startDaemon(t, args...)
	if got := p.ended(short); got.Status != tasks.Completed || got.Attempt != 1 {
		t.Errorf("short task: %+v", got)
	}
	if got := p.ended(long); got.Status != tasks.Completed || got.Attempt != 2 || got.Interruptions != 1 {
		t.Errorf("long task: %+v", got)
	}
}

// TestDaemon_SecondSignal: a second signal does not wait.
func TestDaemon_SecondSignal(t *testing.T) {
	t.Parallel()
	p := startDaemon(t)
	p.exec("trap '' TERM; sleep 30", nil)
	until(t, "task runs", 10*time.Second, func() bool {
		_, body := p.status("/v1/workers")
		return strings.Contains(body, `"running":1`)
	})
	p.signal(syscall.SIGTERM)
	time.Sleep(300 * time.Millisecond)
	second := time.Now()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 1 || time.Since(second) > 10*time.Second {
		t.Errorf("exit code %d after %v, want 1 at once:\n%s", code, time.Since(second), p.text())
	}
}

// TestDaemon_Outage: Redis goes away and comes back. The daemon lives, says that it is not ready, and what ran
// meanwhile is recorded and did not run twice.
func TestDaemon_Outage(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.AOF("always"))
	p := startDaemon(t, "--redis-url", redis.URL(), "--exec")
	dir := t.TempDir()
	id := p.exec(fmt.Sprintf("echo x >> %s/runs; sleep 2", dir), nil)
	until(t, "task runs", 10*time.Second, func() bool {
		_, err := os.Stat(filepath.Join(dir, "runs"))
		return err == nil
	})
	redis.Stop()
	until(t, "not ready", 5*time.Second, func() bool { code, _ := p.status("/readyz"); return code == 503 })
	if code, _ := p.status("/livez"); code != 200 {
		t.Errorf("livez is %d without Redis", code)
	}
	if code, body := p.status("/v1/tasks/" + id); code != 503 || !strings.Contains(body, `"unavailable"`) {
		t.Errorf("GET without Redis: %d %s", code, body)
	}
	until(t, "failed commit counted", 10*time.Second, func() bool {
		_, body := p.status("/metrics")
		return regexp.MustCompile(`offstage_state_commit_failures_total\{operation="task_completion",reason="\w+"\} [1-9]`).MatchString(body)
	})
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	got := p.ended(id)
	runs, _ := os.ReadFile(filepath.Join(dir, "runs"))
	if got.Status != tasks.Completed || got.Attempt != 1 || string(runs) != "x\n" {
		t.Errorf("task: %+v, ran %q\n%s", got, runs, p.text())
	}
	until(t, "ready again", 5*time.Second, func() bool { code, _ := p.status("/readyz"); return code == 200 })
	if lines := strings.Count(p.text(), "\n"); lines > 40 {
		t.Errorf("%d lines of log for one outage:\n%s", lines, p.text())
	}
}

// TestDaemon_Gzip is a real job: commands that compress 50 files of the Go source tree on two daemons.
func TestDaemon_Gzip(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.AOF("everysec"))
	a := startDaemon(t, "--redis-url", redis.URL(), "--exec", "--concurrency", "4")
	b := startDaemon(t, "--redis-url", redis.URL(), "--exec", "--concurrency", "4")
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src/net/http/*.go"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	dir := t.TempDir()
	var ids []string
	for i, f := range files[:50] {
		out := filepath.Join(dir, fmt.Sprint(i, ".gz"))
		ids = append(ids, a.exec(fmt.Sprintf("gzip -c '%s' > %s && gzip -dc %s | sha256sum && sha256sum < '%s'", f, out, out, f), nil))
	}
	workers := map[string]int{}
	for i, id := range ids {
		got := b.ended(id)
		sums := strings.Fields(got.Output)
		if got.Status != tasks.Completed || len(sums) != 4 || sums[0] != sums[2] || len(sums[0]) != 64 {
			t.Fatalf("%s: %+v", files[i], got)
		}
		workers[got.Worker]++
	}
	t.Logf("tasks by worker: %v", workers)
	if len(workers) != 2 {
		t.Errorf("the work was done by %v, want two workers", workers)
	}
	checkDashboard(t, a, ids[0])
}

// checkDashboard wants the finished task in asynqmon, with payload and result.
func checkDashboard(t *testing.T, p *process, id string) {
	t.Helper()
	code, body := p.status("/monitoring/api/queues/default/tasks/" + id)
	var task struct{ ID, State, Payload, Result string }
	if err := json.Unmarshal([]byte(body), &task); err != nil || code != 200 {
		t.Fatalf("dashboard: %d %s", code, body)
	}
	if task.State != "completed" || !strings.Contains(task.Payload, "gzip -c") || !strings.Contains(task.Result, `"exit_code":0`) {
		t.Errorf("dashboard shows %+v", task)
	}
}
