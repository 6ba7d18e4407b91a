package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"offstage/client"
	"offstage/tasks"
)

// execPayload is what a task of type exec takes.
type execPayload struct {
	Argv  []string          `json:"argv"`
	Env   map[string]string `json:"env,omitempty"`
	Cwd   string            `json:"cwd,omitempty"`
	Stdin string            `json:"stdin,omitempty"`
}

// runFlags are the flags of `run`.
type runFlags struct {
	specFlags
	env   []string
	cwd   string
	stdin bool
}

func newRunCommand(a *app) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run a command on the daemon, stream its output, exit with its code",
		Long: `Run a command as a task of type exec on the daemon's machine, print its output as it comes, and exit with the
command's own exit code. A failed command is not repeated unless --max-retries says so.

Ctrl-C or SIGTERM cancels the task and stays until it is gone; the second one leaves at once. Losing the connection
does not cancel: the command goes on where it was when the daemon is back within a minute, and later
'offstage task watch' does.`,
		Example: `  offstage run -- sh -c 'for i in 1 2 3; do echo line $i; sleep 1; done'
  offstage run --cwd . --timeout 1h -- make test`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := flags.build(cmd.Flags())
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("max-retries") {
				spec.MaxRetries = new(0)
			}
			spec.Type, spec.Owner = "exec", a.owner
			if spec.Payload, err = flags.payload(a, args); err != nil {
				return err
			}
			return a.runTask(cmd.Context(), spec)
		},
	}
	flags.add(cmd.Flags())
	a.ownerFlag(cmd.Flags())
	cmd.Flags().StringArrayVar(&flags.env, "env", nil, "NAME=value for the command, may be repeated")
	cmd.Flags().StringVar(&flags.cwd, "cwd", "", "directory to run in, on the daemon's machine (default: the daemon's)")
	cmd.Flags().BoolVar(&flags.stdin, "stdin", false, "read stdin to its end and give it to the command")
	cmd.Flags().SetInterspersed(false) // flags behind the command are the command's
	return cmd
}

func (f *runFlags) payload(a *app, argv []string) (any, error) {
	p := execPayload{Argv: argv, Cwd: f.cwd}
	for _, pair := range f.env {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usagef("--env %q is not NAME=value", pair)
		}
		if p.Env == nil {
			p.Env = map[string]string{}
		}
		p.Env[name] = value
	}
	if f.cwd != "" {
		abs, err := filepath.Abs(f.cwd)
		if err != nil {
			return nil, fmt.Errorf("--cwd %s: %w", f.cwd, err)
		}
		p.Cwd = abs
	}
	if f.stdin {
		b, err := io.ReadAll(io.LimitReader(a.stdin, maxInputBytes))
		if err != nil {
			return nil, fmt.Errorf("read stdin: %w", err)
		}
		p.Stdin = string(b)
	}
	return p, nil
}

// runTask hands the task in, follows it to its end and turns that into the exit code.
func (a *app) runTask(ctx context.Context, spec tasks.Spec) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	signals, stop := a.signals()
	defer stop()

	ctx, leave := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer leave(nil)
	k := &interrupter{a: a, c: c, leave: leave, accepted: make(chan tasks.Ref, 1)}
	wg.Go(func() { k.listen(ctx, signals) })

	t, _, err := c.Enqueue(ctx, spec)
	if err != nil {
		return err
	}
	ref := tasks.Ref{ID: t.ID, Owner: t.Owner}
	k.accepted <- ref
	a.talk("task %s (%s)", t.ID, t.Handle)
	f := &follower{a: a, c: c, ref: ref, opts: client.FollowOptions{Poll: 10 * time.Second}, seen: a.sayWhenStuck()}
	if t, err = f.run(ctx); err != nil {
		return err
	}
	return commandOutcome(t)
}

// sayWhenStuck tells the person once that no worker takes the task.
func (a *app) sayWhenStuck() func(context.Context, *client.Output) error {
	said, first := false, true
	return func(_ context.Context, out *client.Output) error {
		if out.Status == tasks.Pending && !first && !said {
			said = true
			a.talk("no worker has taken it yet ('offstage worker list' shows who could)")
		}
		first = false
		return nil
	}
}
