package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"offstage/tasks"
)

// The exit codes of commands that were not started, as a shell reports them.
const (
	exitNotStarted = 126
	exitNoCommand  = 127
	exitUnknown    = -1
)

// Result is how a command ended.
type Result struct {
	// ExitCode is what the command returned; 128 + the signal's number when one killed it; 126 when it was not started,
	// 127 when there is no such command; -1 when it could not be killed.
	ExitCode int `json:"exit_code"`
	// Signal names the signal that killed the command, like "SIGKILL"; empty when it returned.
	Signal string `json:"signal,omitempty"`
	// Command is the command as a person would write it, at most 500 characters. It has no environment and no input.
	Command string `json:"command"`
	// DurationMS is the time from the start of the command to the end of its first process, in milliseconds.
	DurationMS int64 `json:"duration_ms"`
}

// Run checks payload as [Check] does, runs its command and returns once every process of it is dead and reaped. When
// ctx ends, the command is stopped, which takes at most the grace and 2 s more, and the error wraps the cause of ctx.
// There is no grace when the cause is tasks.ErrLeaseLost: the task may run elsewhere already.
// When the command ends by itself, what it left running is stopped the same way.
//
// Output of both kinds goes to out as it comes: one Write at a time, each valid UTF-8. After an error of out the rest
// is read and dropped; the command goes on. Run does not return while a Write is under way, so out must not block for
// ever.
//
// The Result is meaningful beside an error too. A command that cannot start is [tasks.Permanent], a refused payload
// [tasks.Rejected]; an exit code that is not ok, or death by a signal, is a plain error that ends with the last lines
// of stderr. Run may be called from any number of goroutines; each call holds one OS thread.
func Run(ctx context.Context, payload []byte, out io.Writer, p Policy) (Result, error) {
	c, err := parse(payload, p)
	if err != nil {
		return Result{ExitCode: exitNotStarted}, err
	}
	r := Result{ExitCode: exitNotStarted, Command: c.text()}
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	file, err := c.file(p)
	if err != nil {
		r.ExitCode = exitNoCommand
		return r, tasks.Permanent(err)
	}
	began := time.Now()
	k, err := start(launch{file: file, argv: c.argv, env: p.environment(c.env), cwd: c.cwd, stdin: c.stdin}, out)
	if err != nil {
		return r.notStarted(err, file, c.cwd)
	}
	stopped, survivors := k.supervise(ctx, p.grace())
	r.end(k, began)
	return r, r.verdict(c, stopped, context.Cause(ctx), survivors, k.stderr)
}

func (r Result) notStarted(cause error, file, cwd string) (Result, error) {
	permanent, err := startError(cause, file, cwd)
	if errors.Is(err, errNoCommand) {
		r.ExitCode = exitNoCommand
	}
	if permanent {
		err = tasks.Permanent(err)
	}
	return r, err
}

// end fills in how the first process ended.
func (r *Result) end(k *child, began time.Time) {
	select {
	case <-k.reaped:
	default:
		r.ExitCode, r.DurationMS = exitUnknown, time.Since(began).Milliseconds()
		return
	}
	r.DurationMS = k.ended.Sub(began).Milliseconds()
	status, ok := exitStatus(k.state)
	switch {
	case !ok:
		r.ExitCode = exitUnknown
	case status.Signaled():
		r.Signal = unix.SignalName(status.Signal())
		r.ExitCode = 128 + int(status.Signal())
	default:
		r.ExitCode = status.ExitStatus()
	}
}

func exitStatus(state *os.ProcessState) (syscall.WaitStatus, bool) {
	if state == nil {
		return 0, false
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	return status, ok
}

// verdict is Run's error.
func (r *Result) verdict(c *command, stopped bool, cause error, survivors []process, stderr *stream) error {
	left := ""
	if len(survivors) > 0 {
		left = "; not killed: " + list(survivors)
	}
	switch {
	case stopped:
		return fmt.Errorf("%w: %s%s", cause, r.how(), left)
	case r.Signal == "" && c.ok(r.ExitCode) && left == "":
		return nil
	}
	message := r.how() + left
	if lines := stderr.lastLines(); lines != "" {
		message += ": " + lines
	}
	return errors.New(message)
}

func (r *Result) how() string {
	switch {
	case r.Signal != "":
		return "killed by " + r.Signal
	case r.ExitCode == exitUnknown:
		return "did not end"
	}
	return fmt.Sprintf("exit status %d", r.ExitCode)
}

// list names at most ten processes.
func list(processes []process) string {
	var pids []string
	for _, p := range processes[:min(len(processes), 10)] {
		pids = append(pids, fmt.Sprint(p.pid))
	}
	text := "process " + strings.Join(pids, ", ")
	if more := len(processes) - len(pids); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
