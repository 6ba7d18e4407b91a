package faults

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"offstage/tasks"
)

// bodyCommand is the first argument of a test binary that plays a body.
const bodyCommand = "faults-body"

// Work is what a body does.
type Work struct {
	For time.Duration
	// First is what the first run takes, instead of For; zero means no difference.
	First    time.Duration
	Fail     int  // how many runs end with exit code 1
	Stubborn bool // it ignores SIGTERM
	Murder   bool // it kills its daemon
	Garbage  bool // it writes a megabyte of bytes that are no text to stderr, and fails
}

// Spec is an exec task that does the work and writes it down under key.
func (l *Ledger) Spec(owner, key string, w Work) tasks.Spec {
	self, err := os.Executable()
	if err != nil {
		panic(err) // a test binary without a path
	}
	argv := []string{self, bodyCommand, l.Path, key, w.For.String(), w.First.String(), fmt.Sprint(w.Fail)}
	for name, on := range map[string]bool{"stubborn": w.Stubborn, "murder": w.Murder, "garbage": w.Garbage} {
		if on {
			argv = append(argv, name)
		}
	}
	return tasks.Spec{Type: "exec", Owner: owner, Payload: map[string]any{"argv": argv}, IdempotencyKey: key}
}

// Body plays a body when the process was started as one; it does not return then. Call it first in TestMain.
func Body() {
	if len(os.Args) < 7 || os.Args[1] != bodyCommand {
		return
	}
	code, err := play(os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 99
	}
	os.Exit(code) //nolint:revive // this process is a body and nothing else
}

func play(args []string) (code int, err error) {
	l := &Ledger{args[0]}
	var w Work
	var errs [3]error
	w.For, errs[0] = time.ParseDuration(args[2])
	w.First, errs[1] = time.ParseDuration(args[3])
	_, errs[2] = fmt.Sscan(args[4], &w.Fail)
	if err := errors.Join(errs[:]...); err != nil {
		return 0, err
	}
	flags := strings.Join(args[5:], " ")
	w.Stubborn, w.Murder, w.Garbage = strings.Contains(flags, "stubborn"), strings.Contains(flags, "murder"), strings.Contains(flags, "garbage")
	before := l.Of(args[1])
	if len(before) == 0 && w.First > 0 {
		w.For = w.First
	}
	return w.do(l, line{Key: args[1], Run: runName(), PID: os.Getpid(), Daemon: os.Getppid()}, failures(before))
}

// runName tells attempts apart: the daemon marks each with a variable.
func runName() string {
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "OFFSTAGE_") {
			return v
		}
	}
	return fmt.Sprint(os.Getpid(), time.Now().UnixNano())
}

func failures(runs []*Run) int {
	n := 0
	for _, r := range runs {
		if r.Done && r.Code != 0 {
			n++
		}
	}
	return n
}

func (w Work) do(l *Ledger, e line, failed int) (code int, err error) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if err := l.note(e, lineStart, 0); err != nil {
		return 0, err
	}
	fmt.Println("body", e.Key, "runs")
	if w.Murder {
		_ = syscall.Kill(e.Daemon, syscall.SIGKILL)
	}
	over := time.NewTimer(w.For)
	tick := time.NewTicker(25 * time.Millisecond)
	for {
		select {
		case <-over.C:
			if w.Garbage {
				_, _ = os.Stderr.Write(bytes.Repeat([]byte("\xff\x00\x1b[31m\x1b]0;x\x07"), 1<<16))
			}
			if failed < w.Fail || w.Garbage {
				code = 1
			}
			return code, l.note(e, lineEnd, code)
		case <-tick.C:
			if err := l.note(e, lineAlive, 0); err != nil {
				return 0, err
			}
		case <-stop:
			if err := l.note(e, lineTerm, 0); err != nil || !w.Stubborn {
				return 143, err
			}
		}
	}
}

func (l *Ledger) note(e line, kind string, code int) error {
	e.Kind, e.Code = kind, code
	return l.append(e)
}
