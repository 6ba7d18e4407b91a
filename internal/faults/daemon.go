package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"offstage/client"
)

// BinaryVariable names a binary of offstage to test instead of one that is built.
const BinaryVariable = "OFFSTAGE_FAULTS_BINARY"

// Build builds offstage into dir and gives its path.
func Build(dir string) (string, error) {
	if bin := os.Getenv(BinaryVariable); bin != "" {
		return bin, nil
	}
	bin := filepath.Join(dir, "offstage")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", bin, "offstage/cmd/offstage").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build offstage: %w\n%s", err, out)
	}
	return bin, nil
}

// DaemonConfig says how to start a [Daemon].
type DaemonConfig struct {
	Binary   string
	Name     string
	RedisURL string
	Args     []string // more arguments of "offstage serve"
	Env      []string // settings as OFFSTAGE_NAME=value
}

// Daemon is an "offstage serve" process, which may die and be started again: its address and its data_dir stay.
type Daemon struct {
	Name   string
	URL    string
	Client *client.Client // asks once, with patience for a daemon that is being started

	tb   testing.TB
	cfg  DaemonConfig
	addr string
	dir  string

	mu   sync.Mutex
	proc *proc
	pids map[int]bool // all it ever had
}

// proc is one life of a daemon.
type proc struct {
	cmd    *exec.Cmd
	exited chan struct{}
	log    lockedBuffer
}

// StartDaemon starts a daemon, which is killed at the end of the test, and waits until it is up.
func StartDaemon(tb testing.TB, cfg DaemonConfig) *Daemon {
	tb.Helper()
	port, err := freePort()
	if err != nil {
		tb.Fatal(err)
	}
	d := &Daemon{tb: tb, Name: cfg.Name, cfg: cfg, addr: "127.0.0.1:" + strconv.Itoa(port), dir: tb.TempDir(), pids: map[int]bool{}}
	d.URL = "http://" + d.addr
	if d.Client, err = client.New(d.URL, client.Options{Timeout: 8 * time.Second}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		d.Kill()
		_ = d.Client.Close()
		if tb.Failed() {
			tb.Logf("daemon %s said last:\n%s", d.Name, tail(d.Log(), 4000))
		}
	})
	if err := d.Restart(); err != nil {
		tb.Fatal(err)
	}
	return d
}

// freePort finds a port below those that Linux gives to outgoing connections: one of them could take it while the
// daemon is down.
func freePort() (int, error) {
	for range 100 {
		port := 12000 + rand.IntN(8000)
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port in 100 tries")
}

// Restart starts the daemon, killing it first when it runs, and returns when it serves its API. The error says why it
// did not come up.
func (d *Daemon) Restart() error {
	d.Kill()
	p, err := d.launch()
	if err != nil {
		return err
	}
	up := func() bool { return d.Client.Live(context.Background()) == nil }
	_, ok := within(context.Background(), 30*time.Second, func() bool { return closed(p.exited) || up() })
	if !ok || closed(p.exited) {
		return fmt.Errorf("daemon %s does not come up:\n%s", d.Name, tail(p.log.String(), 2000))
	}
	return nil
}

// RestartUntilUp is Restart, again and again, as an init system would.
func (d *Daemon) RestartUntilUp(ctx context.Context) error {
	for {
		err := d.Restart()
		if err == nil || !pause(ctx, 200*time.Millisecond) {
			return err
		}
	}
}

func (d *Daemon) launch() (*proc, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	args := append([]string{"serve", "--listen", d.addr, "--data-dir", d.dir, "--redis-url", d.cfg.RedisURL, "--exec"}, d.cfg.Args...)
	p := &proc{cmd: exec.CommandContext(context.Background(), d.cfg.Binary, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir, "TMPDIR=" + os.TempDir()}, d.cfg.Env...)
	p.cmd.SysProcAttr = dieWithParent()
	started := make(chan error, 1)
	var wg sync.WaitGroup // p.exited is what Kill waits for
	wg.Go(func() {
		defer close(p.exited)
		runtime.LockOSThread() // the kernel kills a child when the thread that started it ends
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // the exit code is in ProcessState
		}
	})
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", d.cfg.Binary, err)
	}
	d.proc = p
	d.pids[p.cmd.Process.Pid] = true
	return p, nil
}

// current is the daemon's process, which may have ended; nil before the first start.
func (d *Daemon) current() *proc {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.proc
}

// PID is the daemon's process, the last one when it is down.
func (d *Daemon) PID() int { return d.current().cmd.Process.Pid }

// Owned reports whether pid is, or ever was, the daemon's process.
func (d *Daemon) Owned(pid int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pids[pid]
}

// Running reports whether the process lives.
func (d *Daemon) Running() bool { return !closed(d.current().exited) }

// Log is what the daemon has said since its last start.
func (d *Daemon) Log() string {
	if p := d.current(); p != nil {
		return p.log.String()
	}
	return ""
}

// Signal sends a signal; a process that has ended does not mind.
func (d *Daemon) Signal(s syscall.Signal) {
	if p := d.current(); p != nil {
		_ = p.cmd.Process.Signal(s)
	}
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (d *Daemon) Kill() {
	if p := d.current(); p != nil {
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// Terminate sends SIGTERM and waits for the end, at most for bound. The code is -1 when a signal ended the process.
func (d *Daemon) Terminate(ctx context.Context, bound time.Duration) (code int, took time.Duration, err error) {
	p := d.current()
	d.Signal(syscall.SIGTERM)
	took, ok := within(ctx, bound, func() bool { return closed(p.exited) })
	if !ok {
		return 0, took, fmt.Errorf("daemon %s lives %v after SIGTERM:\n%s", d.Name, took, tail(p.log.String(), 4000))
	}
	return p.cmd.ProcessState.ExitCode(), took, nil
}

// Crash is the fault of being killed; healing starts the daemon again, as often as it takes.
func (d *Daemon) Crash() Fault {
	return Fault{
		Name:   "kill " + d.Name,
		Inject: func(context.Context) error { d.Kill(); return nil },
		Heal:   d.RestartUntilUp,
	}
}

// Freeze is the fault of being stopped with SIGSTOP.
func (d *Daemon) Freeze() Fault {
	return Fault{
		Name:   "stop " + d.Name,
		Inject: func(context.Context) error { d.Signal(syscall.SIGSTOP); return nil },
		Heal:   func(context.Context) error { d.Signal(syscall.SIGCONT); return nil },
	}
}

// Roll is a SIGTERM; healing waits for the end and starts the daemon again.
func (d *Daemon) Roll() Fault {
	return Fault{
		Name:   "terminate " + d.Name,
		Inject: func(context.Context) error { d.Signal(syscall.SIGTERM); return nil },
		Heal: func(ctx context.Context) error {
			if _, _, err := d.Terminate(ctx, time.Minute); err != nil {
				return err
			}
			return d.RestartUntilUp(ctx)
		},
	}
}

// Status is the code of a GET, 0 when there is no answer, and its body.
func (d *Daemon) Status(path string) (code int, body string) {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, d.URL+path, http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// Metric adds up the series whose name and labels match pattern, a regular expression.
func (d *Daemon) Metric(pattern string) float64 {
	_, body := d.Status("/metrics")
	sum := 0.0
	for _, m := range regexp.MustCompile(`(?m)^`+pattern+` (\S+)$`).FindAllStringSubmatch(body, -1) {
		v, _ := strconv.ParseFloat(m[len(m)-1], 64)
		sum += v
	}
	return sum
}

// CPU is the processor time that the process has used so far.
func (d *Daemon) CPU() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.PID()))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // 100 ticks a second
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// lockedBuffer collects what several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
