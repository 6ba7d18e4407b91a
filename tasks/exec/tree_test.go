//go:build linux

package exec_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	osexec "os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"offstage/tasks"
	"offstage/tasks/exec"
)

// report makes a process say that it is there: its pid on a line of its own.
const report = "sh -c 'echo $$; exec sleep 1000'"

// stubborn is a process that ignores SIGTERM and says that it is there.
const stubborn = `sh -c "trap '' TERM; echo \$\$; while :; do sleep 1; done"`

// The ways a command tries to leave something behind. Each prints the pids of what it started, one a line.
var escapes = map[string]struct {
	line string
	pids int
}{
	"Plain":            {report, 1},
	"Child":            {report + " & wait", 1},
	"IgnoresTERM":      {stubborn, 1},
	"ChildIgnoresTERM": {stubborn + " & wait", 1},
	"Setsid":           {"setsid " + report + " & wait", 1},
	"SetsidStubborn":   {"setsid " + stubborn + " & wait", 1},
	"DoubleFork":       {"(setsid " + report + " &); sleep 1000", 1},
	"DoubleForkTwice":  {"(setsid sh -c '(setsid " + `sh -c "echo \$\$; exec sleep 1000"` + " &)' &); sleep 1000", 1},
	"DaemonClosesAll":  {"(setsid sh -c 'echo $$; exec sleep 1000 0<&- 1>&- 2>&-' &); sleep 1000", 1},
	"EnvCleared":       {"env -i setsid " + report + " & wait", 1},
	"Stopped":          {"sh -c 'echo $$; kill -STOP $$; sleep 1000' & wait", 1},
	"ManySessions":     {"for i in 1 2 3 4 5; do setsid " + report + " & done; wait", 5},
	"TermStartsMore":   {`sh -c "trap 'setsid sleep 1000 &' TERM; echo \$\$; while :; do sleep 0.01; done" & wait`, 1},
	"Hopper":           {`H='sleep 0.03; setsid sh -c "$H" &'; export H; echo $$; sh -c "$H"; sleep 1000`, 1},
}

func TestRun_CancelKillsTheTree(t *testing.T) {
	t.Parallel()
	for name, tt := range escapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const grace = 200 * time.Millisecond
			ctx, cancel := context.WithCancelCause(t.Context())
			out := newBuffer(t)
			carried := "TEST_TREE=" + rand.Text()
			payload, _ := json.Marshal(map[string]any{"shell": tt.line, "env": map[string]string{"TEST_TREE": carried[10:]}})
			var decided time.Time
			done := make(chan struct{})
			go func() {
				defer close(done)
				out.await(tt.pids)
				decided = time.Now()
				cancel(tasks.ErrCancelled)
			}()
			r, err := exec.Run(ctx, payload, out, exec.Policy{Grace: grace})
			<-done
			if !errors.Is(err, tasks.ErrCancelled) || strings.Contains(err.Error(), "not killed") {
				t.Errorf("Run = %+v, %v, want ErrCancelled", r, err)
			}
			if took := time.Since(decided); took > grace+2*time.Second {
				t.Errorf("stopping took %s, want at most the grace and 2 s", took)
			}
			for _, line := range out.await(tt.pids)[:tt.pids] {
				mustBeDead(t, line[0])
			}
			if left := carriers(t, carried); left != nil {
				t.Errorf("processes %q of the tree are alive", left)
			}
		})
	}
}

