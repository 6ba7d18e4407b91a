package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"offstage/client"
)

func newHealthcheckCommand(a *app) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask the daemon whether it is ready: exit 0 if it is, 1 if not, 7 if it does not answer",
		Args:  cobra.NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			ctx, cancel := context.WithTimeoutCause(ctx, timeout, &exitError{exitUnreachable,
				"offstage at " + a.server + " does not answer within " + timeout.String()})
			defer cancel()
			h, err := c.Ready(ctx)
			if err != nil {
				return err
			}
			return a.showHealth(h)
		}),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for the answer")
	return cmd
}

func (a *app) showHealth(h *client.Health) error {
	err := a.show(h, func() error {
		k := &card{}
		k.add("ready", map[bool]string{true: "yes", false: "no"}[h.Ready])
		k.add("redis", h.Redis)
		k.add("durability", h.Durability)
		k.add("version", h.Version)
		return a.write(k.String())
	})
	if err == nil && !h.Ready {
		err = &exitError{exitFailed, strings.TrimRight("not ready: "+strings.Join(h.Problems, "; "), ": ")}
	}
	return err
}
