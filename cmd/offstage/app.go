package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"offstage/client"
	"offstage/tasks"
)

// app is what every command works with: the streams and environment of the process, and the global flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	// signals starts listening for SIGINT and SIGTERM; the func ends that.
	signals func() (<-chan os.Signal, func())
	now     func() time.Time
	colour  bool

	server, token, owner, format string

	// started is set when the command line was understood and a command took over.
	started bool
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, environ []string) *app {
	a := &app{stdin: stdin, stdout: stdout, stderr: &oneAtATime{w: stderr}, environ: environ, signals: processSignals, now: time.Now}
	a.colour = isTerminal(stdout) && a.env("NO_COLOR") == "" && a.env("TERM") != "dumb"
	return a
}

func (a *app) run(ctx context.Context, args []string) int {
	root := newRootCommand(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !a.started {
		err = &usageError{err} // found by cobra before any of our code ran
	}
	a.report(err, cmd.CommandPath())
	return exitCode(err)
}

// env is the value of an environment variable; empty when it is not set. The last of several wins.
func (a *app) env(name string) string {
	for _, pair := range slices.Backward(a.environ) {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			return v
		}
	}
	return ""
}

// talk writes one line for the person to stderr.
func (a *app) talk(format string, args ...any) {
	_, _ = fmt.Fprintf(a.stderr, "offstage: "+format+"\n", args...)
}

// client makes a client of the daemon that the flags name. The caller closes it.
func (a *app) client() (*client.Client, error) {
	var first sync.Once // what comes of it is said at the end
	c, err := client.New(a.server, client.Options{
		Token: a.token, UserAgent: "offstage-cli/" + buildVersion(),
		OnRetry: func(err error, after time.Duration) {
			if after >= time.Second { // a shorter one is over before it is read
				first.Do(func() { a.talk("%s; trying again", plain(err)) })
			}
		},
	})
	if err != nil {
		return nil, &usageError{fmt.Errorf("--%w", err)}
	}
	return c, nil
}

// ref is the task that an argument names. A handle (bg_3) counts per owner, so it needs one; an id says it all, and
// the owner goes with it only when --owner was given.
func (a *app) ref(arg string, ownerGiven bool) tasks.Ref {
	if strings.Contains(arg, ".") && !ownerGiven {
		return tasks.Ref{ID: arg}
	}
	return tasks.Ref{ID: arg, Owner: a.owner}
}

func processSignals() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c, func() { signal.Stop(c) }
}

// oneAtATime lets several goroutines talk without mixing their lines.
type oneAtATime struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *oneAtATime) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(b)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
