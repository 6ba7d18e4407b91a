package config_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"offstage/config"
)

// checkFaults expects one fault for each text, in order, that starts with it.
func checkFaults(t *testing.T, err error, want ...string) {
	t.Helper()
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("error = %v, want Faults", err)
	}
	for i, f := range faults {
		if i >= len(want) || !strings.HasPrefix(f.Error(), want[i]) {
			t.Errorf("unexpected fault %d:\n%v", i, f)
			if i < len(want) {
				t.Errorf("want\n%s", want[i])
			}
		}
		if f.Hint == "" {
			t.Errorf("%v: no way out", f)
		}
	}
	if len(faults) < len(want) {
		t.Errorf("%d faults, want %d; the next is\n%s", len(faults), len(want), want[len(faults)])
	}
}

// One start tells everything that is wrong, whatever place it came from.
func TestLoad_AllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	path := file(t, "c.yaml", `
listne: x
redis: {url: postgres://hunter2@h, passwrod: hunter2}
worker: {queues: {"a b": 1}, poll_interval: 5}
webhooks: {secrets: {Main: hunter2, empty: "", null_: }}
task: 5
exec: {env: [OFFSTAGE_TOKEN]}
auth:
  tokens:
    - {name: a, sha256: hunter2, scopes: [read, fly], owners: ["["]}
    - {name: a, sha256: `+digest+`, scopes: [], owners: []}
`)
	_, err := config.Load(config.Source{
		File:    path,
		Environ: []string{"OFFSTAGE_LISTEN=nowhere", "OFFSTAGE_WORKER_CONCURENCY=3", "OFFSTAGE_LOG_LEVEL=loud", "OFFSTAGE_LISTEN_FILE=x", "OFFSTAGE_ZZZZZZZZZZ=hunter2"},
		Flags:   flags(t, "--concurrency", "many", "--drain-timeout=-1s", "--set", "task.max_payload=1TiB", "--set", "hunter2", "--set", "nope=hunter2"),
	})
	file := " (file " + path + "): "
	checkFaults(t, err,
		`--set (flag --set): has no KEY= in front; write --set task.retention=48h`,
		`OFFSTAGE_LISTEN_FILE (env OFFSTAGE_LISTEN_FILE)`,
		`OFFSTAGE_WORKER_CONCURENCY (env OFFSTAGE_WORKER_CONCURENCY): is not a setting; did you mean OFFSTAGE_WORKER_CONCURRENCY?`,
		`OFFSTAGE_ZZZZZZZZZZ (env OFFSTAGE_ZZZZZZZZZZ): is not a setting; unset it`,
		`auth.tokens[0].owners`+file+`"[" is not a pattern`,
		`auth.tokens[0].scopes`+file+`"fly" is not a scope; use some of enqueue, read, cancel, message, notify, operate`,
		`auth.tokens[0].sha256`+file+`is not a SHA-256 in lower-case hex`,
		`auth.tokens[1].name`+file+`"a" is empty or used twice`,
		`auth.tokens[1].owners`+file+`is empty`,
		`auth.tokens[1].scopes`+file+`is empty`,
		`drain_timeout (flag --drain-timeout): -1s is out of range; use 0s to 24h`,
		`exec.env`+file+`OFFSTAGE_TOKEN would show`,
		`listen (env OFFSTAGE_LISTEN): "nowhere" is not an address; write host:port, like 127.0.0.1:8484`,
		`listne`+file+`is not a setting; did you mean listen?`,
		`log.level (env OFFSTAGE_LOG_LEVEL): "loud" is not a choice; use debug, info, warn, error`,
		`nope (flag --set): is not a setting`,
		`redis.passwrod`+file+`is not a setting`,
		`redis.url`+file+`is not the URL of a Redis; write it like redis://`,
		`task`+file+`is a number, not a map; write its keys below it`,
		`task.max_payload (flag --set): "1TiB" is not a size; write it like "1MiB", "64KiB" or "4096"`,
		`webhooks.secrets.Main`+file+`"Main" cannot name a secret`,
		`webhooks.secrets.empty`+file+`is empty`,
		`webhooks.secrets.null_`+file+`is empty`,
		`worker.concurrency (flag --concurrency): "many" is not a whole number`,
		`worker.poll_interval`+file+`5 has no unit; write it with a unit`,
		`worker.queues`+file+`"a b" cannot name a queue`,
	)
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the faults show a secret:\n%v", err)
	}
	if f, ok := errors.AsType[*config.Fault](err); !ok || f.Key == "" {
		t.Errorf("the faults cannot be had one by one")
	}
}

