package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"offstage/client"
	"offstage/tasks"
)

const (
	cardOutputLines = 20
	cardJSONChars   = 400
)

func newTaskGetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "get TASK", Short: "Show one task", Args: cobra.ExactArgs(1),
		RunE: a.oneTask(func(ctx context.Context, c *client.Client, ref tasks.Ref) error {
			t, err := c.Get(ctx, ref)
			if err != nil {
				return err
			}
			return a.show(t, func() error { return a.write(a.card(t)) })
		}),
	}
}

// card is a task for people to read: what it is, how it stands, why, and the end of what it wrote.
func (a *app) card(t *tasks.Task) string {
	k := &card{}
	k.add("task", t.ID+also(t.Handle))
	k.add("status", a.paint(string(t.Status))+also(exitText(t)))
	k.add("type", t.Type)
	k.add("owner", t.Owner)
	k.add("queue", t.Queue)
	k.add("name", t.Name)
	k.add("description", strings.ReplaceAll(t.Description, "\n", " "))
	k.add("metadata", pairs(t.Metadata))
	k.add("parent", parentText(t.Parent))
	k.add("progress", progressText(t))
	k.add("attempt", attemptText(t))
	k.add("worker", t.Worker)
	k.add("cancel", a.cancelText(t.Cancel))
	k.add("error", errorText(t.Error))
	a.cardTimes(k, t)
	k.add("payload", shorten(string(t.Payload)))
	k.add("result", shorten(string(t.Result)))
	cardAttempts(k, t)
	cardOutput(k, t)
	return k.String()
}

func (a *app) cardTimes(k *card, t *tasks.Task) {
	k.add("created", a.at(t.CreatedAt))
	k.add("scheduled", a.at(t.ScheduledAt))
	k.add("started", a.at(t.StartedAt))
	ended := a.at(t.CompletedAt)
	if ended != "" && !t.StartedAt.IsZero() {
		ended += ", ran " + t.CompletedAt.Sub(t.StartedAt.Time).Round(time.Millisecond).String()
	}
	k.add("ended", ended)
	k.add("deadline", a.at(t.Deadline))
	k.add("expires", a.at(t.ExpiresAt))
}

func cardAttempts(k *card, t *tasks.Task) {
	if len(t.Errors) == 0 {
		return
	}
	k.title("failed attempts")
	for _, f := range t.Errors {
		k.text(fmt.Sprintf("%d  %s  %s: %s", f.Attempt, clock(f.At), f.Kind, oneLine(f.Message)))
	}
}

func cardOutput(k *card, t *tasks.Task) {
	if t.Output == "" {
		return
	}
	lines := strings.Split(strings.TrimRight(t.Output, "\n"), "\n")
	cut := t.OutputCut > 0 || len(lines) > cardOutputLines
	if lines = lines[max(0, len(lines)-cardOutputLines):]; cut {
		k.title("output (the end of it; 'offstage task output " + t.ID + "' has more)")
	} else {
		k.title("output")
	}
	for _, line := range lines {
		k.text(printable(strings.ReplaceAll(strings.TrimRight(line, "\r"), "\t", "    ")))
	}
}

// at is a time with how far away it is; empty for the zero time.
func (a *app) at(t tasks.Time) string {
	if t.IsZero() {
		return ""
	}
	if d := t.Sub(a.now()); d > 0 {
		return clock(t) + " (in " + rough(d) + ")"
	}
	return clock(t) + " (" + a.ago(t) + " ago)"
}

func (a *app) cancelText(c *tasks.Cancel) string {
	if c == nil {
		return ""
	}
	s := "asked for " + a.at(c.RequestedAt)
	if c.By != "" {
		s += " by " + c.By
	}
	if c.Reason != "" {
		s += ": " + c.Reason
	}
	if c.Abandoned {
		s += " (its handler has not let go)"
	}
	return s
}

func clock(t tasks.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }

// also puts s in brackets behind something; nothing for an empty s.
func also(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func exitText(t *tasks.Task) string {
	if code, ok := commandExit(t); ok {
		return fmt.Sprintf("exit code %d", code)
	}
	return ""
}

func progressText(t *tasks.Task) string {
	if t.Progress == 0 || t.Status == tasks.Completed {
		return ""
	}
	return fmt.Sprintf("%.0f %%", t.Progress*100)
}

func attemptText(t *tasks.Task) string {
	s := fmt.Sprintf("%d (max_retries %d", t.Attempt, t.MaxRetries)
	if t.Interruptions > 0 {
		s += fmt.Sprintf(", interrupted %d times", t.Interruptions)
	}
	return s + ")"
}

func errorText(e *tasks.Error) string {
	if e == nil {
		return ""
	}
	return string(e.Kind) + ": " + oneLine(e.Message)
}

func parentText(p *tasks.Parent) string {
	if p == nil {
		return ""
	}
	return pairs(map[string]string{"task": p.TaskID, "run": p.RunID, "call": p.CallID, "agent": p.AgentID})
}

// pairs is m as "k=v k2=v2" without empty values.
func pairs(m map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if m[key] != "" {
			out = append(out, key+"="+m[key])
		}
	}
	return strings.Join(out, " ")
}

func shorten(s string) string {
	r := []rune(s)
	if len(r) <= cardJSONChars {
		return s
	}
	return string(r[:cardJSONChars]) + "… (-o json has all)"
}
