package config

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// mask is what a secret looks like to everybody but its user.
const mask = "<secret>"

// Secret is a text that must not be seen: every way of printing it gives "<secret>", or nothing when it is empty. The
// text is behind a pointer so that not even a dump of a surrounding unexported field shows it.
type Secret struct{ text *string }

// NewSecret wraps text. An empty text gives the zero Secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal gives the text itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.text == nil }

// Equal reports whether both hold the same text. It is for tests and change detection: it does not take constant
// time.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// String gives "<secret>", or nothing when there is none.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return mask
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// Format prints String for every verb of package fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText gives String; JSON, XML and others use it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML gives String.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// LogValue gives String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// RedisURL is the address of a Redis with, maybe, a password in it. Every way of printing it shows the address
// without the password.
type RedisURL struct{ secret Secret }

// NewRedisURL wraps a URL. An empty one gives the zero RedisURL.
func NewRedisURL(url string) RedisURL { return RedisURL{secret: NewSecret(url)} }

// Reveal gives the whole URL, password included.
func (u RedisURL) Reveal() string { return u.secret.Reveal() }

// IsZero reports whether there is no URL.
func (u RedisURL) IsZero() bool { return u.secret.IsZero() }

// Equal reports whether both hold the same text.
func (u RedisURL) Equal(other RedisURL) bool { return u.secret.Equal(other.secret) }

// String gives the URL with "<secret>" instead of what may be one: the password, a user name that stands alone, and
// the value of every query parameter that is not known to be harmless.
func (u RedisURL) String() string {
	text := u.Reveal()
	if text == "" {
		return ""
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return mask
	}
	// The last '@' ends the user part, wherever it stands: a password with an unescaped '/' must not show. With a '?'
	// before it, nobody can say whether it stands in a password or in the query.
	at := strings.LastIndexByte(rest, '@')
	if at >= 0 && strings.Contains(rest[:at], "?") {
		return scheme + "://" + mask
	}
	if at >= 0 {
		user, _, found := strings.Cut(rest[:at], ":")
		if !found {
			user = mask
		} else {
			user += ":" + mask
		}
		scheme, rest = scheme+"://"+user+"@", rest[at+1:]
	} else {
		scheme += "://"
	}
	server, query, found := strings.Cut(rest, "?")
	if found {
		server += "?" + maskQuery(query)
	}
	return scheme + server
}

func maskQuery(query string) string {
	params := strings.Split(query, "&")
	for i, p := range params {
		name, value, ok := strings.Cut(p, "=")
		if ok && value != "" && !harmlessParam(name) {
			params[i] = name + "=" + mask
		}
	}
	return strings.Join(params, "&")
}

func harmlessParam(name string) bool {
	switch name {
	case "db", "master", "master_name", "addr", "protocol", "client_name", "skip_verify", "pool_size":
		return true
	}
	return strings.HasSuffix(name, "_timeout")
}

// GoString is String.
func (u RedisURL) GoString() string { return u.String() }

// Format prints String for every verb of package fmt.
func (u RedisURL) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, u.String()) }

// MarshalText gives String; JSON, XML and others use it.
func (u RedisURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// MarshalYAML gives String.
func (u RedisURL) MarshalYAML() (any, error) { return u.String(), nil }

// LogValue gives String.
func (u RedisURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// EnvVar is a variable of a command's environment.
type EnvVar struct {
	Name string
	// Value is the variable's value; nil passes on what the daemon's own environment has, if anything.
	Value *Secret
}

// String gives NAME, or NAME=<secret> when it has a value of its own.
func (e EnvVar) String() string {
	if e.Value == nil {
		return e.Name
	}
	return e.Name + "=" + e.Value.String()
}

// Environ is the environment that Env describes, as NAME=value, given the daemon's own.
func (e Exec) Environ(daemon []string) []string {
	own := make(map[string]string, len(daemon))
	for _, pair := range daemon {
		name, value, _ := strings.Cut(pair, "=")
		own[name] = value
	}
	env := make([]string, 0, len(e.Env))
	for _, v := range e.Env {
		value, ok := own[v.Name]
		if v.Value != nil {
			value, ok = v.Value.Reveal(), true
		}
		if ok {
			env = append(env, v.Name+"="+value)
		}
	}
	return env
}
