package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"offstage/client"
)

const rootLong = `offstage runs background tasks that always end with a recorded outcome.

Start the daemon with 'offstage serve'. All other commands talk to it.

A TASK is an id (default.01k5...) or, together with --owner, a handle (bg_3).

Environment:
  OFFSTAGE_SERVER  default of --server
  OFFSTAGE_TOKEN   default of --token; OFFSTAGE_TOKEN_FILE names a file with it
  OFFSTAGE_OWNER   default of --owner
  OFFSTAGE_CONFIG  default of --config, for serve, doctor and config
  NO_COLOR         no colours, whatever its value

Exit codes:
  0  ok                        5    the task failed
  1  failed                    6    the task was cancelled
  2  usage                     7    server or Redis unreachable
  3  not found                 124  the wait ran out
  4  conflict                       ('run' exits with the command's own code)`

func newRootCommand(a *app) *cobra.Command {
	root := newGroup("offstage", "Background tasks that always end with a recorded outcome")
	root.Long = rootLong
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	flags := root.PersistentFlags()
	flags.StringVar(&a.server, "server", cmp.Or(a.env("OFFSTAGE_SERVER"), client.DefaultServer), "URL of the daemon")
	flags.StringVar(&a.token, "token", "", "bearer token (default: OFFSTAGE_TOKEN)")
	flags.StringVarP(&a.format, "output", "o", "table", "how data is written: table or json")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		a.started = true
		if err := a.findToken(); err != nil {
			return err
		}
		if a.format != "table" && a.format != "json" {
			return usagef("--output %q is neither table nor json", a.format)
		}
		return nil
	}
	root.AddCommand(
		newServeCommand(a),
		newEnqueueCommand(a),
		newRunCommand(a),
		newTaskCommand(a),
		newQueueCommand(a),
		newWorkerCommand(a),
		newConfigCommand(a),
		newDoctorCommand(a),
		newHealthcheckCommand(a),
		newVersionCommand(a),
	)
	return root
}

// findToken takes the token from the environment unless there was a flag. It is not the flag's default, because help
// prints that.
func (a *app) findToken() error {
	if a.token = cmp.Or(a.token, a.env("OFFSTAGE_TOKEN")); a.token != "" || a.env("OFFSTAGE_TOKEN_FILE") == "" {
		return nil
	}
	b, err := os.ReadFile(a.env("OFFSTAGE_TOKEN_FILE"))
	if err != nil {
		return usagef("OFFSTAGE_TOKEN_FILE: %w", err)
	}
	a.token = strings.TrimSpace(string(b))
	return nil
}

// newGroup makes a command that only holds others: on its own it is a usage error.
func newGroup(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			if err := cmd.Help(); err != nil {
				return fmt.Errorf("help: %w", err)
			}
			return &exitError{code: exitUsage}
		},
	}
}

// ownerFlag adds --owner to a command for whom it means something.
func (a *app) ownerFlag(flags *pflag.FlagSet) {
	flags.StringVar(&a.owner, "owner", cmp.Or(a.env("OFFSTAGE_OWNER"), "cli"), "who the task belongs to")
}
