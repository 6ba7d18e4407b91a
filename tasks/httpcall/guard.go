package httpcall

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrDenied: the destination is not on the public Internet. It says nothing more on purpose: an error that told names
// from addresses, or one address from another, would map the network for whoever asks.
var ErrDenied = errors.New("destination is not allowed")

// Guard keeps calls out of the operator's own network. It judges the address that is connected to, after every name
// has been resolved, so that neither a name nor a change of DNS between check and use gets past it. The zero value
// guards with the default resolver; a Guard may be used by any number of goroutines.
type Guard struct {
	// AllowPrivate lifts the guard: every address may be called.
	AllowPrivate bool
	// Resolver resolves names; nil means net.DefaultResolver.
	Resolver *net.Resolver
}

// Allowed reports whether addr may be connected to: it is a unicast address of the public Internet, and so is every
// IPv4 address that is embedded in it (mapped, NAT64, 6to4, Teredo).
func (g Guard) Allowed(addr netip.Addr) bool { return g.AllowPrivate || public(addr) }

// CheckHost refuses early what is denied whatever DNS says: literal addresses in any notation a resolver might take,
// and localhost. It returns ErrDenied or nil; nil does not mean that the host may be connected to.
func (g Guard) CheckHost(host string) error {
	if g.AllowPrivate {
		return nil
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if addr, err := netip.ParseAddr(host); err == nil {
		if !public(addr) {
			return ErrDenied
		}
		return nil
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if numeric(last) || last == "localhost" || strings.ContainsAny(host, ":%") {
		return ErrDenied
	}
	return nil
}

// numeric reports whether a host that ends in label is an IPv4 address in a notation of inet_aton(3), like 127.1,
// 0x7f000001 and 017700000001.
func numeric(label string) bool {
	digits, hex := strings.CutPrefix(label, "0x")
	if hex {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

// Control is a net.Dialer's ControlContext. It returns ErrDenied before a packet is sent.
func (g Guard) Control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if g.AllowPrivate {
		return nil
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil || !strings.HasPrefix(network, "tcp") || !public(to.Addr()) {
		return ErrDenied
	}
	return nil
}

// Transport is a new transport behind the guard: direct, whatever HTTP_PROXY says, one connection for each call, at
// most 64 KiB of response headers. Close its idle connections when done.
func (g Guard) Transport() *http.Transport {
	dialer := &net.Dialer{Timeout: 30 * time.Second, Resolver: g.Resolver, ControlContext: g.Control}
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      true,
		TLSHandshakeTimeout:    30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// public is the whole judgement. IPv6 is an allow-list: of all there is only 2000::/3 is handed out.
func public(addr netip.Addr) bool {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.Zone() != "" {
		return false
	}
	if addr.Is4() {
		return !within(denied4(), addr)
	}
	raw := addr.As16()
	v4 := func(at int) netip.Addr { return netip.AddrFrom4([4]byte(raw[at : at+4])) }
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(addr): // NAT64
		return public(v4(12))
	case netip.MustParsePrefix("2002::/16").Contains(addr): // 6to4
		return public(v4(2))
	case netip.MustParsePrefix("2001::/32").Contains(addr): // Teredo: server, and client with its bits turned over
		client := binary.BigEndian.Uint32(raw[12:]) ^ 0xffffffff
		binary.BigEndian.PutUint32(raw[12:], client)
		return public(v4(4)) && public(v4(12))
	case raw[8]&^3 == 0 && raw[9] == 0 && raw[10] == 0x5e && raw[11] == 0xfe: // ISATAP
		return public(v4(12)) && netip.MustParsePrefix("2000::/3").Contains(addr) && !within(denied6(), addr)
	}
	return netip.MustParsePrefix("2000::/3").Contains(addr) && !within(denied6(), addr)
}

func within(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// denied4 are the IPv4 addresses that are not on the public Internet (IANA's special-purpose registry).
func denied4() []netip.Prefix {
	return prefixes(
		"0.0.0.0/8",        // this network
		"10.0.0.0/8",       // private
		"100.64.0.0/10",    // carrier-grade NAT; Alibaba's metadata
		"127.0.0.0/8",      // loopback
		"168.63.129.16/32", // Azure's host, which looks public
		"169.254.0.0/16",   // link-local; metadata of most clouds
		"172.16.0.0/12",    // private
		"192.0.0.0/24",     // protocol assignments; Oracle's metadata
		"192.0.2.0/24",     // documentation
		"192.88.99.0/24",   // 6to4 relays
		"192.168.0.0/16",   // private
		"198.18.0.0/15",    // benchmarks
		"198.51.100.0/24",  // documentation
		"203.0.113.0/24",   // documentation
		"224.0.0.0/4",      // multicast
		"240.0.0.0/4",      // reserved, and broadcast
	)
}

// denied6 are the exceptions in 2000::/3.
func denied6() []netip.Prefix {
	return prefixes(
		"2001::/23",     // protocol assignments: benchmarks, ORCHID and the like
		"2001:db8::/32", // documentation
		"3fff::/20",     // documentation
	)
}

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}
