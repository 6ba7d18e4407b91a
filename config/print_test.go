package config_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"offstage/config"
)

func TestConfig_Print(t *testing.T) {
	t.Parallel()
	path := file(t, "c.yaml", "worker: {queues: {Mail: 3, \"1\": 1}}\nauth: {tokens: [{name: ci, sha256: "+digest+", scopes: [read], owners: [\"*\"]}]}")
	c, sources, err := config.Explain(config.Source{
		File:    path,
		Environ: []string{"OFFSTAGE_REDIS_URL=redis://user:hunter2@h:6379/0", "OFFSTAGE_WEBHOOKS_SECRETS_MAIN=hunter2", "OFFSTAGE_EXEC_ENV=PATH,KEY=hunter2"},
		Flags:   flags(t, "--listen", "0.0.0.0:80", "--set", "task.retention=48h"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := c.Print(&out, sources); err != nil {
		t.Fatal(err)
	}
	want := `redis:
  url: "redis://user:<secret>@h:6379/0"  # env OFFSTAGE_REDIS_URL
  require_durability: ""  # default
  wait_replicas: 0  # default
listen: "0.0.0.0:80"  # flag --listen
data_dir: "./data"  # default
worker:
  enabled: true  # default
  concurrency: 10  # default
  queues:  # file PATH
    "1": 1
    Mail: 3
  strict_priority: false  # default
  poll_interval: 100ms  # default
task:
  default_timeout: 30m  # default
  max_retries: 3  # default
  retention: 48h  # flag --set
  max_payload: 1MiB  # default
  max_result: 1MiB  # default
  max_interruptions: 3  # default
cancel_grace: 10s  # default
drain_timeout: 30s  # default
commit:
  hold: 5s  # default
exec:
  enabled: auto  # default
  allow: []  # default
  env: [PATH, "KEY=<secret>"]  # env OFFSTAGE_EXEC_ENV
  shell: /bin/sh  # default
http:
  allow_private: false  # default
events:
  max_per_task: 10000  # default
  max_per_owner: 10000  # default
auth:
  tokens:  # file PATH
    - name: ci
      sha256: "9f86d081…"
      scopes: [read]
      owners: ["*"]
  allow_unauthenticated: false  # default
monitoring:
  enabled: true  # default
  read_only: true  # default
log:
  level: info  # default
  format: text  # default
webhooks:
  secrets:
    main: "<secret>"  # env OFFSTAGE_WEBHOOKS_SECRETS_MAIN
`
	if d := cmp.Diff(want, strings.ReplaceAll(out.String(), path, "PATH")); d != "" {
		t.Errorf("Print (-want +got):\n%s", d)
	}
}

// What is printed, masks apart, is a file that gives the same configuration.
func TestConfig_Print_RoundTrip(t *testing.T) {
	t.Parallel()
	full := wantEverything()
	full.Redis.URL = config.NewRedisURL("redis://h:6379/0")
	full.Webhooks, full.Auth.Tokens = config.Webhooks{}, nil
	full.Exec.Env = full.Exec.Env[:1]
	full.Worker.Queues = map[string]int{"true": 1, "1": 1, "1h": 2, "0": 1, "null": 3, "1e3": 1, "a-b_c": 4, "y": 1}
	full.DataDir = "a: b # 'c' \"d\" \t\\ é"
	full.Exec.Allow = []string{"-", "a,b", "[x]", "{y}", "*", "&z", "!t", "0", "~", "0x1", "012", ".5", "1.5", "1KiB", "2026-01-01", "a: b"}
	for name, c := range map[string]config.Config{"Default": config.Default(), "Everything": full} {
		var out strings.Builder
		if err := c.Print(&out, nil); err != nil {
			t.Fatal(err)
		}
		if name == "Everything" && strings.Contains(out.String(), "  #") {
			t.Errorf("Print without sources has comments:\n%s", out.String())
		}
		text := out.String()
		// A list item with a comma cannot be told from two in the text form, but this is the file form.
		if d := cmp.Diff(c, load(t, config.Source{File: file(t, "c.yaml", text)})); d != "" {
			t.Errorf("%s: printed and loaded again (-want +got):\n%s\n%s", name, d, text)
		}
	}
}

// A printed configuration is not one to start from: its secrets are gone.
func TestConfig_Print_MaskIsRefused(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Redis.URL = config.NewRedisURL("redis://:hunter2@h")
	c.Webhooks.Secrets = map[string]config.Secret{"main": config.NewSecret("hunter2")}
	var out strings.Builder
	if err := c.Print(&out, nil); err != nil {
		t.Fatal(err)
	}
	path := file(t, "c.yaml", out.String())
	_, err := config.Load(config.Source{File: path})
	checkFaults(t, err, "redis.url (file "+path+"): holds the mask", "webhooks.secrets.main (file "+path+"): is the mask")
}

// holder has secrets where package fmt cannot call methods.
type holder struct {
	Secret   config.Secret
	secret   config.Secret
	url      config.RedisURL
	secrets  map[string]config.Secret
	env      []config.EnvVar
	Nested   struct{ c config.Config }
	Pointers []*config.Secret
}

func TestSecret_NeverShows(t *testing.T) {
	t.Parallel()
	s := config.NewSecret("hunter2")
	c := config.Default()
	c.Redis.URL = config.NewRedisURL("redis://user:hunter2@h/0?password=hunter2")
	c.Webhooks.Secrets = map[string]config.Secret{"a": s}
	c.Exec.Env = []config.EnvVar{{Name: "KEY", Value: &s}}
	h := holder{Secret: s, secret: s, url: c.Redis.URL, secrets: c.Webhooks.Secrets, env: c.Exec.Env, Pointers: []*config.Secret{&s}}
	h.Nested.c = c

	shown := map[string]string{}
	for name, v := range map[string]any{"secret": s, "url": c.Redis.URL, "config": c, "holder": h, "pointer": &c, "env": c.Exec.Env} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%T", "%08.3f", "%U", "%c", "%o", "%w"} {
			shown[name+" "+verb] = fmt.Sprintf(verb, v)
		}
		b, err := json.Marshal(v)
		shown[name+" json"] = fmt.Sprint(string(b), err)
		var text, structured bytes.Buffer
		slog.New(slog.NewTextHandler(&text, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&structured, nil)).Info("x", "v", v)
		shown[name+" slog text"], shown[name+" slog json"] = text.String(), structured.String()
	}
	x, err := xml.Marshal(s)
	shown["xml"] = fmt.Sprint(string(x), err)
	yaml, err := s.MarshalYAML()
	shown["yaml"] = fmt.Sprint(yaml, err)
	yaml, err = c.Redis.URL.MarshalYAML()
	shown["url yaml"] = fmt.Sprint(yaml, err)
	var out strings.Builder
	if err := c.Print(&out, nil); err != nil {
		t.Fatal(err)
	}
	shown["print"] = out.String()

	for how, text := range shown {
		if strings.Contains(text, "hunter2") || strings.Contains(strings.ToLower(text), "68756e74657232") {
			t.Errorf("%s shows the secret: %s", how, text)
		}
	}
	if s.String() != "<secret>" || s.GoString() != "<secret>" || (config.Secret{}).String() != "" {
		t.Errorf("String() = %q, GoString() = %q, of none %q", s.String(), s.GoString(), config.Secret{}.String())
	}
	if s.Reveal() != "hunter2" {
		t.Errorf("Reveal() = %q", s.Reveal())
	}
}

func TestRedisURL_String(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"":                            "",
		"redis://h:6379/0":            "redis://h:6379/0",
		"redis://:pw@h:6379/0":        "redis://:<secret>@h:6379/0",
		"redis://user:pw@h":           "redis://user:<secret>@h",
		"redis://pw@h":                "redis://<secret>@h",
		"redis://:p/w#y@h/1":          "redis://:<secret>@h/1",
		"redis://:p?w@h/1":            "redis://<secret>",
		"redis://h/0?password=a@b":    "redis://<secret>",
		"redis://:p@w@h/1":            "redis://:<secret>@h/1",
		"redis://:p:w@h/1":            "redis://:<secret>@h/1",
		"rediss://h?db=2&password=pw": "rediss://h?db=2&password=<secret>",
		"redis-sentinel://:pw@a:1,b:2/0?master=m&sentinel_password=pw": "redis-sentinel://:<secret>@a:1,b:2/0?master=m&sentinel_password=<secret>",
		"redis-cluster://u:pw@a:1,b:2?dial_timeout=3s":                 "redis-cluster://u:<secret>@a:1,b:2?dial_timeout=3s",
		"unix://u:pw@/run/redis.sock?db=1":                             "unix://u:<secret>@/run/redis.sock?db=1",
		"pw":                                                           "<secret>",
		"redis:pw@h":                                                   "<secret>",
	} {
		if got := config.NewRedisURL(url).String(); got != want {
			t.Errorf("NewRedisURL(%q).String() = %q, want %q", url, got, want)
		}
	}
}

func TestExec_Environ(t *testing.T) {
	t.Parallel()
	e := config.Exec{Env: []config.EnvVar{
		{Name: "PATH"}, {Name: "MISSING"}, {Name: "LANG", Value: new(config.NewSecret("C"))}, {Name: "EMPTY", Value: &config.Secret{}},
	}}
	got := e.Environ([]string{"PATH=/bin", "LANG=de", "OFFSTAGE_TOKEN=t", "HOME=/root"})
	if d := cmp.Diff([]string{"PATH=/bin", "LANG=C", "EMPTY="}, got); d != "" {
		t.Errorf("Environ (-want +got):\n%s", d)
	}
}

func TestConfig_ExecEnabled(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		url  string
		set  *bool
		want bool
	}{
		{"", nil, true}, {"redis://h", nil, false}, {"", new(false), false}, {"redis://h", new(true), true},
	} {
		c := config.Config{Redis: config.Redis{URL: config.NewRedisURL(tc.url)}, Exec: config.Exec{Enabled: tc.set}}
		if got := c.ExecEnabled(); got != tc.want {
			t.Errorf("ExecEnabled() with redis.url %q = %v, want %v", tc.url, got, tc.want)
		}
	}
}
