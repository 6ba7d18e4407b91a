package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// errMissing is what a test fails with on a machine without redis-server. Skipping instead would make a green run
// mean nothing.
var errMissing = errors.New("redis-server not found: run 'make test', which installs it")

// Databases is how many databases a server has: 0, which [Server.Client] uses, and the others for [Server.FreshDB].
const Databases = 512

// Main is the body of a TestMain: it starts a server, stores it in *server, runs the tests, stops the server, fails
// the run when goroutines are left over, and exits.
func Main(m *testing.M, server **Server, opts ...Option) {
	var set settings
	for _, opt := range opts {
		opt(&set)
	}
	goleak.VerifyTestMain(&suite{m, server, opts}, set.leaks...)
}

// suite is a testing.M that has a server while it runs.
type suite struct {
	m      *testing.M
	server **Server
	opts   []Option
}

// Run returns the exit code of the tests, or 1 when there is no server to run them with.
func (s *suite) Run() int {
	server, stop, err := StartMain(s.opts...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "redistest:", err)
		return 1
	}
	defer stop()
	*s.server = server
	return s.m.Run()
}

// Start starts a server for one test, which fails when that cannot be done, and stops it at the test's end.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s, stop, err := StartMain(opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stop)
	return s
}

// StartMain starts a server without a test at hand. The function it returns stops the server and removes its
// directory; it may be called more than once.
func StartMain(opts ...Option) (*Server, func(), error) {
	var set settings
	for _, opt := range opts {
		opt(&set)
	}
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, nil, errMissing
	}
	dir, err := os.MkdirTemp("", "offstage-redis-")
	if err != nil {
		return nil, nil, fmt.Errorf("redistest: %w", err)
	}
	s, err := start(bin, dir, set)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, func() { s.Stop(); _ = os.RemoveAll(dir) }, nil
}

// start launches a server, on another port when the one that was free a moment ago got lost to somebody.
func start(bin, dir string, set settings) (*Server, error) {
	const attempts = 5
	var errs error
	for range attempts {
		port := set.port
		if port == 0 {
			var err error
			if port, err = freePort(); err != nil {
				return nil, err
			}
		}
		s := newServer(bin, dir, port, set)
		err := s.launch()
		if err == nil {
			return s, nil
		}
		errs = errors.Join(errs, err)
		if set.port != 0 {
			break
		}
	}
	return nil, errs
}

// freePort finds a port that nobody listens on. It stays below the range from which Linux gives ports to outgoing
// connections (32768 and up): one of those could take the port while a stopped server waits for its restart.
func freePort() (int, error) {
	const low, high, attempts = 20000, 32768, 100
	for range attempts {
		port := low + rand.IntN(high-low)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("redistest: no free port in %d tries between %d and %d", attempts, low, high)
}