// TestRun_LeavesNothingBehind: the command ends by itself, and what it left running is stopped.
func TestRun_LeavesNothingBehind(t *testing.T) {
	t.Parallel()
	wait := "\nwhile ! [ -s $F ]; do sleep 0.01; done; exit 4"
	tests := map[string]string{
		"Background":      "sh -c 'echo $$ | tee $F; exec sleep 1000' &",
		"HoldsNoPipe":     "sh -c 'echo $$ | tee $F; exec sleep 1000 >/dev/null 2>&1' &",
		"Daemon":          "(setsid sh -c 'echo $$ | tee $F; exec sleep 1000' &)",
		"StubbornDaemon":  `(setsid sh -c "trap '' TERM; echo \$\$ | tee \$F; while :; do sleep 1; done" &)`,
		"FloodsThePipe":   "(setsid sh -c 'echo $$ | tee $F; exec yes' &)",
		"IgnoresPipeLoss": `(setsid sh -c "trap '' TERM PIPE; echo \$\$ | tee \$F; while :; do echo x; done" &)`,
	}
	for name, line := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := t.TempDir() + "/pid"
			payload, _ := json.Marshal(map[string]any{"shell": line + wait, "env": map[string]string{"F": file}})
			began := time.Now()
			r, err := exec.Run(t.Context(), payload, newBuffer(t), exec.Policy{Grace: 200 * time.Millisecond})
			if r.ExitCode != 4 || text(err) != "exit status 4" {
				t.Errorf("Run = %+v, %v, want exit status 4", r, err)
			}
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("Run took %s", took)
			}
			pid, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			mustBeDead(t, strings.TrimSpace(string(pid)))
		})
	}
}

// TestRun_LastWords: what a helper still has to write when the shell is over is not lost.
func TestRun_LastWords(t *testing.T) {
	t.Parallel()
	out := newBuffer(t)
	r, err := exec.Run(t.Context(), shell("(sleep 0.05; echo last) & exit 0"), out, exec.Policy{})
	if err != nil || out.String() != "last\n" {
		t.Errorf("Run = %+v, %v with output %q, want last", r, err, out)
	}
}

// TestRun_Grace: SIGTERM comes first, and a command that uses it is not killed. There is no time for that once the task
// may run elsewhere.
func TestRun_Grace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cause  error
		grace  time.Duration
		tidied bool
		err    string
	}{
		"Used":      {tasks.ErrTimeout, 10 * time.Second, true, "task timed out: exit status 7"},
		"TooShort":  {tasks.ErrTimeout, 20 * time.Millisecond, false, "task timed out: killed by SIGKILL"},
		"None":      {tasks.ErrTimeout, -1, false, "task timed out: killed by SIGKILL"},
		"LeaseLost": {tasks.ErrLeaseLost, 10 * time.Second, false, "worker lost the lease of the task: killed by SIGKILL"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			out := newBuffer(t)
			go func() {
				out.await(1)
				cancel(tt.cause)
			}()
			_, err := exec.Run(ctx, shell("trap 'sleep 0.3; echo tidied; exit 7' TERM; echo up; while :; do sleep 0.01; done"),
				out, exec.Policy{Grace: tt.grace})
			if text(err) != tt.err || !errors.Is(err, tt.cause) {
				t.Errorf("Run error = %q, want %q", text(err), tt.err)
			}
			if got := strings.Contains(out.String(), "tidied\n"); got != tt.tidied {
				t.Errorf("tidied up = %v, want %v", got, tt.tidied)
			}
		})
	}
}

// TestRun_GraceOfStopped: a stopped command is woken up, so that it can use its grace.
func TestRun_GraceOfStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	out := newBuffer(t)
	go func() {
		for pid := out.await(1)[0][0]; !stopped(pid); {
			time.Sleep(time.Millisecond)
		}
		cancel(tasks.ErrCancelled)
	}()
	r, err := exec.Run(ctx, shell("trap 'exit 7' TERM; echo $$; kill -STOP $$; sleep 1000"), out, exec.Policy{Grace: 10 * time.Second})
	if r.ExitCode != 7 {
		t.Errorf("Run = %+v, %v, want exit code 7", r, err)
	}
}

// TestRun_Deadline: a timeout of the worker is kept within the grace, even with a tree that ignores SIGTERM.
func TestRun_Deadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, tasks.ErrTimeout)
	defer cancel()
	began := time.Now()
	_, err := exec.Run(ctx, shell("sleep 1000"), newBuffer(t), exec.Policy{})
	if took := time.Since(began); !errors.Is(err, tasks.ErrTimeout) || took < 500*time.Millisecond || took > 4*time.Second {
		t.Errorf("Run error = %v after %s, want ErrTimeout after 500 ms", err, took)
	}
}

