package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// readyTimeout bounds how long a server may take to start and to load its data.
	readyTimeout = 20 * time.Second
	// readyPoll is the pause between two looks at a server that is not up yet.
	readyPoll = 5 * time.Millisecond
	// commandTimeout bounds the commands that this package sends itself.
	commandTimeout = 10 * time.Second
)

// Server is a redis-server that this process started. Its methods may be called from several goroutines.
type Server struct {
	Addr string // host:port, the same for the server's whole life
	// PID is the server's process. Restart changes it: do not read it while another goroutine restarts the server.
	PID int

	bin  string
	dir  string
	port int
	set  settings

	mu      sync.Mutex // guards what follows, and one start or stop at a time
	proc    *process
	freeDBs []int // in the order in which they are handed out
}

func newServer(bin, dir string, port int, set settings) *Server {
	s := &Server{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		bin:  bin, dir: dir, port: port, set: set,
	}
	for n := 1; n < Databases; n++ {
		s.freeDBs = append(s.freeDBs, n)
	}
	return s
}

// URL is the redis:// URL of database 0.
func (s *Server) URL() string { return s.URLDB(0) }

// URLDB is the redis:// URL of database n.
func (s *Server) URLDB(n int) string {
	u := url.URL{Scheme: "redis", Host: s.Addr, Path: "/" + strconv.Itoa(n), User: s.user()}
	return u.String()
}

// SocketURL is the unix:// URL of database n on a server started with [UnixSocket].
func (s *Server) SocketURL(n int) string {
	u := url.URL{Scheme: "unix", Path: s.socketPath(), RawQuery: "db=" + strconv.Itoa(n), User: s.user()}
	return u.String()
}

func (s *Server) user() *url.Userinfo {
	if s.set.password == "" {
		return nil
	}
	return url.UserPassword("", s.set.password)
}

func (s *Server) socketPath() string { return filepath.Join(s.dir, "redis.sock") }

func (s *Server) logPath() string { return filepath.Join(s.dir, "redis.log") }

// Client returns a client of database 0 that is closed at the test's end.
func (s *Server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	return Connect(tb, s.URL())
}

// Connect returns a client of the database at rawURL, like one from [Server.FreshDB], that is closed at the test's
// end.
func Connect(tb testing.TB, rawURL string) *redis.Client {
	tb.Helper()
	opts, err := redis.ParseURL(rawURL)
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	c := redis.NewClient(opts)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// FreshDB returns the URL of an empty database that no other running test has. It goes back at the test's end, to
// be used again after all the others. Pub/sub, scripts, ACLs and configuration are not per database.
func (s *Server) FreshDB(tb testing.TB) string {
	tb.Helper()
	s.mu.Lock()
	if len(s.freeDBs) == 0 {
		s.mu.Unlock()
		tb.Fatalf("redistest: more than %d databases in use at once", Databases-1)
	}
	n := s.freeDBs[0]
	s.freeDBs = s.freeDBs[1:]
	s.mu.Unlock()
	tb.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.freeDBs = append(s.freeDBs, n)
	})
	if err := s.do(n, func(ctx context.Context, c *redis.Client) error { return c.FlushDB(ctx).Err() }); err != nil {
		tb.Fatalf("redistest: empty database %d: %v", n, err)
	}
	return s.URLDB(n)
}

// ConfigSet changes a setting of the running server; a restart forgets it.
func (s *Server) ConfigSet(key, value string) error {
	err := s.do(0, func(ctx context.Context, c *redis.Client) error { return c.ConfigSet(ctx, key, value).Err() })
	if err != nil {
		return fmt.Errorf("redistest: set %s: %w", key, err)
	}
	return nil
}

// do runs f with a client of database n, which lives as long as f.
func (s *Server) do(n int, f func(context.Context, *redis.Client) error) error {
	opts, err := redis.ParseURL(s.URLDB(n))
	if err != nil {
		return err
	}
	opts.MaxRetries, opts.DialerRetries = -1, 1 // whoever calls has patience of its own
	c := redis.NewClient(opts)
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	return f(ctx, c)
}

