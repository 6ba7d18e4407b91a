package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"offstage/tasks"
)

// Validate reports everything that is wrong with c as a [Faults], nil when nothing is.
func (c Config) Validate() error { return c.check(nil, nil).err() }

// check finds what is wrong with c. Keys that have a fault already are passed over: what stands there is a default,
// and would be blamed for nothing.
func (c Config) check(sources Sources, known Faults) Faults {
	v := &validation{sources: sources, known: known}
	v.redis(c)
	v.listen(c)
	if c.DataDir == "" {
		v.fail("data_dir", "is empty", "give a folder, like ./data")
	}
	v.worker(c.Worker)
	v.task(c.Task)
	v.durations(c)
	v.exec(c.Exec)
	v.between("events.max_per_task", c.Events.MaxPerTask, 10, 1_000_000)
	v.between("events.max_per_owner", c.Events.MaxPerOwner, 10, 1_000_000)
	for name, secret := range c.Webhooks.Secrets {
		if err := checkSecretName(name); err != nil {
			v.add(faultsOf(secretsKey+"."+name, "", err)...)
		} else if secret.IsZero() {
			v.fail(secretsKey+"."+name, "is empty", "give it a value, or take it out")
		}
	}
	v.tokens(c.Auth.Tokens)
	v.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	v.oneOf("log.format", c.Log.Format, "text", "json")
	return v.faults
}

type validation struct {
	sources Sources
	known   Faults
	faults  Faults
}

func (v *validation) add(faults ...*Fault) {
	for _, f := range faults {
		if broken(v.known, f.Key) {
			continue
		}
		if setting, _, _ := strings.Cut(f.Key, "["); f.Source == "" {
			f.Source = v.sources[setting]
		}
		v.faults = append(v.faults, f)
	}
}

func (v *validation) fail(key, reason, hint string) {
	v.add(&Fault{Key: key, Reason: reason, Hint: hint})
}

func (v *validation) between(key string, n, low, high int) {
	if n < low || n > high {
		v.fail(key, fmt.Sprintf("%d is out of range", n), fmt.Sprintf("use %d to %d", low, high))
	}
}

func (v *validation) duration(key string, d, low, high time.Duration) {
	if d < low || d > high {
		v.fail(key, d.String()+" is out of range", fmt.Sprintf("use %v to %v", showDuration(low), showDuration(high)))
	}
}

func (v *validation) oneOf(key, text string, allowed ...string) {
	if !slices.Contains(allowed, text) {
		v.fail(key, quote(text)+" is not a choice", "use "+strings.Join(allowed, ", "))
	}
}

func (v *validation) redis(c Config) {
	v.redisURL(c.Redis.URL.Reveal())
	if d := c.Redis.RequireDurability; d != "" {
		v.oneOf("redis.require_durability", d, "everysec", "always")
	}
	v.between("redis.wait_replicas", c.Redis.WaitReplicas, 0, 16)
	if !c.Embedded() || broken(v.known, "redis.url") {
		return
	}
	const reason, hint = "cannot be had in embedded mode, where nothing survives the process", "set redis.url, or take it out"
	if c.Redis.RequireDurability != "" {
		v.fail("redis.require_durability", reason, hint)
	}
	if c.Redis.WaitReplicas > 0 {
		v.fail("redis.wait_replicas", reason, hint)
	}
}

// redisURL checks no more than the form: queue.Open knows the parameters of each scheme.
func (v *validation) redisURL(url string) {
	if url == "" {
		return
	}
	const hint = "write it like redis://:password@host:6379/0 (also rediss, redis-sentinel, redis-cluster, unix)"
	scheme, rest, ok := strings.Cut(url, "://")
	switch {
	case strings.Contains(url, mask):
		v.fail("redis.url", "holds the mask of a printed configuration instead of a password", "put the password in its place")
	case !ok || !slices.Contains([]string{"redis", "rediss", "redis-sentinel", "redis-cluster", "unix"}, scheme):
		v.fail("redis.url", "is not the URL of a Redis", hint)
	case rest == "" || rest == "/":
		v.fail("redis.url", "has no host", hint)
	}
}

func (v *validation) listen(c Config) {
	host, port, err := net.SplitHostPort(c.Listen)
	if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
		v.fail("listen", quote(c.Listen)+" is not an address", "write host:port, like 127.0.0.1:8484")
		return
	}
	if loopback(host) || len(c.Auth.Tokens) > 0 || c.Auth.AllowUnauthenticated ||
		broken(v.known, "auth.tokens") || broken(v.known, "auth.allow_unauthenticated") {
		return
	}
	v.fail("listen", quote(c.Listen)+" can be reached from other machines, and there are no tokens",
		"listen on 127.0.0.1, or set auth.allow_unauthenticated=true to let everybody run tasks (auth.tokens are not checked yet)")
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func (v *validation) worker(w Worker) {
	v.between("worker.concurrency", w.Concurrency, 1, 10_000)
	v.duration("worker.poll_interval", w.PollInterval, time.Millisecond, time.Minute)
	if len(w.Queues) == 0 && w.Enabled {
		v.fail("worker.queues", "names no queue", "name one, like default=1, or set worker.enabled=false")
	}
	for _, name := range slices.Sorted(maps.Keys(w.Queues)) {
		if tasks.ValidateQueue(name) != nil {
			v.add(faultsOf("worker.queues", "", addQueue(map[string]int{}, name, 1))...)
		}
		if n := w.Queues[name]; n < 1 || n > 1000 {
			v.fail("worker.queues", fmt.Sprintf("weight %d of queue %s is out of range", n, quote(name)), "use 1 to 1000")
		}
	}
}

func (v *validation) task(t Task) {
	v.duration("task.default_timeout", t.DefaultTimeout, 0, tasks.MaxDuration)
	v.between("task.max_retries", t.MaxRetries, 0, tasks.MaxRetriesLimit)
	v.duration("task.retention", t.Retention, tasks.MinRetention, tasks.MaxRetention)
	v.size("task.max_payload", t.MaxPayloadBytes)
	v.size("task.max_result", t.MaxResultBytes)
	v.between("task.max_interruptions", t.MaxInterruptions, 0, 1000)
}

func (v *validation) size(key string, n int) {
	const low, high = 1 << 10, 256 << 20
	if n < low || n > high {
		v.fail(key, FormatSize(n)+" is out of range", "use "+FormatSize(low)+" to "+FormatSize(high))
	}
}

func (v *validation) durations(c Config) {
	v.duration("cancel_grace", c.CancelGrace, 0, time.Hour)
	v.duration("drain_timeout", c.DrainTimeout, 0, 24*time.Hour)
	v.duration("commit.hold", c.Commit.Hold, 0, time.Hour)
}

func (v *validation) exec(e Exec) {
	for _, name := range e.Allow {
		if name == "" {
			v.fail("exec.allow", "has an empty name", "take it out")
		}
	}
	for _, env := range e.Env {
		inherits := env.Value == nil
		switch {
		case env.Name == "" || strings.ContainsAny(env.Name, "= \t\x00"):
			v.fail("exec.env", quote(env.Name)+" cannot name a variable", `write items like "PATH" or "LANG=C"`)
		case inherits && (strings.HasPrefix(env.Name, envPrefix) || env.Name == "REDIS_URL"):
			v.fail("exec.env", env.Name+" would show the daemon's own settings to every command", "take it out")
		}
	}
}