// TestRun_SparesStrangers: stopping one command leaves another, and what this process started otherwise, alone.
func TestRun_SparesStrangers(t *testing.T) {
	t.Parallel()
	stranger := osexec.Command("sleep", "1000")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	}()
	other := newBuffer(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = exec.Run(ctx, shell(report), other, exec.Policy{})
	}()
	pid := other.await(1)[0][0]
	if _, err := exec.Run(t.Context(), shell("setsid sleep 1000 & exit 0"), newBuffer(t), exec.Policy{Grace: -1}); err != nil {
		t.Error(err)
	}
	if !alive(t, pid) || !alive(t, strconv.Itoa(stranger.Process.Pid)) {
		t.Error("a process of somebody else was killed")
	}
	cancel()
	<-done
	mustBeDead(t, pid)
}

// TestRun_ThreadChurn: the command does not die when threads of this process come and go (Pdeathsig is per thread).
func TestRun_ThreadChurn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	out := newBuffer(t)
	done := make(chan error, 1)
	go func() {
		_, err := exec.Run(ctx, shell("echo up; sleep 0.5; echo through"), out, exec.Policy{})
		done <- err
	}()
	out.await(1)
	churnThreads(64)
	if err := <-done; err != nil || out.String() != "up\nthrough\n" {
		t.Errorf("Run error = %v with output %q", err, out)
	}
	cancel()
}

// churnThreads ends n threads: a goroutine that dies locked to its thread takes it along.
func churnThreads(n int) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(runtime.LockOSThread)
	}
	wg.Wait()
}

// TestSweep: a killed daemon's command dies with it; what that command started is found by the next daemon. It is not
// parallel: it would do the kernel's work in TestRun_CommandDiesWithDaemon.
func TestSweep(t *testing.T) {
	payload := shell("(setsid " + report + " &); echo $$; sleep 1000")
	daemon, out := startDaemon(t, "plain", payload)
	lines := out.await(2)
	if _, err := exec.Sweep(); err != nil || !alive(t, lines[0][0]) || !alive(t, lines[1][0]) {
		t.Errorf("Sweep (error %v) killed processes of a daemon that lives", err)
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	for deadline := time.Now().Add(10 * time.Second); alive(t, lines[0][0]) || alive(t, lines[1][0]); {
		if _, err := exec.Sweep(); err != nil {
			t.Error(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("processes of a dead daemon live on after Sweep")
		}
	}
}

// TestRun_CommandDiesWithDaemon: SIGKILL of the daemon reaches the command itself at once.
func TestRun_CommandDiesWithDaemon(t *testing.T) {
	t.Parallel()
	daemon, out := startDaemon(t, "plain", shell("echo $$; exec sleep 1000"))
	pid := out.await(1)[0][0]
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	eventuallyDead(t, pid)
}

// TestRun_ReapsOrphans: as the init of a container, the daemon is left with no zombie of a command's tree.
func TestRun_ReapsOrphans(t *testing.T) {
	t.Parallel()
	daemon, out := startDaemon(t, "init", shell("(setsid "+report+" &); "+report+" & sleep 0.2; exit 0"))
	if err := daemon.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "run: <nil>") || !strings.Contains(got, "children left: false") {
		t.Errorf("daemon said %q, want no children left", got)
	}
}

func startDaemon(t *testing.T, mode string, payload []byte) (*osexec.Cmd, *buffer) {
	t.Helper()
	daemon := osexec.Command(os.Args[0], string(payload))
	daemon.Env = append(os.Environ(), daemonMode+"="+mode)
	out := newBuffer(t)
	daemon.Stdout, daemon.Stderr = out, os.Stderr
	daemon.WaitDelay = time.Second
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Process.Kill() })
	return daemon, out
}
