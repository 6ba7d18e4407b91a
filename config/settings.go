package config

import (
	"slices"
	"strings"
	"time"
)

// setting ties a key to its field.
type setting struct {
	key string
	// set parses v, which a file's parser, a flag or a variable gave, and stores it.
	set func(c *Config, v any) error
	// show is the field as print writes it: a text, number or bool, []string, map[string]int or []Token. Secrets are
	// masked.
	show func(c *Config) any
	// twin says that the value may also come from a file: key + "_file".
	twin bool
}

// secretsKey is the one key that has names below it instead of a value of its own.
const secretsKey = "webhooks.secrets"

// settings is every key of the configuration, in the order of printing.
func settings() []setting {
	return slices.Concat(
		[]setting{
			secret(field("redis.url", func(c *Config) *RedisURL { return &c.Redis.URL }, parseRedisURL, text)),
			field("redis.require_durability", func(c *Config) *string { return &c.Redis.RequireDurability }, parseText, same),
			field("redis.wait_replicas", func(c *Config) *int { return &c.Redis.WaitReplicas }, parseInt, same),
			field("listen", func(c *Config) *string { return &c.Listen }, parseText, same),
			field("data_dir", func(c *Config) *string { return &c.DataDir }, parseText, same),
		},
		workSettings(),
		builtinSettings(),
		serviceSettings(),
	)
}

func workSettings() []setting {
	return []setting{
		field("worker.enabled", func(c *Config) *bool { return &c.Worker.Enabled }, parseBool, same),
		field("worker.concurrency", func(c *Config) *int { return &c.Worker.Concurrency }, parseInt, same),
		field("worker.queues", func(c *Config) *map[string]int { return &c.Worker.Queues }, parseQueues, same),
		field("worker.strict_priority", func(c *Config) *bool { return &c.Worker.StrictPriority }, parseBool, same),
		field("worker.poll_interval", func(c *Config) *time.Duration { return &c.Worker.PollInterval }, parseDuration, showDuration),
		field("task.default_timeout", func(c *Config) *time.Duration { return &c.Task.DefaultTimeout }, parseDuration, showDuration),
		field("task.max_retries", func(c *Config) *int { return &c.Task.MaxRetries }, parseInt, same),
		field("task.retention", func(c *Config) *time.Duration { return &c.Task.Retention }, parseDuration, showDuration),
		field("task.max_payload", func(c *Config) *int { return &c.Task.MaxPayloadBytes }, parseSize, showSize),
		field("task.max_result", func(c *Config) *int { return &c.Task.MaxResultBytes }, parseSize, showSize),
		field("task.max_interruptions", func(c *Config) *int { return &c.Task.MaxInterruptions }, parseInt, same),
		field("cancel_grace", func(c *Config) *time.Duration { return &c.CancelGrace }, parseDuration, showDuration),
		field("drain_timeout", func(c *Config) *time.Duration { return &c.DrainTimeout }, parseDuration, showDuration),
		field("commit.hold", func(c *Config) *time.Duration { return &c.Commit.Hold }, parseDuration, showDuration),
	}
}

func builtinSettings() []setting {
	return []setting{
		field("exec.enabled", func(c *Config) **bool { return &c.Exec.Enabled }, parseSwitch, showSwitch),
		field("exec.allow", func(c *Config) *[]string { return &c.Exec.Allow }, parseList, same),
		field("exec.env", func(c *Config) *[]EnvVar { return &c.Exec.Env }, parseEnv, showEnv),
		field("exec.shell", func(c *Config) *string { return &c.Exec.Shell }, parseText, same),
		field("http.allow_private", func(c *Config) *bool { return &c.HTTP.AllowPrivate }, parseBool, same),
	}
}

func serviceSettings() []setting {
	return []setting{
		field("events.max_per_task", func(c *Config) *int { return &c.Events.MaxPerTask }, parseInt, same),
		field("events.max_per_owner", func(c *Config) *int { return &c.Events.MaxPerOwner }, parseInt, same),
		secret(field("auth.tokens", func(c *Config) *[]Token { return &c.Auth.Tokens }, parseTokens, same)),
		field("auth.allow_unauthenticated", func(c *Config) *bool { return &c.Auth.AllowUnauthenticated }, parseBool, same),
		field("monitoring.enabled", func(c *Config) *bool { return &c.Monitoring.Enabled }, parseBool, same),
		field("monitoring.read_only", func(c *Config) *bool { return &c.Monitoring.ReadOnly }, parseBool, same),
		field("log.level", func(c *Config) *string { return &c.Log.Level }, parseText, same),
		field("log.format", func(c *Config) *string { return &c.Log.Format }, parseText, same),
	}
}

// field makes a setting from the place of its field, its parser and its printer.
func field[T any](key string, at func(*Config) *T, parse func(any) (T, error), show func(T) any) setting {
	return setting{
		key: key,
		set: func(c *Config, v any) error {
			value, err := parse(v)
			if err == nil {
				*at(c) = value
			}
			return err
		},
		show: func(c *Config) any { return show(*at(c)) },
	}
}

// secret gives a setting a twin.
func secret(s setting) setting {
	s.twin = true
	return s
}

// webhookSecret is the setting of the signing key with the given name.
func webhookSecret(name string) setting {
	return setting{
		key:  secretsKey + "." + name,
		twin: true,
		set: func(c *Config, v any) error {
			if err := checkSecretName(name); err != nil {
				return err
			}
			value, err := parseSecret(v)
			if err != nil {
				return err
			}
			if c.Webhooks.Secrets == nil {
				c.Webhooks.Secrets = map[string]Secret{}
			}
			c.Webhooks.Secrets[name] = value
			return nil
		},
		show: func(c *Config) any { return c.Webhooks.Secrets[name].String() },
	}
}

func checkSecretName(name string) error {
	ok := len(name) >= 1 && len(name) <= 64 && !strings.HasSuffix(name, "_file")
	for i := range len(name) {
		b := name[i]
		ok = ok && (b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '-' || b == '_')
	}
	if !ok {
		return &valueError{quote(name) + " cannot name a secret", "use 1 to 64 lower-case letters, digits, '-' and '_', not ending in _file"}
	}
	return nil
}

// find gives the setting of key, the names below webhooks.secrets included.
func find(all []setting, key string) (setting, bool) {
	if name, ok := strings.CutPrefix(key, secretsKey+"."); ok {
		return webhookSecret(name), true
	}
	i := slices.IndexFunc(all, func(s setting) bool { return s.key == key })
	if i < 0 {
		return setting{}, false
	}
	return all[i], true
}

// keys are the names that may stand in a file, for suggestions.
func keys(all []setting) []string {
	var names []string
	for _, s := range all {
		names = append(names, s.key)
		if s.twin {
			names = append(names, s.key+"_file")
		}
	}
	return names
}

func same[T any](v T) any { return v }

func text(u RedisURL) any { return u.String() }

func showDuration(d time.Duration) any {
	// 30m0s -> 30m, 24h0m0s -> 24h
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func showSize(n int) any { return FormatSize(n) }

func showSwitch(on *bool) any {
	if on == nil {
		return "auto"
	}
	return *on
}

func showEnv(env []EnvVar) any {
	items := make([]string, len(env))
	for i, e := range env {
		items[i] = e.String()
	}
	return items
}

// envName is the variable of key.
func envName(key string) string {
	return "OFFSTAGE_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}
