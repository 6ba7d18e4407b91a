package config

import (
	"time"

	"offstage/tasks"
)

// Config is the daemon's settings. Start from [Default] or [Load]; the zero value does not validate.
type Config struct {
	Redis  Redis
	Listen string // address of the HTTP API, host:port; port 0 takes a free one, no host means all addresses
	// DataDir is the folder for what must outlive the process without Redis (the spool). It is created on demand;
	// a relative path starts where the daemon was started.
	DataDir string
	Worker  Worker
	Task    Task
	// CancelGrace is how long a cancelled body may take to return before it is marked as abandoned, and how long a
	// command has between SIGTERM and SIGKILL. Zero means no time at all.
	CancelGrace time.Duration
	// DrainTimeout is how long running tasks may go on after a SIGTERM; then their contexts are cancelled and they
	// go back to their queue. Zero means at once.
	DrainTimeout time.Duration
	Commit       Commit
	Exec         Exec
	HTTP         HTTP
	Events       Events
	Webhooks     Webhooks
	Auth         Auth
	Monitoring   Monitoring
	Log          Log
}

// Redis says where the state lives and how safe it must be there.
type Redis struct {
	// URL is redis://, rediss://, redis-sentinel://, redis-cluster:// or unix://. The zero value means embedded
	// mode: a server inside the process, and nothing survives it.
	URL RedisURL
	// RequireDurability is the least that Redis must promise for a write before it is acknowledged: "" for nothing,
	// "everysec" or "always" for that appendfsync with AOF on. With less, the daemon does not start.
	RequireDurability string
	// WaitReplicas is how many replicas must have a new task before it is acknowledged. Zero means not to wait.
	WaitReplicas int
}

// Worker says what this process runs.
type Worker struct {
	Enabled bool // false: an API only
	// Concurrency is how many tasks run at once, 1 to 10,000. The default is 10 whatever the machine: most tasks
	// wait for a command or a server rather than compute, and two machines with one config should behave alike.
	Concurrency int
	// Queues are the queues to serve and their weights, 1 to 1,000: a queue with weight 3 is looked at first three
	// times as often as one with weight 1.
	Queues map[string]int
	// StrictPriority serves a queue only while all queues of higher weight are empty.
	StrictPriority bool
	// PollInterval is how often delayed tasks are looked at, and waiting ones where Redis cannot tell by itself:
	// 1 ms to 1 min.
	PollInterval time.Duration
}

// Task holds the defaults and bounds of tasks.
type Task struct {
	DefaultTimeout   time.Duration // of one attempt; zero means none
	MaxRetries       int           // default of a spec that says nothing; zero means none
	Retention        time.Duration // how long an ended task is kept, 1 s to 366 days
	MaxPayloadBytes  int           // 1 KiB to 256 MiB
	MaxResultBytes   int           // 1 KiB to 256 MiB
	MaxInterruptions int           // crashes and lost leases a task survives; zero means that the first one ends it
}

// Commit says what happens to an outcome that Redis does not take.
type Commit struct {
	// Hold is how long an outcome is retried in memory before it is written to the spool. Zero means at once.
	Hold time.Duration
}

// Exec is the built-in task type that runs commands.
type Exec struct {
	// Enabled turns the type on or off. Nil means on in embedded mode only, where nobody else can enqueue; see
	// [Config.ExecEnabled].
	Enabled *bool
	// Allow lists the programs that may run, by name or path. Empty means every program.
	Allow []string
	// Env is the whole environment of a command, apart from what its task asks for. The daemon's own is not passed
	// on. Empty means none.
	Env []EnvVar
	// Shell is the program that runs shell lines, as SHELL -c LINE. Empty refuses shell lines.
	Shell string
}

// HTTP is the built-in task type that calls URLs.
type HTTP struct {
	AllowPrivate bool // also call loopback, private and link-local addresses
}

// Events bounds what is kept for watchers. The oldest is dropped first.
type Events struct {
	MaxPerTask  int // 10 to 1,000,000
	MaxPerOwner int // in one queue, 10 to 1,000,000
}

// Webhooks says how completions are signed.
type Webhooks struct {
	// Secrets are the signing keys by the name that a task's notify.webhook.secret_ref uses: 1-64 lower-case
	// letters, digits, '-' and '_'.
	Secrets map[string]Secret
}

// Auth says who may use the API.
type Auth struct {
	Tokens []Token // none: everybody who reaches the address
	// AllowUnauthenticated starts on an address that other machines reach although there are no tokens.
	AllowUnauthenticated bool
}

// Token is a bearer token and what it may do. The token itself is not in the config, only its hash.
type Token struct {
	Name      string    // for logs, unique
	SHA256    string    // of the token, 64 hex digits in lower case
	Scopes    []string  // at least one of [Scopes]
	Owners    []string  // glob patterns of the owners it may act for, at least one; "*" is everybody
	ExpiresAt time.Time // zero means never
}

// Scopes are the scopes a token can have.
func Scopes() []string { return []string{"enqueue", "read", "cancel", "message", "notify", "operate"} }

// Monitoring is the dashboard under /monitoring/.
type Monitoring struct {
	Enabled  bool
	ReadOnly bool // false lets the dashboard change and delete tasks
}

// Log says what is logged, to stderr.
type Log struct {
	Level  string // debug, info, warn or error
	Format string // text or json
}

// Default is the configuration of a daemon that was told nothing: embedded mode on a loopback address.
func Default() Config {
	return Config{
		Listen:       "127.0.0.1:8484",
		DataDir:      "./data",
		Worker:       Worker{Enabled: true, Concurrency: 10, Queues: map[string]int{"default": 1}, PollInterval: 100 * time.Millisecond},
		Task:         defaultTask(),
		CancelGrace:  10 * time.Second,
		DrainTimeout: 30 * time.Second,
		Commit:       Commit{Hold: 5 * time.Second},
		Exec: Exec{
			Env:   []EnvVar{{Name: "PATH"}, {Name: "HOME"}, {Name: "LANG"}, {Name: "TZ"}, {Name: "TMPDIR"}},
			Shell: "/bin/sh",
		},
		Events:     Events{MaxPerTask: 10_000, MaxPerOwner: 10_000},
		Monitoring: Monitoring{Enabled: true, ReadOnly: true},
		Log:        Log{Level: "info", Format: "text"},
	}
}

func defaultTask() Task {
	l := tasks.DefaultLimits()
	return Task{
		DefaultTimeout: l.Timeout, MaxRetries: l.MaxRetries, Retention: l.Retention,
		MaxPayloadBytes: l.MaxPayloadBytes, MaxResultBytes: l.MaxResultBytes, MaxInterruptions: 3,
	}
}

// Embedded reports whether Redis runs inside the process.
func (c Config) Embedded() bool { return c.Redis.URL.IsZero() }

// ExecEnabled reports whether the exec task type is on.
func (c Config) ExecEnabled() bool {
	if c.Exec.Enabled == nil {
		return c.Embedded()
	}
	return *c.Exec.Enabled
}

// Limits is what package tasks validates a spec against.
func (c Config) Limits() tasks.Limits {
	return tasks.Limits{
		Timeout: c.Task.DefaultTimeout, MaxRetries: c.Task.MaxRetries, Retention: c.Task.Retention,
		MaxPayloadBytes: c.Task.MaxPayloadBytes, MaxResultBytes: c.Task.MaxResultBytes,
	}
}