func TestLoad_UnknownKeys(t *testing.T) {
	t.Parallel()
	path := file(t, "c.yaml", "Listen: x\nredis: {url: {a: 1}}\nwebhooks: {secrets: {a: {b: c}}, url: x}\nworker: [a]\nlog.level_file: x\nqueues: {a: 1}\n")
	_, err := config.Load(config.Source{File: path, Environ: []string{"OFFSTAGE_WEBHOOKS_SECRETS=a=b"}})
	file := " (file " + path + "): "
	checkFaults(t, err,
		`Listen`+file+`is not a setting; did you mean listen?`,
		`OFFSTAGE_WEBHOOKS_SECRETS (env OFFSTAGE_WEBHOOKS_SECRETS): is not a setting; set OFFSTAGE_WEBHOOKS_SECRETS_NAME`,
		`log.level_file`+file+`is not a setting`,
		`queues`+file+`is not a setting`,
		`redis.url`+file+`is a map, not a text`,
		`webhooks.secrets.a`+file+`is a map, not a text`,
		`webhooks.url`+file+`is not a setting`,
		`worker`+file+`is a list, not a map`,
	)
}

func TestLoad_GivenTwice(t *testing.T) {
	t.Parallel()
	path := file(t, "c.yaml", "redis: {url: a, url_file: b}\nlog.level: info\nlog: {level: warn}\n")
	_, err := config.Load(config.Source{
		File:    path,
		Environ: []string{"OFFSTAGE_REDIS_URL=redis://a", "OFFSTAGE_REDIS_URL_FILE=b"},
		Flags:   flags(t, "--listen=:1", "--set", "listen=:2"),
	})
	checkFaults(t, err,
		"listen (flag --set): is given twice, also by flag --listen",
		"log.level (file "+path+"): is given twice",
		"redis.url (env OFFSTAGE_REDIS_URL_FILE -> b): is given twice, also by env OFFSTAGE_REDIS_URL",
		"redis.url (file "+path+" -> b): is given twice, also by file "+path,
	)
}

