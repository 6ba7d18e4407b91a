package api

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// guard keeps web pages away from a daemon that listens on loopback without tokens. A page whose name was made to
// resolve to 127.0.0.1 shows its own name in Host; a page elsewhere that posts to us shows itself in Origin, and in
// Sec-Fetch-Site.
type guard struct {
	off   bool
	hosts map[string]bool
}

func newGuard(hosts []string, off bool) guard {
	g := guard{off: off, hosts: map[string]bool{"localhost": true}}
	for _, h := range hosts {
		g.hosts[hostname(h)] = true
	}
	return g
}

// guardHost refuses what the guard does not let in.
func (s *Server) guardHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := s.guard.refuses(r); why != "" {
			writeProblem(w, r, errForeign.problem(why))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuses says why r is not let in; "" lets it in.
func (g guard) refuses(r *http.Request) string {
	if g.off {
		return ""
	}
	if !g.knows(r.Host) {
		return "the Host header names neither this machine nor one of the configured hosts"
	}
	switch origin := r.Header.Values("Origin"); {
	case len(origin) == 0 && fromElsewhere(r):
		return "the browser says that another site sent this"
	case len(origin) > 1 || len(origin) == 1 && !g.ours(origin[0], r.Host):
		return "the Origin header names another site"
	}
	return ""
}

// fromElsewhere reports whether a browser says that a page of another site makes a request that may change something.
// Following a link from elsewhere is fine.
func fromElsewhere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	return !safe && (site == "cross-site" || site == "same-site")
}

// ours reports whether origin is the server itself, as the request addressed it, or a configured host. Another port of
// loopback is another program, and foreign.
func (g guard) ours(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	return strings.EqualFold(u.Host, host) || g.hosts[hostname(u.Host)] && hostname(u.Host) != "localhost"
}

func (g guard) knows(hostport string) bool {
	host := hostname(hostport)
	if g.hosts[host] {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// hostname is the host in "host", "host:port", "[v6]" or "[v6]:port", in lower case and without the root's dot.
func hostname(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
