package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"offstage/internal/redistest"
	"offstage/queue"
)

// spawn runs the binary: what sets up the Redis driver is for a process of its own.
func spawn(t *testing.T, args ...string) got {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "offstage", args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return got{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// requiring writes a configuration that requires a durability and gives the flag for it.
func requiring(t *testing.T, d string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "offstage.yaml")
	if err := os.WriteFile(file, []byte("redis:\n  require_durability: "+d+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--config=" + file
}

// doctored runs `offstage doctor` on a data folder and gives its findings as well.
func doctored(t *testing.T, dir string, args ...string) (got, []queue.Finding) {
	t.Helper()
	g := spawn(t, append([]string{"doctor", "-o", "json", "--data-dir", dir}, args...)...)
	var found []queue.Finding
	if err := json.Unmarshal([]byte(g.stdout), &found); err != nil {
		t.Fatalf("doctor says no JSON: %v\n%s%s", err, g.stdout, g.stderr)
	}
	return g, found
}

// level gives the level of the first finding of a check with text in it.
func level(found []queue.Finding, check, text string) queue.Level {
	for _, f := range found {
		if f.Check == check && strings.Contains(f.Finding+" "+f.WayOut, text) {
			return f.Level
		}
	}
	return ""
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.AOF("everysec"))
	t.Run("Fine", func(t *testing.T) {
		g, found := doctored(t, t.TempDir(), "--redis-url", s.URL())
		if g.code != exitOK || g.stderr != "" || level(found, "durability", "everysec") != queue.OK || level(found, "config", "valid") != queue.OK {
			t.Errorf("%+v", g)
		}
		table := spawn(t, "doctor", "--data-dir", t.TempDir(), "--redis-url", s.URL())
		table.want(t, exitOK, "ok     durability  everysec", "")
	})
	t.Run("Fails", func(t *testing.T) {
		g, found := doctored(t, t.TempDir(), "--redis-url", s.URL(), requiring(t, "always"))
		if g.code != exitFailed || !strings.Contains(g.stderr, "1 check failed") || level(found, "durability", "appendfsync always") != queue.Fail {
			t.Errorf("%+v", g)
		}
	})
	t.Run("ConfigFaults", func(t *testing.T) {
		g, found := doctored(t, t.TempDir(), "--redis-url", s.URL(), "--listen", "nowhere", "--concurrency", "-1")
		if g.code != exitFailed || level(found, "config", "listen") != queue.Fail || level(found, "config", "worker.concurrency") != queue.Fail ||
			level(found, "writes", "takes writes") != queue.OK {
			t.Errorf("%+v", g)
		}
		g, found = doctored(t, t.TempDir(), "--redis-url", "nonsense")
		if g.code != exitFailed || level(found, "config", "redis.url") != queue.Fail || level(found, "redis", "embedded") != "" {
			t.Errorf("%+v", g)
		}
		g, found = doctored(t, t.TempDir(), "--redis-url", "redis-sentinel://host") // the form is right, the rest is not
		if g.code != exitFailed || level(found, "config", "names its master") != queue.Fail {
			t.Errorf("%+v", g)
		}
	})
	t.Run("Unreachable", func(t *testing.T) {
		gone := redistest.Start(t)
		gone.Stop()
		g, found := doctored(t, t.TempDir(), "--redis-url", gone.URL())
		if g.code != exitUnreachable || level(found, "redis", "check redis.url") != queue.Fail || level(found, "spool", "") != queue.OK {
			t.Errorf("%+v", g)
		}
	})
}

func TestDoctor_Spool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string) {
		name = filepath.Join(dir, "spool", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, found := doctored(t, filepath.Join(dir, "not", "there"))
	if level(found, "spool", "nothing waits") != queue.OK {
		t.Errorf("%+v", found)
	}
	write("lock")
	_, found = doctored(t, dir)
	if level(found, "spool", "nothing waits") != queue.OK || level(found, "redis", "embedded") != queue.Warn {
		t.Errorf("%+v", found)
	}
	write("a.rec")
	write("b.rec")
	write("torn/c")
	g, found := doctored(t, dir)
	if level(found, "spool", "2 outcomes wait") != queue.Warn || level(found, "spool", "1 damaged") != queue.Warn || g.code != exitOK {
		t.Errorf("%+v", found)
	}
	files, _ := os.ReadDir(filepath.Join(dir, "spool"))
	if len(files) != 4 {
		t.Errorf("doctor left files: %v", files)
	}
	g, found = doctored(t, filepath.Join(dir, "spool", "lock")) // a file where the folder should be
	if level(found, "spool", "cannot be written") != queue.Fail || g.code != exitFailed {
		t.Errorf("%+v", found)
	}
}

// TestServe_RequireDurability is check 2 on the whole daemon: it starts, names what is in force at the start and in
// /readyz, or refuses with the setting and the way out.
func TestServe_RequireDurability(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]redistest.Option{
		"none": nil, "everysec": {redistest.AOF("everysec")}, "always": {redistest.AOF("always")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, opts...)
			args := []string{"--redis-url", s.URL(), requiring(t, "always")}
			if name != "always" {
				g := spawn(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir()}, args...)...)
				if g.code != exitFailed {
					t.Errorf("exit code %d, want %d", g.code, exitFailed)
				}
				for _, want := range []string{"redis.require_durability is always", name + " is in force", `"appendonly yes"`, `"appendfsync always"`} {
					if !strings.Contains(g.stderr, want) {
						t.Errorf("stderr %q, want %q in it", g.stderr, want)
					}
				}
				args = args[:2]
			}
			p := startDaemon(t, args...)
			until(t, "the start names the durability", 5*time.Second, func() bool {
				return strings.Contains(strings.ToLower(p.text()), "durability "+name)
			})
			if code, body := p.status("/readyz"); code != 200 || !strings.Contains(body, `"durability":"`+name+`"`) {
				t.Errorf("readyz: %d %s", code, body)
			}
			if name != "always" {
				return
			}
			if err := s.ConfigSet("appendfsync", "no"); err != nil {
				t.Fatal(err)
			}
			if code, body := p.status("/readyz"); code != 503 || !strings.Contains(body, "redis.require_durability is always, but none is in force") {
				t.Errorf("readyz with appendfsync no: %d %s", code, body)
			}
		})
	}
}
