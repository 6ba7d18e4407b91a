package httpcall

import (
	"cmp"
	"net"
)

const (
	defaultResponseBytes = 64 << 10
	defaultUserAgent     = "offstage"
)

// Policy is what an operator lets calls do. The zero value calls the public Internet only.
type Policy struct {
	// AllowPrivate lets calls go to any address; see [Guard].
	AllowPrivate bool
	// MaxResponseBytes is how much of a response's body is read and kept. Zero and less mean 64 KiB.
	MaxResponseBytes int64
	// UserAgent is sent unless the payload names another. Empty means "offstage".
	UserAgent string
	// Resolver resolves names; nil means net.DefaultResolver.
	Resolver *net.Resolver
}

func (p Policy) guard() Guard { return Guard{AllowPrivate: p.AllowPrivate, Resolver: p.Resolver} }

func (p Policy) responseBytes() int64 {
	if p.MaxResponseBytes <= 0 {
		return defaultResponseBytes
	}
	return p.MaxResponseBytes
}

func (p Policy) userAgent() string { return cmp.Or(p.UserAgent, defaultUserAgent) }
