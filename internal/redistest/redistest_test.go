package redistest_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/internal/redistest"
)

var server *redistest.Server

func TestMain(m *testing.M) { redistest.Main(m, &server) }

func TestServer_FreshDB(t *testing.T) {
	t.Parallel()
	a, b := server.FreshDB(t), server.FreshDB(t)
	if a == b {
		t.Fatalf("FreshDB() = %q twice", a)
	}
	if err := redistest.Connect(t, a).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n := redistest.Connect(t, b).Exists(t.Context(), "k").Val(); n != 0 {
		t.Errorf("%q sees the key written to %q", b, a)
	}

	t.Run("EmptyWhenUsedAgain", func(t *testing.T) {
		s := redistest.Start(t)
		for range redistest.Databases { // one more than there are
			t.Run("", func(t *testing.T) {
				c := redistest.Connect(t, s.FreshDB(t))
				if n := c.DBSize(t.Context()).Val(); n != 0 {
					t.Fatalf("database has %d keys, want 0", n)
				}
				if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

func TestServer_Client(t *testing.T) {
	t.Parallel()
	info, err := server.Client(t).InfoMap(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info["Server"]["process_id"], strconv.Itoa(server.PID); got != want {
		t.Errorf("process_id = %s, want %s", got, want)
	}
}

func TestServer_Restart(t *testing.T) {
	t.Parallel()
	t.Run("KeepsAOF", func(t *testing.T) {
		t.Parallel()
		for _, fsync := range []string{"always", "everysec"} {
			if got := restarted(t, redistest.AOF(fsync)); got != "v" {
				t.Errorf("with AOF(%q) the key is %q after kill -9 and restart, want %q", fsync, got, "v")
			}
		}
	})
	t.Run("ForgetsWithoutAOF", func(t *testing.T) {
		t.Parallel()
		if got := restarted(t); got != "" {
			t.Errorf("the key is %q after a restart without persistence, want none", got)
		}
	})
	t.Run("WhileRunning", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		before := s.PID
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		if s.PID == before {
			t.Errorf("PID = %d before and after Restart", before)
		}
	})
}

// restarted writes a key, kills the server, starts it again and returns the key.
func restarted(t *testing.T, opts ...redistest.Option) string {
	t.Helper()
	s := redistest.Start(t, opts...)
	c := s.Client(t)
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if err := syscall.Kill(s.PID, 0); !errors.Is(err, syscall.ESRCH) {
		t.Fatalf("process %d after Stop: %v, want %v", s.PID, err, syscall.ESRCH)
	}
	if conn, err := net.Dial("tcp", s.Addr); err == nil {
		_ = conn.Close()
		t.Fatal("somebody listens after Stop")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	v, err := c.Get(t.Context(), "k").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return v
}

func TestServer_Pause(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t)
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	answered := make(chan error, 1)
	wg.Go(func() { answered <- c.BLPop(context.WithoutCancel(t.Context()), time.Second, "none").Err() })
	select {
	case err := <-answered:
		t.Errorf("a paused server answered: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("Ping after Resume: %v", err)
	}

	t.Run("Stopped", func(t *testing.T) {
		s.Stop()
		s.Stop()
		if err := s.Pause(); err == nil {
			t.Error("Pause of a stopped server succeeded")
		}
	})
}

func TestServer_ConfigSet(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	if err := s.ConfigSet("maxmemory", "12345678"); err != nil {
		t.Fatal(err)
	}
	got := s.Client(t).ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"]
	if got != "12345678" {
		t.Errorf("maxmemory = %q, want %q", got, "12345678")
	}
	if err := s.ConfigSet("no-such-setting", "1"); err == nil {
		t.Error("an unknown setting was accepted")
	}
}

func TestStart_Options(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.UnixSocket(), redistest.Password("p w/1"), redistest.Args("--maxclients", "50"))
	for _, url := range []string{s.URLDB(3), s.SocketURL(3)} {
		c := redistest.Connect(t, url)
		got, err := c.ConfigGet(t.Context(), "maxclients").Result()
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got["maxclients"] != "50" {
			t.Errorf("%s: maxclients = %q, want 50", url, got["maxclients"])
		}
		if db := c.Options().DB; db != 3 {
			t.Errorf("%s is database %d, want 3", url, db)
		}
	}
}

func TestStart_DebugAllowed(t *testing.T) {
	t.Parallel()
	if err := server.Client(t).Do(t.Context(), "DEBUG", "SLEEP", "0").Err(); err != nil {
		t.Error(err)
	}
}

func TestStartMain_Foreign(t *testing.T) {
	t.Parallel()
	foreign := redistest.Start(t)
	_, port, _ := strings.Cut(foreign.Addr, ":")
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	want := "served by process " + strconv.Itoa(foreign.PID)
	cases := map[string][]redistest.Option{
		"ChildDies":  {redistest.Port(n)},
		"ChildLives": {redistest.Port(n), redistest.Args("--port", "0"), redistest.UnixSocket()},
	}
	for name, opts := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := redistest.StartMain(opts...)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("StartMain on a taken port = %v, want %q in it", err, want)
			}
			if err := foreign.Client(t).Ping(t.Context()).Err(); err != nil {
				t.Errorf("the foreign server: %v", err)
			}
		})
	}
}

func TestStartMain_BadArgument(t *testing.T) {
	t.Parallel()
	_, _, err := redistest.StartMain(redistest.Args("--no-such-setting", "1"))
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("StartMain = %v, want the server's own words", err)
	}
}

func TestStartMain_NotInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, _, err := redistest.StartMain()
	if want := "redis-server not found: run 'make test', which installs it"; err == nil || err.Error() != want {
		t.Errorf("StartMain without redis-server = %v, want %q", err, want)
	}
}

// TestMain_DiesWithParent kills a test binary while it has a server, and expects the server gone as well.
func TestMain_DiesWithParent(t *testing.T) {
	t.Parallel()
	if os.Getenv("REDISTEST_CHILD") != "" {
		os.Stdout.WriteString(strconv.Itoa(server.PID) + "\n")
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestMain_DiesWithParent$")
	cmd.Env = append(os.Environ(), "REDISTEST_CHILD=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 32)
	n, readErr := out.Read(buf)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil {
		t.Fatalf("no pid from the child: %v, %v", readErr, err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if !alive(pid) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("redis-server %d outlived the test binary", pid)
		}
	}
}

// alive reports whether pid runs; a zombie that waits for its reaper does not.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}
