package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"offstage/config"
	"offstage/queue"
	"offstage/tasks"
)

// doctorTimeout bounds the whole examination.
const doctorTimeout = 2 * time.Minute

func newDoctorCommand(a *app) *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "doctor", Short: "Examine configuration, spool, Redis and queues, and say the way out of what is wrong",
		Long: `Examine configuration, spool, Redis and queues, and say the way out of what is wrong.

It needs Redis, not the daemon, and reads the same configuration as serve. It changes nothing but keys of its own,
which live for a minute at the most.
Exit code 0 when nothing failed, 1 when something did, 7 when Redis does not answer.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(from.source(a, cmd.Flags()))
			return a.doctor(cmd.Context(), cfg, err)
		},
	}
	from.add(a, cmd.Flags())
	return cmd
}

// doctor examines everything that a daemon with cfg would use. faults is what is wrong with cfg; it holds defaults
// there.
func (a *app) doctor(ctx context.Context, cfg config.Config, faults error) error {
	queue.LogDriver(slog.New(slog.DiscardHandler)) // what it says comes back as a finding
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	found := slices.Concat(examineConfig(faults), examineSpool(cfg.DataDir))
	redis, err := examineRedis(ctx, cfg, faults)
	found = append(found, redis...)
	if err := a.show(found, func() error { return a.findings(found) }); err != nil {
		return err
	}
	failed := 0
	for _, f := range found {
		if f.Level == queue.Fail {
			failed++
		}
	}
	switch {
	case errors.Is(err, tasks.ErrUnavailable):
		return &exitError{exitUnreachable, "Redis does not answer"}
	case failed == 1:
		return &exitError{exitFailed, "1 check failed"}
	case failed > 1:
		return &exitError{exitFailed, fmt.Sprintf("%d checks failed", failed)}
	}
	return nil
}

func (a *app) findings(found []queue.Finding) error {
	rows := [][]string{{"LEVEL", "CHECK", "FINDING -> WAY OUT"}} // one column: most findings have no way out
	for _, f := range found {
		text := f.Finding
		if f.WayOut != "" {
			text += " -> " + f.WayOut
		}
		rows = append(rows, []string{string(f.Level), f.Check, text})
	}
	return a.table(rows)
}

func examineConfig(err error) []queue.Finding {
	faults, ok := errors.AsType[config.Faults](err)
	if !ok && err != nil {
		return []queue.Finding{{Level: queue.Fail, Check: "config", Finding: err.Error()}}
	}
	if len(faults) == 0 {
		return []queue.Finding{{Level: queue.OK, Check: "config", Finding: "valid"}}
	}
	var found []queue.Finding
	for _, f := range faults {
		text := *f
		text.Hint = ""
		found = append(found, queue.Finding{Level: queue.Fail, Check: "config", Finding: text.Error(), WayOut: f.Hint})
	}
	return found
}

// examineRedis asks Redis, if the configuration says which one.
func examineRedis(ctx context.Context, cfg config.Config, err error) ([]queue.Finding, error) {
	faults, _ := errors.AsType[config.Faults](err)
	if slices.ContainsFunc(faults, func(f *config.Fault) bool { return strings.HasPrefix(f.Key, "redis.url") }) {
		return nil, nil // said already
	}
	if cfg.Embedded() {
		return []queue.Finding{{Level: queue.Warn, Check: "redis", Finding: "embedded mode: nothing survives the daemon's process",
			WayOut: "set redis.url to keep tasks"}}, nil
	}
	found, err := queue.Doctor(ctx, cfg.Redis.URL.Reveal(), queue.DoctorOptions{
		RequireDurability: queue.Durability(cfg.Redis.RequireDurability), WaitReplicas: cfg.Redis.WaitReplicas,
	})
	if err != nil && !errors.Is(err, tasks.ErrUnavailable) {
		return []queue.Finding{{Level: queue.Fail, Check: "config", Finding: err.Error(), WayOut: "correct redis.url"}}, nil
	}
	return found, err
}
