package config_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/config"
	"offstage/tasks"
)

const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func TestDefault(t *testing.T) {
	t.Parallel()
	c := config.Default()
	if err := c.Validate(); err != nil {
		t.Errorf("Default().Validate() = %v, want nil", err)
	}
	if d := cmp.Diff(c, load(t, config.Source{})); d != "" {
		t.Errorf("Load of nothing differs from Default (-default +loaded):\n%s", d)
	}
	if !c.Embedded() || !c.ExecEnabled() {
		t.Errorf("Embedded() = %v, ExecEnabled() = %v, want true and true", c.Embedded(), c.ExecEnabled())
	}
	if d := cmp.Diff(tasks.DefaultLimits(), c.Limits()); d != "" {
		t.Errorf("Limits() differ from tasks' (-tasks +config):\n%s", d)
	}
}

const everything = `
redis:
  url: redis://user:hunter2@db:6379/3
  require_durability: always
  wait_replicas: 1
listen: 0.0.0.0:80
data_dir: /var/lib/offstage
worker: {enabled: false, concurrency: 50, queues: {Mail: 3, low: 1}, strict_priority: true, poll_interval: 250ms}
task:
  default_timeout: 0
  max_retries: 0
  retention: 48h
  max_payload: 2MiB
  max_result: 65536
  max_interruptions: 5
cancel_grace: 1m30s
drain_timeout: 0
commit: {hold: 1s}
exec: {enabled: true, allow: [git, /usr/bin/make], env: [PATH, LANG=C], shell: ""}
http: {allow_private: true}
events: {max_per_task: 100, max_per_owner: 200}
webhooks: {secrets: {main: whsec_abc=}}
auth:
  allow_unauthenticated: true
  tokens:
    - {name: ci, sha256: ` + digest + `, scopes: [enqueue, read], owners: ["team-*"], expires_at: 2027-01-02T03:04:05Z}
monitoring: {enabled: false, read_only: false}
log: {level: debug, format: json}
`

func wantEverything() config.Config {
	return config.Config{
		Redis:    config.Redis{URL: config.NewRedisURL("redis://user:hunter2@db:6379/3"), RequireDurability: "always", WaitReplicas: 1},
		Listen:   "0.0.0.0:80",
		DataDir:  "/var/lib/offstage",
		Worker:   config.Worker{Concurrency: 50, Queues: map[string]int{"Mail": 3, "low": 1}, StrictPriority: true, PollInterval: 250 * time.Millisecond},
		Task:     config.Task{Retention: 48 * time.Hour, MaxPayloadBytes: 2 << 20, MaxResultBytes: 65536, MaxInterruptions: 5},
		Commit:   config.Commit{Hold: time.Second},
		HTTP:     config.HTTP{AllowPrivate: true},
		Events:   config.Events{MaxPerTask: 100, MaxPerOwner: 200},
		Webhooks: config.Webhooks{Secrets: map[string]config.Secret{"main": config.NewSecret("whsec_abc=")}},
		Log:      config.Log{Level: "debug", Format: "json"},
		Exec: config.Exec{
			Enabled: new(true), Allow: []string{"git", "/usr/bin/make"},
			Env: []config.EnvVar{{Name: "PATH"}, {Name: "LANG", Value: new(config.NewSecret("C"))}},
		},
		CancelGrace: 90 * time.Second,
		Auth: config.Auth{AllowUnauthenticated: true, Tokens: []config.Token{{
			Name: "ci", SHA256: digest, Scopes: []string{"enqueue", "read"}, Owners: []string{"team-*"},
			ExpiresAt: time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC),
		}}},
	}
}

