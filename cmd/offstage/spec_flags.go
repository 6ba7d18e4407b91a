package main

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"offstage/tasks"
)

// specFlags are the flags that describe a task, shared by the commands that hand one in.
type specFlags struct {
	spec       tasks.Spec
	maxRetries int
	timeout    time.Duration
	backoff    time.Duration
	backoffMax time.Duration
	runAt      moment
	deadline   moment
	metadata   []string
	parent     string
}

func (s *specFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&s.spec.Name, "name", "", "a name, unique among the owner's unfinished tasks")
	flags.StringVar(&s.spec.Description, "description", "", "what it is for")
	flags.StringVar(&s.spec.Queue, "queue", "", "the queue (default \"default\")")
	flags.StringArrayVar(&s.metadata, "metadata", nil, "key=value, may be repeated")
	flags.StringVar(&s.parent, "parent", "", "id of the task it belongs to")
	flags.DurationVar(&s.spec.Delay, "delay", 0, "start no earlier than in so long")
	flags.Var(&s.runAt, "run-at", "start no earlier than at this time, RFC 3339")
	flags.DurationVar(&s.timeout, "timeout", 0, "bound of one attempt, 0 for none (default: the daemon's, 30m)")
	flags.Var(&s.deadline, "deadline", "fail when it has not ended by this time, RFC 3339")
	flags.IntVar(&s.maxRetries, "max-retries", 0, "how often a failed attempt is repeated")
	flags.DurationVar(&s.backoff, "backoff", 0, "pause before the first retry (default 1s)")
	flags.DurationVar(&s.backoffMax, "backoff-max", 0, "longest pause between retries (default 10m)")
	flags.DurationVar(&s.spec.Retention, "retention", 0, "how long the record stays after the end (default: the daemon's, 24h)")
	flags.StringVar(&s.spec.IdempotencyKey, "idempotency-key", "", "the same key names the same task for 24h")
}

// build makes the spec of what was given. Only flags that were set are sent: for the rest the daemon has defaults.
func (s *specFlags) build(flags *pflag.FlagSet) (tasks.Spec, error) {
	spec := s.spec
	spec.RunAt, spec.Deadline = s.runAt.Time, s.deadline.Time
	if flags.Changed("max-retries") {
		spec.MaxRetries = new(s.maxRetries)
	}
	if flags.Changed("timeout") {
		spec.Timeout = new(s.timeout)
	}
	if flags.Changed("backoff") || flags.Changed("backoff-max") {
		spec.Backoff = &tasks.Backoff{Base: tasks.Duration(s.backoff), Max: tasks.Duration(s.backoffMax)}
	}
	if flags.Changed("retention") && spec.Retention == 0 {
		return spec, usagef("--retention 0 keeps nothing (the least is 1s)")
	}
	if s.parent != "" {
		spec.Parent = &tasks.Parent{TaskID: s.parent}
	}
	for _, pair := range s.metadata {
		key, value, ok := strings.Cut(pair, "=")
		if _, twice := spec.Metadata[key]; !ok || key == "" || twice {
			return spec, usagef("--metadata %q is not key=value with a key of its own", pair)
		}
		if spec.Metadata == nil {
			spec.Metadata = map[string]string{}
		}
		spec.Metadata[key] = value
	}
	return spec, nil
}

// moment is a flag that takes an RFC 3339 time.
type moment struct{ time.Time }

// Set implements pflag.Value.
func (m *moment) Set(s string) error {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return usagef("not a time like 2026-11-20T11:00:00Z")
	}
	m.Time = t
	return nil
}

// String implements pflag.Value.
func (m *moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Format(time.RFC3339)
}

// Type implements pflag.Value.
func (m *moment) Type() string { return "time" }
