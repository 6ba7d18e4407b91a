package httpcall_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/tasks"
	"offstage/tasks/httpcall"
)

// deniedHosts are ways to write a destination that is not on the public Internet.
var deniedHosts = []string{
	// loopback in every notation
	"127.0.0.1", "127.0.0.1.", "127.255.255.254", "127.1", "127.0.1", "2130706433", "0x7f000001", "0X7F000001", "0x7f.1",
	"017700000001", "0177.0.0.1", "0177.0.0.0x1", "127.0.0.01", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]",
	"[::ffff:7f00:1]", "[::127.0.0.1]", "localhost", "LOCALHOST.", "a.localhost", "１２７.0.0.1", "127。0。0。1",
	// this network
	"0.0.0.0", "0", "0.1.2.3", "[::]",
	// private, link-local, metadata
	"10.0.0.1", "10.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.257", "169.254.169.254", "2852039166",
	"0xa9fea9fe", "[::ffff:169.254.169.254]", "169.254.0.1", "100.100.100.200", "100.64.0.1", "100.127.255.255",
	"168.63.129.16", "192.0.0.192", "[fe80::1]", "[fe80::1%25eth0]", "[fec0::1]", "[fc00::1]", "[fd00:ec2::254]",
	"[fd20:ce::254]",
	// embedded in IPv6
	"[64:ff9b::127.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b::10.0.0.1]", "[64:ff9b:1::8.8.8.8]", "[2002:7f00:1::]",
	"[2002:a9fe:a9fe::1]", "[2002:c0a8:1::1]", "[2001:0:808:808:0:0:f5ff:fffe]", "[2001:0:a00:1::f7f7:f7f7]",
	"[2606:4700::5efe:10.0.0.1]", "[2606:4700::200:5efe:10.0.0.1]",
	// multicast, broadcast, reserved, documentation, benchmarks, relays
	"224.0.0.1", "239.255.255.250", "255.255.255.255", "240.0.0.1", "[ff02::1]", "192.0.2.1", "198.51.100.7", "203.0.113.9",
	"198.18.0.1", "198.19.255.255", "192.88.99.1", "[2001:db8::1]", "[3fff::1]", "[2001:2::1]", "[2001:20::1]", "[100::1]",
	"[5f00::1]", "[4000::1]",
}

// TestRun_DeniesHosts: no connection is made, and every one of them ends in the same error.
func TestRun_DeniesHosts(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	server, hits := countingServer(t)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for _, host := range deniedHosts {
		payload := fmt.Sprintf(`{"url":"http://%s:%s/"}`, host, port)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		r, err := httpcall.Run(ctx, []byte(payload), io.Discard, httpcall.Policy{})
		cancel()
		if err == nil || err.Error() != "payload.url: destination is not allowed" || !tasks.IsRejected(err) ||
			!errors.Is(err, httpcall.ErrDenied) || !errors.Is(err, tasks.ErrInvalid) || r.Status != 0 {
			t.Errorf("Run(%s) = %+v, %v, want the one error for denied destinations", payload, r, err)
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d connections to a denied address", n)
	}
}

// countingServer counts connections, not only requests.
func countingServer(t *testing.T) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var hits atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "internal")
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			hits.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server, &hits
}

// TestRun_DeniesResolvedAddress: a name that means an internal address is found out when connecting.
func TestRun_DeniesResolvedAddress(t *testing.T) {
	t.Parallel()
	server, hits := countingServer(t)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	p := httpcall.Policy{Resolver: resolver(t, func(int64) netip.Addr { return netip.MustParseAddr("127.0.0.1") })}
	payload := []byte(`{"url":"http://innocent.example:` + port + `/"}`)
	if err := httpcall.Check(payload, p); err != nil {
		t.Errorf("Check = %v, want nil: a name says nothing yet", err)
	}
	_, err := httpcall.Run(t.Context(), payload, io.Discard, p)
	if !tasks.IsRejected(err) || err.Error() != "payload.url: destination is not allowed" || hits.Load() != 0 {
		t.Errorf("Run error = %v with %d connections, want the one error and none", err, hits.Load())
	}
	p.AllowPrivate = true
	if r, err := httpcall.Run(t.Context(), payload, io.Discard, p); err != nil || r.Body != "internal" {
		t.Errorf("Run where private addresses are allowed = %+v, %v", r, err)
	}
}

// TestGuard_ChangingDNS: a name that alternates between public and private is let through to the public address only.
func TestGuard_ChangingDNS(t *testing.T) {
	t.Parallel()
	public, private := netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("10.0.0.1")
	guard := httpcall.Guard{Resolver: resolver(t, func(n int64) netip.Addr {
		if n%2 == 1 {
			return public
		}
		return private
	})}
	errPassed := errors.New("passed the guard") // instead of connecting
	dialer := net.Dialer{Resolver: guard.Resolver}
	dialer.ControlContext = func(ctx context.Context, network, address string, c syscall.RawConn) error {
		if err := guard.Control(ctx, network, address, c); err != nil {
			return err
		}
		return fmt.Errorf("%w: %s", errPassed, address)
	}
	var got []string
	for range 6 {
		_, err := dialer.DialContext(t.Context(), "tcp", "flip.example:80")
		switch {
		case errors.Is(err, httpcall.ErrDenied):
			got = append(got, "denied")
		case errors.Is(err, errPassed) && strings.Contains(err.Error(), public.String()):
			got = append(got, "public")
		default:
			got = append(got, fmt.Sprint(err))
		}
	}
	if diff := cmp.Diff([]string{"public", "denied", "public", "denied", "public", "denied"}, got); diff != "" {
		t.Errorf("dials (-want +got):\n%s", diff)
	}
}