func TestLoad_File(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"c.yaml": everything,
		"c.yml":  everything,
		"c.toml": `
listen = "0.0.0.0:80"
data_dir = "/var/lib/offstage"
cancel_grace = "1m30s"
drain_timeout = 0
commit.hold = "1s"
http.allow_private = true
webhooks.secrets.main = "whsec_abc="
monitoring = {enabled = false, read_only = false}
log = {level = "debug", format = "json"}
events = {max_per_task = 100, max_per_owner = 200}
[redis]
url = "redis://user:hunter2@db:6379/3"
require_durability = "always"
wait_replicas = 1
[worker]
enabled = false
concurrency = 50
queues = {Mail = 3, low = 1}
strict_priority = true
poll_interval = "250ms"
[task]
default_timeout = "0"
max_retries = 0
retention = "48h"
max_payload = "2MiB"
max_result = 65536
max_interruptions = 5
[exec]
enabled = true
allow = ["git", "/usr/bin/make"]
env = ["PATH", "LANG=C"]
shell = ""
[auth]
allow_unauthenticated = true
[[auth.tokens]]
name = "ci"
sha256 = "` + digest + `"
scopes = ["enqueue", "read"]
owners = ["team-*"]
expires_at = 2027-01-02T03:04:05Z
`,
		"c.json": `{
"redis": {"url": "redis://user:hunter2@db:6379/3", "require_durability": "always", "wait_replicas": 1},
"listen": "0.0.0.0:80", "data_dir": "/var/lib/offstage",
"worker": {"enabled": false, "concurrency": 50, "queues": "Mail=3,low", "strict_priority": true, "poll_interval": "250ms"},
"task": {"default_timeout": "0", "max_retries": 0, "retention": "48h", "max_payload": "2MiB", "max_result": 65536, "max_interruptions": 5},
"cancel_grace": "1m30s", "drain_timeout": "0s", "commit": {"hold": "1s"},
"exec": {"enabled": true, "allow": "git,/usr/bin/make", "env": ["PATH", "LANG=C"], "shell": ""},
"http.allow_private": true, "events": {"max_per_task": 100, "max_per_owner": 200},
"webhooks": {"secrets": {"main": "whsec_abc="}},
"auth": {"allow_unauthenticated": true, "tokens": [{"name": "ci", "sha256": "` + strings.ToUpper(digest) + `",
  "scopes": ["enqueue", "read"], "owners": "team-*", "expires_at": "2027-01-02T04:04:05+01:00"}]},
"monitoring": {"enabled": false, "read_only": false}, "log": {"level": "debug", "format": "json"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(wantEverything(), load(t, config.Source{File: file(t, name, text)})); d != "" {
				t.Errorf("Load (-want +got):\n%s", d)
			}
		})
	}
}

func TestLoad_EmptyFile(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"c.yaml": "", "d.yaml": "# nothing\n", "e.yaml": "---\nredis:\nworker: {}\nlisten:\nexec: {enabled: null}\n", "c.toml": "", "c.json": "{}",
	} {
		if d := cmp.Diff(config.Default(), load(t, config.Source{File: file(t, name, text)})); d != "" {
			t.Errorf("Load of %q (-default +got):\n%s", text, d)
		}
	}
}

func TestLoad_Environ(t *testing.T) {
	t.Parallel()
	c := load(t, config.Source{Environ: []string{
		"OFFSTAGE_REDIS_URL=redis://user:hunter2@db:6379/3", "OFFSTAGE_REDIS_REQUIRE_DURABILITY=always", "OFFSTAGE_REDIS_WAIT_REPLICAS=1",
		"OFFSTAGE_LISTEN=0.0.0.0:80", "OFFSTAGE_DATA_DIR=/var/lib/offstage", "OFFSTAGE_WORKER_ENABLED=false",
		"OFFSTAGE_WORKER_CONCURRENCY=50", "OFFSTAGE_WORKER_QUEUES=Mail=3,low=1", "OFFSTAGE_WORKER_STRICT_PRIORITY=1",
		"OFFSTAGE_WORKER_POLL_INTERVAL=250ms", "OFFSTAGE_TASK_DEFAULT_TIMEOUT=0", "OFFSTAGE_TASK_MAX_RETRIES=0",
		"OFFSTAGE_TASK_RETENTION=48h", "OFFSTAGE_TASK_MAX_PAYLOAD=2MiB", "OFFSTAGE_TASK_MAX_RESULT=64KiB",
		"OFFSTAGE_TASK_MAX_INTERRUPTIONS=5", "OFFSTAGE_CANCEL_GRACE=90s", "OFFSTAGE_DRAIN_TIMEOUT=0s", "OFFSTAGE_COMMIT_HOLD=1s",
		"OFFSTAGE_EXEC_ENABLED=true", "OFFSTAGE_EXEC_ALLOW=git, /usr/bin/make", "OFFSTAGE_EXEC_ENV=PATH,LANG=C", "OFFSTAGE_EXEC_SHELL=",
		"OFFSTAGE_HTTP_ALLOW_PRIVATE=true", "OFFSTAGE_EVENTS_MAX_PER_TASK=100", "OFFSTAGE_EVENTS_MAX_PER_OWNER=200",
		"OFFSTAGE_WEBHOOKS_SECRETS_MAIN=whsec_abc=", "OFFSTAGE_AUTH_ALLOW_UNAUTHENTICATED=true",
		`OFFSTAGE_AUTH_TOKENS=[{"name":"ci","sha256":"` + digest + `","scopes":["enqueue","read"],"owners":["team-*"],"expires_at":"2027-01-02T03:04:05Z"}]`,
		"OFFSTAGE_MONITORING_ENABLED=false", "OFFSTAGE_MONITORING_READ_ONLY=false", "OFFSTAGE_LOG_LEVEL=debug", "OFFSTAGE_LOG_FORMAT=json",
	}})
	want := wantEverything()
	want.Exec.Shell = config.Default().Exec.Shell // set to nothing is unset
	if d := cmp.Diff(want, c); d != "" {
		t.Errorf("Load (-want +got):\n%s", d)
	}
}

// What belongs to the command line, to Kubernetes or to others is not ours to refuse.
func TestLoad_EnvironOfOthers(t *testing.T) {
	t.Parallel()
	c := load(t, config.Source{Environ: []string{
		"PATH=/bin", "OFFSTAGE=1", "OFFSTAGE_SERVER=http://x", "OFFSTAGE_TOKEN=t", "OFFSTAGE_CONFIG=/etc/x.yaml", "OFFSTAGE_LISTEN=",
		"OFFSTAGE_SERVICE_HOST=10.0.0.7", "OFFSTAGE_SERVICE_PORT=8484", "OFFSTAGE_SERVICE_PORT_HTTP=8484",
		"OFFSTAGE_PORT=tcp://10.0.0.7:8484", "OFFSTAGE_PORT_8484_TCP=tcp://10.0.0.7:8484", "OFFSTAGE_PORT_8484_TCP_PROTO=tcp",
		"OFFSTAGE_PORT_8484_TCP_ADDR=10.0.0.7", "OFFSTAGE_REDIS_SERVICE_HOST=10.0.0.8", "OFFSTAGE_REDIS_PORT_6379_TCP_PORT=6379",
	}})
	if d := cmp.Diff(config.Default(), c); d != "" {
		t.Errorf("Load (-default +got):\n%s", d)
	}
}

func TestLoad_Flags(t *testing.T) {
	t.Parallel()
	c := load(t, config.Source{Flags: flags(t, "--redis-url", "redis://h/1", "--listen=:80", "--data-dir", "d", "--worker=false",
		"--concurrency", "3", "--queues", "a=2,b", "--drain-timeout", "1m", "--cancel-grace", "1s", "--exec", "--allow-private",
		"--allow-unauthenticated", "--monitoring=false", "--log-level", "warn", "--log-format", "json", "--config", "x",
		"--set", "task.retention=1h", "--set", "worker.poll_interval=1s", "--set", "webhooks.secrets.main=a=b", "--set", "exec.shell=")})
	want := config.Default()
	want.Redis.URL = config.NewRedisURL("redis://h/1")
	want.Listen, want.DataDir = ":80", "d"
	want.Worker = config.Worker{Concurrency: 3, Queues: map[string]int{"a": 2, "b": 1}, PollInterval: time.Second}
	want.DrainTimeout, want.CancelGrace, want.Task.Retention = time.Minute, time.Second, time.Hour
	want.Exec.Enabled, want.Exec.Shell = new(true), ""
	want.HTTP.AllowPrivate, want.Auth.AllowUnauthenticated, want.Monitoring.Enabled = true, true, false
	want.Log = config.Log{Level: "warn", Format: "json"}
	want.Webhooks.Secrets = map[string]config.Secret{"main": config.NewSecret("a=b")}
	if d := cmp.Diff(want, c); d != "" {
		t.Errorf("Load (-want +got):\n%s", d)
	}
}

// The help shows the defaults in the form in which they can be given.
func TestFlags_Defaults(t *testing.T) {
	t.Parallel()
	fs := flags(t)
	for name, want := range map[string]string{
		"listen": "127.0.0.1:8484", "queues": "default=1", "concurrency": "10", "worker": "true", "drain-timeout": "30s", "redis-url": "",
	} {
		if got := fs.Lookup(name).DefValue; got != want {
			t.Errorf("default of --%s = %q, want %q", name, got, want)
		}
	}
}

func TestLoad_Precedence(t *testing.T) {
	t.Parallel()
	yaml := "listen: 127.0.0.1:1\nlog: {level: error}\nredis: {url: redis://file}\nworker: {queues: {file: 1}}\n"
	environ := []string{"OFFSTAGE_LISTEN=127.0.0.1:2", "OFFSTAGE_WORKER_QUEUES=env", "REDIS_URL=redis://plain", "OFFSTAGE_REDIS_URL=redis://env"}
	line := []string{"--listen", "127.0.0.1:3"}
	for _, tc := range []struct {
		name                      string
		src                       config.Source
		listen, level, url, queue string
		sources                   []string // of listen, log.level, redis.url, worker.queues
	}{
		{"nothing", config.Source{}, "127.0.0.1:8484", "info", "", "default", []string{"default", "default", "default", "default"}},
		{"file", config.Source{File: "c.yaml"}, "127.0.0.1:1", "error", "redis://file", "file", []string{"file", "file", "file", "file"}},
		{"env over file", config.Source{File: "c.yaml", Environ: environ}, "127.0.0.1:2", "error", "redis://env", "env",
			[]string{"env OFFSTAGE_LISTEN", "file", "env OFFSTAGE_REDIS_URL", "env OFFSTAGE_WORKER_QUEUES"}},
		{"flag over all", config.Source{File: "c.yaml", Environ: environ, Flags: flags(t, line...)}, "127.0.0.1:3", "error", "redis://env", "env",
			[]string{"flag --listen", "file", "env OFFSTAGE_REDIS_URL", "env OFFSTAGE_WORKER_QUEUES"}},
		{"a flag can take back", config.Source{File: "c.yaml", Flags: flags(t, "--redis-url=")}, "127.0.0.1:1", "error", "", "file",
			[]string{"file", "file", "flag --redis-url", "file"}},
		{"REDIS_URL alone", config.Source{Environ: environ[2:3]}, "127.0.0.1:8484", "info", "redis://plain", "default",
			[]string{"default", "default", "env REDIS_URL", "default"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.src.File != "" {
				tc.src.File = file(t, tc.src.File, yaml)
			}
			c, sources, err := config.Explain(tc.src)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{c.Listen, c.Log.Level, c.Redis.URL.Reveal(), slices.Collect(maps.Keys(c.Worker.Queues))[0]}
			if d := cmp.Diff([]string{tc.listen, tc.level, tc.url, tc.queue}, got); d != "" {
				t.Errorf("values (-want +got):\n%s", d)
			}
			for i, key := range []string{"listen", "log.level", "redis.url", "worker.queues"} {
				want := tc.sources[i]
				if want == "file" {
					want = "file " + tc.src.File
				}
				if sources[key] != want {
					t.Errorf("source of %s = %q, want %q", key, sources[key], want)
				}
			}
		})
	}
}

// Secrets of a higher level join those of a lower one: each is a setting of its own.
func TestLoad_WebhookSecretsMerge(t *testing.T) {
	t.Parallel()
	c := load(t, config.Source{
		File:    file(t, "c.yaml", "webhooks: {secrets: {a: file, b: file}}"),
		Environ: []string{"OFFSTAGE_WEBHOOKS_SECRETS_B=env", "OFFSTAGE_WEBHOOKS_SECRETS_C=env"},
	})
	want := map[string]config.Secret{"a": config.NewSecret("file"), "b": config.NewSecret("env"), "c": config.NewSecret("env")}
	if d := cmp.Diff(want, c.Webhooks.Secrets); d != "" {
		t.Errorf("secrets (-want +got):\n%s", d)
	}
}

func TestLoad_FileTwins(t *testing.T) {
	t.Parallel()
	url := file(t, "url", "redis://:hunter2@h/0\n")
	hook := file(t, "hook", "whsec_x \n\n") // one newline goes, the rest is the secret's
	tokens := file(t, "tokens", `[{"name": "ci", "sha256": "`+digest+`", "scopes": ["read"], "owners": ["*"]}]`)
	want := config.Default()
	want.Redis.URL = config.NewRedisURL("redis://:hunter2@h/0")
	want.Webhooks.Secrets = map[string]config.Secret{"main": config.NewSecret("whsec_x \n")}
	want.Auth.Tokens = []config.Token{{Name: "ci", SHA256: digest, Scopes: []string{"read"}, Owners: []string{"*"}}}
	for name, src := range map[string]config.Source{
		"File": {File: file(t, "c.yaml", "redis: {url_file: "+url+"}\nwebhooks: {secrets: {main_file: "+hook+"}}\nauth: {tokens_file: "+tokens+"}")},
		"Env":  {Environ: []string{"OFFSTAGE_REDIS_URL_FILE=" + url, "OFFSTAGE_WEBHOOKS_SECRETS_MAIN_FILE=" + hook, "OFFSTAGE_AUTH_TOKENS_FILE=" + tokens}},
		"Flag": {Flags: flags(t, "--set", "redis.url_file="+url, "--set", "webhooks.secrets.main_file="+hook, "--set", "auth.tokens_file="+tokens)},
		// A twin counts where it stands: over the value of a lower level.
		"Over": {File: file(t, "d.yaml", "redis: {url: redis://other}\nwebhooks: {secrets: {main: other}}"),
			Environ: []string{"OFFSTAGE_REDIS_URL_FILE=" + url, "OFFSTAGE_WEBHOOKS_SECRETS_MAIN_FILE=" + hook, "OFFSTAGE_AUTH_TOKENS_FILE=" + tokens}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, sources, err := config.Explain(src)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, c); d != "" {
				t.Errorf("Load (-want +got):\n%s", d)
			}
			if got := sources["redis.url"]; !strings.HasSuffix(got, " -> "+url) {
				t.Errorf("source of redis.url = %q, want it to name %s", got, url)
			}
		})
	}
}

func TestLoad_UnreadableTwin(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	empty := file(t, "empty", "\n")
	_, err := config.Load(config.Source{Environ: []string{
		"OFFSTAGE_REDIS_URL_FILE=" + missing, "OFFSTAGE_WEBHOOKS_SECRETS_A_FILE=" + empty, "OFFSTAGE_WEBHOOKS_SECRETS_B_FILE=" + t.TempDir(),
	}})
	checkFaults(t, err,
		"redis.url (env OFFSTAGE_REDIS_URL_FILE -> "+missing+"): open "+missing+": no such file or directory; check that",
		"webhooks.secrets.a (env OFFSTAGE_WEBHOOKS_SECRETS_A_FILE -> "+empty+"): "+empty+" is empty",
		"webhooks.secrets.b (env OFFSTAGE_WEBHOOKS_SECRETS_B_FILE -> ")
	if !errors.As(err, new(config.Faults)) {
		t.Errorf("Load = %T, want Faults", err)
	}
}

func TestLoad_FileItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	big := filepath.Join(dir, "big.yaml")
	if err := os.WriteFile(big, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ path, want string }{
		"Missing":     {filepath.Join(dir, "none.yaml"), "no such file or directory; check the path"},
		"Format":      {file(t, "c.ini", "listen=x"), "its format is not known; name it .yaml, .yml, .toml or .json"},
		"TooLarge":    {big, "larger than 1 MiB"},
		"NotYAML":     {file(t, "c.yaml", "a: [\n"), "is not valid YAML"},
		"NotTOML":     {file(t, "c.toml", "a = \n"), "is not valid TOML"},
		"NotJSON":     {file(t, "c.json", "{} {}"), "is not valid JSON"},
		"YAMLTwice":   {file(t, "t.yaml", "listen: a\nlisten: b\n"), `"listen" already defined`},
		"JSONTwice":   {file(t, "t.json", `{"log": {"level": "info", "level": "warn"}}`), `has the name "level" twice`},
		"JSONTwiceIn": {file(t, "u.json", `{"auth": {"tokens": [{"name": "a", "name": "b"}]}}`), `has the name "name" twice`},
		"Documents":   {file(t, "e.yaml", "# c\n---\nlisten: a\n---\nlisten: b\n"), "has more than one YAML document"},
		"List":        {file(t, "f.yaml", "[a]"), "is not valid YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(config.Source{File: tc.path})
			if err == nil || !strings.HasPrefix(err.Error(), tc.path+": ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Load = %v, want %s: … %s", err, tc.path, tc.want)
			}
		})
	}
}

// Handing the daemon a file that is not a configuration must not show what is in it.
func TestLoad_FileCitesNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"c.yaml", "c.toml", "c.json"} {
		for _, text := range []string{"hunter2", "hunter2: hunter2: x", "- hunter2\n", "a: *hunter2", "`hunter2`", `"hunter2`} {
			_, err := config.Load(config.Source{File: file(t, name, text)})
			if err == nil {
				t.Errorf("Load of %q in %s = nil, want an error", text, name)
			} else if strings.Contains(err.Error(), "hunter2") && text != "a: *hunter2" { // the name of an anchor is not a value
				t.Errorf("Load of %q in %s shows it: %v", text, name, err)
			}
		}
	}
}

func FuzzLoad_Environ(f *testing.F) {
	f.Add("OFFSTAGE_LISTEN", "127.0.0.1:0")
	f.Add("OFFSTAGE_WORKER_QUEUES", "a=1,b=2")
	f.Add("OFFSTAGE_AUTH_TOKENS", `[{"name":1}]`)
	f.Add("OFFSTAGE_WEBHOOKS_SECRETS_a.b", "x")
	f.Add("OFFSTAGE_PORT_", "x")
	f.Fuzz(func(t *testing.T, name, text string) {
		if strings.HasSuffix(name, "_FILE") {
			return
		}
		c, err := config.Load(config.Source{Environ: []string{name + "=" + text}})
		if err == nil && c.Validate() != nil {
			t.Errorf("Load accepts what Validate refuses: %v", c.Validate())
		}
		var faults config.Faults
		if err != nil && (!errors.As(err, &faults) || len(faults) == 0) {
			t.Errorf("Load = %#v, want Faults", err)
		}
	})
}
