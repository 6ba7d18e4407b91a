//go:build linux

package exec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"offstage/tasks/exec"
)

// daemonMode makes the test binary play a daemon that runs one payload; its value is the mode.
const daemonMode = "OFFSTAGE_EXEC_TEST_DAEMON"

func TestMain(m *testing.M) {
	if mode := os.Getenv(daemonMode); mode != "" {
		os.Exit(playDaemon(mode, os.Args[1]))
	}
	goleak.VerifyTestMain(m)
}

// playDaemon runs payload. In mode "init" it inherits orphans as the init of a container does, and prints how many
// children it has left at the end.
func playDaemon(mode, payload string) int {
	if mode == "init" {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	_, err := exec.Run(context.Background(), []byte(payload), os.Stdout, exec.Policy{Grace: 100 * time.Millisecond})
	fmt.Println("run:", err)
	_, err = unix.Wait4(-1, nil, unix.WNOHANG, nil)
	fmt.Println("children left:", !errors.Is(err, unix.ECHILD))
	return 0
}

// buffer is an out that can be waited for. It fails the test when two Writes overlap.
type buffer struct {
	t       testing.TB
	mu      sync.Mutex
	text    strings.Builder
	writing bool
	changed chan struct{}
}

func newBuffer(t *testing.T) *buffer {
	t.Helper()
	return &buffer{t: t, changed: make(chan struct{}, 1)}
}

func (b *buffer) Write(p []byte) (int, error) {
	b.enter(true)
	defer b.enter(false)
	b.mu.Lock()
	b.text.Write(p)
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (b *buffer) enter(in bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if in && b.writing {
		b.t.Error("two Writes at once")
	}
	b.writing = in
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// await waits until the output holds n whole lines and returns their fields.
func (b *buffer) await(n int) [][]string {
	b.t.Helper()
	deadline := time.After(20 * time.Second)
	for strings.Count(b.String(), "\n") < n {
		select {
		case <-b.changed:
		case <-deadline:
			b.t.Fatalf("output = %q, want %d lines", b.String(), n)
		}
	}
	var lines [][]string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.Fields(line))
	}
	return lines
}

// alive reports whether the process runs: it exists and is not a zombie.
func alive(t *testing.T, pid string) bool {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 1 {
		t.Fatalf("pid = %q", pid)
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n))
	if err != nil {
		return false
	}
	return !strings.Contains(string(raw), ") Z ") && !strings.Contains(string(raw), ") X ")
}

// stopped reports whether the process was stopped by a signal.
func stopped(pid string) bool {
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && strings.Contains(string(raw), ") T ")
}

// carriers lists the living processes that have the variable (NAME=value) in their environment.
func carriers(t *testing.T, variable string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		pid := filepath.Base(filepath.Dir(file))
		if err == nil && slices.Contains(strings.Split(string(raw), "\x00"), variable) && alive(t, pid) {
			found = append(found, pid)
		}
	}
	return found
}

func mustBeDead(t *testing.T, pids ...string) {
	t.Helper()
	for _, pid := range pids {
		if alive(t, pid) {
			t.Errorf("process %s is alive", pid)
		}
	}
}

// eventuallyDead is for what dies on its own, like the child of a killed parent.
func eventuallyDead(t *testing.T, pid string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); alive(t, pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %s is alive", pid)
		}
	}
}