func TestConfig_Validate_Listen(t *testing.T) {
	t.Parallel()
	token := []config.Token{{Name: "a", SHA256: digest, Scopes: []string{"read"}, Owners: []string{"*"}}}
	for _, tc := range []struct {
		listen   string
		tokens   []config.Token
		override bool
		want     string // start of the fault, empty for none
	}{
		{"127.0.0.1:8484", nil, false, ""},
		{"127.9.9.9:0", nil, false, ""},
		{"localhost:1", nil, false, ""},
		{"[::1]:1", nil, false, ""},
		{"[::ffff:127.0.0.1]:1", nil, false, ""},
		{":8484", nil, false, "can be reached"},
		{"0.0.0.0:8484", nil, false, "can be reached"},
		{"[::]:8484", nil, false, "can be reached"},
		{"192.168.1.5:8484", nil, false, "can be reached"},
		{"localhost.example.com:1", nil, false, "can be reached"},
		{"0.0.0.0:8484", token, false, ""},
		{"0.0.0.0:8484", nil, true, ""},
		{"8484", nil, true, "is not an address"},
		{"a:b", nil, true, "is not an address"},
		{"a:70000", nil, true, "is not an address"},
		{"::1:80", nil, true, "is not an address"},
		{"", nil, true, "is not an address"},
	} {
		c := config.Default()
		c.Listen, c.Auth.Tokens, c.Auth.AllowUnauthenticated = tc.listen, tc.tokens, tc.override
		err := c.Validate()
		if tc.want == "" {
			if err != nil {
				t.Errorf("Validate with listen %q = %v, want nil", tc.listen, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Validate with listen %q = %v, want … %s", tc.listen, err, tc.want)
		} else if tc.want == "can be reached" && !strings.Contains(err.Error(), "auth.tokens") {
			t.Errorf("Validate with listen %q = %v: no way out", tc.listen, err)
		}
	}
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	for key, change := range map[string]func(*config.Config){
		"redis.url":                nil,
		"redis.wait_replicas":      func(c *config.Config) { c.Redis.WaitReplicas = 1 },
		"redis.require_durability": func(c *config.Config) { c.Redis.RequireDurability = "always" },
		"data_dir":                 func(c *config.Config) { c.DataDir = "" },
		"worker.concurrency":       func(c *config.Config) { c.Worker.Concurrency = 0 },
		"worker.queues":            func(c *config.Config) { c.Worker.Queues = nil },
		"worker.poll_interval":     func(c *config.Config) { c.Worker.PollInterval = 0 },
		"task.default_timeout":     func(c *config.Config) { c.Task.DefaultTimeout = -1 },
		"task.max_retries":         func(c *config.Config) { c.Task.MaxRetries = 1 << 33 },
		"task.retention":           func(c *config.Config) { c.Task.Retention = time.Millisecond },
		"task.max_payload":         func(c *config.Config) { c.Task.MaxPayloadBytes = 0 },
		"task.max_result":          func(c *config.Config) { c.Task.MaxResultBytes = 1 << 40 },
		"task.max_interruptions":   func(c *config.Config) { c.Task.MaxInterruptions = -1 },
		"cancel_grace":             func(c *config.Config) { c.CancelGrace = -1 },
		"drain_timeout":            func(c *config.Config) { c.DrainTimeout = -1 },
		"commit.hold":              func(c *config.Config) { c.Commit.Hold = -1 },
		"exec.allow":               func(c *config.Config) { c.Exec.Allow = []string{""} },
		"exec.env":                 func(c *config.Config) { c.Exec.Env = []config.EnvVar{{Name: "REDIS_URL"}} },
		"events.max_per_task":      func(c *config.Config) { c.Events.MaxPerTask = 0 },
		"events.max_per_owner":     func(c *config.Config) { c.Events.MaxPerOwner = 0 },
		"webhooks.secrets.a":       func(c *config.Config) { c.Webhooks.Secrets = map[string]config.Secret{"a": {}} },
		"log.level":                func(c *config.Config) { c.Log.Level = "" },
		"log.format":               func(c *config.Config) { c.Log.Format = "xml" },
	} {
		if change == nil {
			change = func(c *config.Config) { c.Redis.URL = config.NewRedisURL("h:6379") }
		}
		c := config.Default()
		change(&c)
		checkFaults(t, c.Validate(), key+": ")
	}
}

func TestConfig_Validate_RedisURL(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"redis://h": true, "rediss://u:p@h:6380/1": true, "redis-sentinel://a:1,b:2/0?master=m": true, "redis-cluster://a:1,b:2": true,
		"unix:///run/redis.sock": true, "": true, "redis://": false, "redis:///": false, "http://h": false, "h:6379": false, "REDIS://h": false,
		"redis://:<secret>@h": false,
	} {
		c := config.Default()
		c.Redis.URL = config.NewRedisURL(url)
		if err := c.Validate(); (err == nil) != ok {
			t.Errorf("Validate with redis.url %q = %v, want ok %v", url, err, ok)
		}
	}
}