// TestRun_RedirectToInside is not followed, and the status of the redirect is the result.
func TestRun_RedirectToInside(t *testing.T) {
	t.Parallel()
	inside, hits := countingServer(t)
	server := httptest.NewServer(http.RedirectHandler(inside.URL+"/secret", http.StatusFound))
	t.Cleanup(server.Close)
	r, err := httpcall.Run(t.Context(), []byte(`{"url":"`+server.URL+`"}`), io.Discard, httpcall.Policy{AllowPrivate: true})
	if r.Status != http.StatusFound || r.Headers["Location"] != inside.URL+"/secret" || !tasks.IsPermanent(err) {
		t.Errorf("Run = %+v, %v, want the redirect as a permanent error", r, err)
	}
	r, err = httpcall.Run(t.Context(), []byte(`{"url":"`+server.URL+`","expect_status":[302]}`), io.Discard,
		httpcall.Policy{AllowPrivate: true})
	if r.Status != http.StatusFound || err != nil {
		t.Errorf("Run that expects the redirect = %+v, %v", r, err)
	}
	if hits.Load() != 0 {
		t.Error("the redirect was followed")
	}
}

// TestRun_IgnoresProxy: HTTP_PROXY would let a call leave from another machine. The name is no IP address, because Go
// never sends calls to loopback through a proxy.
func TestRun_IgnoresProxy(t *testing.T) {
	proxy, viaProxy := countingServer(t)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	t.Setenv("NO_PROXY", "")
	server, direct := countingServer(t)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	p := httpcall.Policy{
		AllowPrivate: true,
		Resolver:     resolver(t, func(int64) netip.Addr { return netip.MustParseAddr("127.0.0.1") }),
	}
	_, err := httpcall.Run(t.Context(), []byte(`{"url":"http://somewhere.example:`+port+`/"}`), io.Discard, p)
	if err != nil || viaProxy.Load() != 0 || direct.Load() != 1 {
		t.Errorf("Run error = %v, %d through the proxy, %d direct, want 0 and 1", err, viaProxy.Load(), direct.Load())
	}
}

func TestGuard_Allowed(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1", "126.255.255.255", "128.0.0.1",
		"169.253.1.1", "172.15.255.255", "172.32.0.1", "192.167.1.1", "192.169.1.1", "198.17.1.1", "198.20.0.1", "223.255.255.1",
		"2606:4700::1111", "2a00:1450::1", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
		"2001:0:808:808::f7f7:f7f7", "2606:4700::5efe:8.8.8.8",
	} {
		if !(httpcall.Guard{}).Allowed(netip.MustParseAddr(addr)) {
			t.Errorf("Allowed(%s) = false, want true", addr)
		}
	}
	if (httpcall.Guard{}).Allowed(netip.Addr{}) {
		t.Error("Allowed(no address) = true, want false")
	}
	if !(httpcall.Guard{AllowPrivate: true}).Allowed(netip.MustParseAddr("127.0.0.1")) {
		t.Error("Allowed(127.0.0.1) where private addresses are allowed = false")
	}
}

func TestGuard_CheckHost(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"example.com", "1.1.1.1", "2606:4700::1111", "0x.example", "127.0.0.1.example.com", "a-1"} {
		if err := (httpcall.Guard{}).CheckHost(host); err != nil {
			t.Errorf("CheckHost(%s) = %v, want nil", host, err)
		}
	}
	for _, host := range []string{"127.1", "::1", "localhost", "1.2.3.4.5", "0x", "fe80::1%eth0", "x:y"} {
		if err := (httpcall.Guard{}).CheckHost(host); !errors.Is(err, httpcall.ErrDenied) {
			t.Errorf("CheckHost(%s) = %v, want ErrDenied", host, err)
		}
	}
}

func TestGuard_Control(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]error{
		"1.1.1.1:80": nil, "[2606:4700::1111]:443": nil, "127.0.0.1:80": httpcall.ErrDenied,
		"[fe80::1%eth0]:80": httpcall.ErrDenied, "example.com:80": httpcall.ErrDenied, "": httpcall.ErrDenied,
	} {
		if err := (httpcall.Guard{}).Control(t.Context(), "tcp4", address, nil); !errors.Is(err, want) {
			t.Errorf("Control(%q) = %v, want %v", address, err, want)
		}
	}
	if err := (httpcall.Guard{}).Control(t.Context(), "udp4", "1.1.1.1:53", nil); !errors.Is(err, httpcall.ErrDenied) {
		t.Errorf("Control(udp) = %v, want ErrDenied", err)
	}
}

// FuzzGuard: whatever is written for a host, a resolver that reads it as a private address does not get through.
func FuzzGuard(f *testing.F) {
	for _, host := range deniedHosts {
		f.Add(strings.Trim(host, "[]"))
	}
	f.Fuzz(func(t *testing.T, host string) {
		guard := httpcall.Guard{}
		addr, err := netip.ParseAddr(host)
		if (guard.CheckHost(host) == nil) && err == nil && !guard.Allowed(addr) {
			t.Errorf("CheckHost(%q) = nil and Allowed = false", host)
		}
		if n, err := strconv.ParseUint(host, 0, 32); err == nil && !strings.Contains(host, "_") && guard.CheckHost(host) == nil &&
			!strings.HasPrefix(strings.ToLower(host), "0b") && !strings.HasPrefix(strings.ToLower(host), "0o") {
			t.Errorf("CheckHost(%q) = nil, but it is the number %d", host, n)
		}
	})
}
