package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"offstage/config"
	"offstage/internal/lifecycle"
	"offstage/queue"
)

func newServeCommand(a *app) *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the daemon",
		Long: `Run the daemon: the HTTP API, the dashboard, the metrics and a worker.

Without redis.url it keeps everything in this process (embedded mode), for trying out and tests.
SIGTERM and SIGINT drain it; a second one stops it at once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(from.source(a, cmd.Flags()))
			if err != nil {
				return err
			}
			if err := refuseTokens(cfg); err != nil {
				return err
			}
			return a.serve(cmd.Context(), cfg)
		},
	}
	from.add(a, cmd.Flags())
	return cmd
}

// refuseTokens keeps a daemon from looking guarded: this version does not check tokens.
func refuseTokens(cfg config.Config) error {
	if len(cfg.Auth.Tokens) == 0 {
		return nil
	}
	return config.Faults{{
		Key: "auth.tokens", Reason: "this version does not check tokens",
		Hint: "remove them and listen on a loopback address, behind a proxy that checks who calls",
	}}
}

// serve runs the daemon until a signal ends it.
func (a *app) serve(ctx context.Context, cfg config.Config) error {
	log := newLogger(a.stderr, cfg.Log)
	queue.LogDriver(log)
	ctx, force, stop := lifecycle.Signals(ctx, log)
	defer stop()
	d := &daemon{app: a, cfg: cfg, log: log, force: force}
	err := lifecycle.Runner{Logger: log, Force: force}.Run(ctx, d.parts()...)
	if errors.Is(err, lifecycle.ErrForced) {
		// Handlers may still run, and nothing here can end them but the end of the process.
		return &exitError{exitFailed, "stopped at once; tasks that were running start again elsewhere"}
	}
	return err
}

// parts are what the daemon is made of, in the order of their start.
func (d *daemon) parts() []lifecycle.Part {
	parts := []lifecycle.Part{
		{Name: "redis", Run: d.runQueue},
		{Name: "http", Run: d.runHTTP, StopTimeout: 15 * time.Second},
	}
	if d.cfg.Worker.Enabled {
		parts = append(parts, lifecycle.Part{
			Name: "worker", Run: d.runWorker,
			StopTimeout: d.cfg.DrainTimeout + d.cfg.CancelGrace + 10*time.Second,
		})
	}
	return append(parts, lifecycle.Part{Name: "greeting", Run: d.greet})
}

// greet is the last step of the start: it says where everything is.
func (d *daemon) greet(context.Context, func()) error {
	base := "http://" + d.addr
	d.app.talk("API        %s/v1/tasks", base)
	if d.cfg.Monitoring.Enabled {
		d.app.talk("dashboard  %s/monitoring/", base)
	}
	d.app.talk("metrics    %s/metrics", base)
	if d.cfg.Embedded() {
		d.app.talk("embedded mode: NOTHING SURVIVES this process; set redis.url to keep tasks")
	} else {
		d.app.talk("durability %s", d.durability)
	}
	if d.cfg.ExecEnabled() && d.cfg.Worker.Enabled {
		server := ""
		if base != "http://"+config.Default().Listen {
			server = " --server " + base
		}
		d.app.talk("try it:    %s run%s -- echo hello", os.Args[0], server)
	}
	return nil
}

func newLogger(w interface{ Write([]byte) (int, error) }, c config.Log) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // has been validated
	opts := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// durabilityText explains the fsync policy in force to a person.
func durabilityText(policy queue.Durability) string {
	switch policy {
	case "always":
		return "always: what was accepted survives a crash of Redis and of its machine"
	case "everysec":
		return "everysec: a crash of Redis or its machine may lose the last two seconds"
	case "none":
		return "NONE: a crash of Redis may lose tasks; 'offstage doctor' tells why, and the way out"
	}
	return fmt.Sprintf("%s: Redis does not tell its fsync policy (CONFIG GET is refused)", policy)
}
