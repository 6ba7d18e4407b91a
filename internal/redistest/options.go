package redistest

import "go.uber.org/goleak"

// Option changes how a server is started.
type Option func(*settings)

// settings collects the options. The zero value is a server without persistence on a free port.
type settings struct {
	aof      string
	args     []string
	env      []string
	password string
	port     int
	sentinel string
	socket   bool
	leaks    []goleak.Option
}

// AOF turns the append-only file on; fsync is "always", "everysec" or "no". Without it nothing is written to disk
// and a restarted server is empty.
func AOF(fsync string) Option { return func(s *settings) { s.aof = fsync } }

// Args adds arguments of redis-server, like "--maxmemory", "10mb". They come last, so they win over ours.
func Args(args ...string) Option {
	return func(s *settings) { s.args = append(s.args, args...) }
}

// Env adds variables to the server's environment, as NAME=value.
func Env(vars ...string) Option {
	return func(s *settings) { s.env = append(s.env, vars...) }
}

// Password makes the server ask for it; the URLs and clients of [Server] carry it.
func Password(password string) Option { return func(s *settings) { s.password = password } }

// UnixSocket makes the server listen on a socket in its directory as well; see [Server.SocketURL].
func UnixSocket() Option { return func(s *settings) { s.socket = true } }

// Port asks for one port instead of any free one. Starting fails when something else holds it.
func Port(port int) Option { return func(s *settings) { s.port = port } }

// Sentinel makes the server a Redis Sentinel with the configuration given, which the sentinel rewrites and a restart
// keeps.
func Sentinel(config string) Option { return func(s *settings) { s.sentinel = config } }

// IgnoreLeaks passes exceptions to the search for leaked goroutines that [Main] makes. It means nothing to the
// other ways of starting a server.
func IgnoreLeaks(opts ...goleak.Option) Option {
	return func(s *settings) { s.leaks = append(s.leaks, opts...) }
}