// Stop kills the server with SIGKILL, as a crash would, and returns when it is gone. Its directory stays for
// Restart. Stopping a stopped server does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.kill()
		s.proc = nil
	}
}

// Restart starts the server again on the same port and directory, stopping it first when it runs. It returns when
// the server has loaded its data.
func (s *Server) Restart() error {
	s.Stop()
	return s.launch()
}

// Pause freezes the server with SIGSTOP: connections stay open and nothing is answered until Resume.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return errors.New("redistest: the server is stopped")
	}
	if err := s.proc.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("redistest: %s: %w", sig, err)
	}
	return nil
}

// launch starts the process and waits until it answers.
func (s *Server) launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	logFile, err := os.Create(s.logPath())
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	defer func() { _ = logFile.Close() }() // the child has its own handle
	args, err := s.args()
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	cmd := exec.Command(s.bin, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, logFile, logFile
	cmd.Env = append(os.Environ(), s.set.env...)
	proc, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("redistest: start redis-server: %w", err)
	}
	if err := s.waitReady(proc); err != nil {
		proc.kill()
		return fmt.Errorf("redistest: redis-server on %s: %w%s", s.Addr, err, s.logTail())
	}
	s.proc, s.PID = proc, cmd.Process.Pid
	return nil
}

func (s *Server) args() ([]string, error) {
	var args []string
	if s.set.sentinel != "" {
		config := filepath.Join(s.dir, "sentinel.conf")
		if _, err := os.Stat(config); errors.Is(err, os.ErrNotExist) { // a restart goes on with what it has learned
			if err := os.WriteFile(config, []byte(s.set.sentinel), 0o600); err != nil {
				return nil, err
			}
		}
		args = append(args, config, "--sentinel")
	}
	args = append(args,
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--databases", strconv.Itoa(Databases),
		"--dir", s.dir, "--save", "", "--daemonize", "no",
	)
	if major(s.bin) >= 7 { // earlier ones allow DEBUG without being asked, and refuse the setting
		args = append(args, "--enable-debug-command", "yes")
	}
	if s.set.aof != "" {
		args = append(args, "--appendonly", "yes", "--appendfsync", s.set.aof)
	}
	if s.set.password != "" {
		args = append(args, "--requirepass", s.set.password)
	}
	if s.set.socket {
		args = append(args, "--unixsocket", s.socketPath())
	}
	return append(args, s.set.args...), nil
}

// major is the first number of "Redis server v=7.0.15 …", 0 when it cannot be told.
func major(bin string) int {
	out, err := exec.Command(bin, "--version").Output()
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(out), "v=")
	first, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
}

// waitReady returns once the child serves the port and has loaded its data. It fails when the child ends, when
// somebody else serves the port, and when it takes too long.
func (s *Server) waitReady(proc *process) error {
	deadline := time.NewTimer(readyTimeout)
	defer deadline.Stop()
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		gone := proc.gone() // before the look at the port: a child that is gone cannot be the one that answers
		pid, err := s.servedBy()
		switch {
		case err == nil && pid != proc.cmd.Process.Pid:
			return fmt.Errorf("the port is served by process %d, not by the one started here", pid)
		case gone:
			return errors.New("ended at once")
		case err == nil:
			return nil
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			return fmt.Errorf("not ready after %v: %w", readyTimeout, err)
		}
	}
}

// servedBy returns the process id of the server behind the address. It is an error while that loads its data.
func (s *Server) servedBy() (pid int, err error) {
	err = s.do(0, func(ctx context.Context, c *redis.Client) error {
		if err := c.Ping(ctx).Err(); err != nil {
			return err
		}
		info, err := c.InfoMap(ctx, "server").Result()
		if err != nil {
			return err
		}
		pid, err = strconv.Atoi(info["Server"]["process_id"])
		return err
	})
	return pid, err
}

// logTail is the end of what the server said, for a message about its failure.
func (s *Server) logTail() string {
	const keep = 2000
	b, err := os.ReadFile(s.logPath())
	if err != nil || len(b) == 0 {
		return ""
	}
	return "\n" + string(b[max(0, len(b)-keep):])
}
