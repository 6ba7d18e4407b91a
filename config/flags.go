package config

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// setFlag is the flag for every setting that has none of its own.
const setFlag = "set"

// flagOf is a flag that stands for a setting.
type flagOf struct{ name, key, kind, usage string }

func flagTable() []flagOf {
	return []flagOf{
		{"redis-url", "redis.url", "URL", "where the state lives: redis, rediss, redis-sentinel, redis-cluster or unix URL; " +
			"other users of the machine see flags, so give a password in OFFSTAGE_REDIS_URL (default: embedded, nothing survives)"},
		{"listen", "listen", "ADDR", "address of the HTTP API"},
		{"data-dir", "data_dir", "DIR", "folder for what must outlive the process without Redis"},
		{"worker", "worker.enabled", "bool", "run tasks in this process"},
		{"concurrency", "worker.concurrency", "N", "tasks to run at once"},
		{"queues", "worker.queues", "NAME=WEIGHT,...", "queues to serve"},
		{"drain-timeout", "drain_timeout", "DURATION", "how long running tasks may go on after SIGTERM"},
		{"cancel-grace", "cancel_grace", "DURATION", "how long a cancelled task may take to return"},
		{"exec", "exec.enabled", "bool", "allow tasks that run commands (default: in embedded mode only)"},
		{"allow-private", "http.allow_private", "bool", "let http tasks call loopback and private addresses"},
		{"allow-unauthenticated", "auth.allow_unauthenticated", "bool", "listen beyond this machine without tokens"},
		{"monitoring", "monitoring.enabled", "bool", "serve the dashboard under /monitoring/"},
		{"log-level", "log.level", "LEVEL", "debug, info, warn or error"},
		{"log-format", "log.format", "FORMAT", "text or json"},
	}
}

// flagValue keeps a flag's text until Load parses it together with everything else, so that its faults are reported
// with all others.
type flagValue struct{ text, kind string }

func (v *flagValue) String() string     { return v.text }
func (v *flagValue) Set(s string) error { v.text = s; return nil }
func (v *flagValue) Type() string       { return v.kind }

// Flags registers the flags of `offstage serve` on fs: one for each setting that is often changed, and --set KEY=VALUE
// for the others. Nothing is parsed before [Load], to which fs goes as Source.Flags.
func Flags(fs *pflag.FlagSet) {
	all, def := settings(), Default()
	for _, f := range flagTable() {
		v := &flagValue{kind: f.kind}
		if s, ok := find(all, f.key); ok && !strings.Contains(f.usage, "(default:") {
			v.text = shown(s.show(&def))
		}
		flag := fs.VarPF(v, f.name, "", f.usage)
		if f.kind == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
	fs.StringArray(setFlag, nil, "any setting, as KEY=VALUE like task.retention=48h; may be given again")
}

// shown is a default in a form that the flag accepts.
func shown(v any) string {
	if queues, ok := v.(map[string]int); ok {
		return FormatQueues(queues)
	}
	return fmt.Sprint(v)
}

// fromFlags takes the settings out of the flags that were given.
func fromFlags(all []setting, fs *pflag.FlagSet) layer {
	l := layer{}
	if fs == nil {
		return l
	}
	for _, f := range flagTable() {
		if flag := fs.Lookup(f.name); flag != nil && flag.Changed {
			l.put(all, f.key, flag.Value.String(), "flag --"+f.name)
		}
	}
	if flag := fs.Lookup(setFlag); flag == nil || !flag.Changed {
		return l
	}
	pairs, err := fs.GetStringArray(setFlag)
	if err != nil { // another program's --set
		return l
	}
	for _, pair := range pairs {
		l.assign(all, pair)
	}
	return l
}

// assign handles one --set. Without a '=' the text may be a secret, so it is not shown.
func (l *layer) assign(all []setting, pair string) {
	key, text, ok := strings.Cut(pair, "=")
	if !ok || key == "" {
		l.faults = append(l.faults, &Fault{Key: "--set", Source: "flag --set", Reason: "has no KEY= in front", Hint: "write --set task.retention=48h"})
		return
	}
	l.put(all, key, text, "flag --set")
}
