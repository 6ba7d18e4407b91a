package queue

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options configures [Open] and [New]. The zero value is ready to use.
type Options struct {
	// Limits are the defaults and sizes of tasks; nil means tasks.DefaultLimits.
	Limits *Limits
	// Observer hears what happens, for metrics; nil means nobody.
	Observer Observer
	// Embedded says that Redis lives in this process and nothing survives it; [Queue.Health] tells so.
	Embedded bool
	// PoolSize bounds the connections of each of the pools (producers, workers); zero means 10 for each CPU.
	PoolSize int
}

// The time limits of one exchange with Redis. A caller's context may shorten them.
const (
	dialTimeout  = 2 * time.Second
	readTimeout  = 3 * time.Second
	writeTimeout = 2 * time.Second
)

// Open connects to the Redis that rawURL names and checks that it answers. Forms:
//
//	redis://[user[:password]@]host[:port][/db]     rediss:// for TLS
//	unix://[user[:password]@]/path/to/socket[?db=n]
//	redis-sentinel://[user[:password]@]host[:port][,host[:port]...]/master[?db=n]
//	redis-cluster://[user[:password]@]host[:port][,host[:port]...]
//
// Errors: *tasks.InvalidError for the URL, one that wraps tasks.ErrUnavailable when Redis does not answer.
func Open(ctx context.Context, rawURL string, o Options) (*Queue, error) {
	client, err := dial(rawURL, o)
	if err != nil {
		return nil, fmt.Errorf("redis.url: %w", err)
	}
	q, err := New(client, o)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	q.owned = append(q.owned, client)
	if err := q.Ping(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("redis %s: %w (check redis.url)", address(client), err), q.Close())
	}
	return q, nil
}

func dial(rawURL string, o Options) (redis.UniversalClient, error) {
	scheme, _, ok := strings.Cut(rawURL, "://")
	if !ok {
		return nil, errors.New(`want a URL like "redis://127.0.0.1:6379/0"`)
	}
	switch scheme {
	case "redis", "rediss", "unix":
		opts, err := redis.ParseURL(rawURL)
		if err != nil {
			return nil, redact(err, rawURL)
		}
		tune(&opts.DialTimeout, &opts.ReadTimeout, &opts.WriteTimeout)
		opts.MaxRetries, opts.ContextTimeoutEnabled, opts.PoolSize = -1, true, o.PoolSize
		opts.DialerRetries, opts.MaintNotificationsConfig = 1, quietUpgrades()
		return redis.NewClient(opts), nil
	case "redis-sentinel", "redis-cluster":
		return dialMany(scheme, rawURL, o)
	}
	return nil, fmt.Errorf("scheme %q is not one of redis, rediss, unix, redis-sentinel, redis-cluster", scheme)
}

// dialMany reads the URLs with more than one host, which net/url does not take.
func dialMany(scheme, rawURL string, o Options) (redis.UniversalClient, error) {
	rest := strings.TrimPrefix(rawURL, scheme+"://")
	authority, path, _ := strings.Cut(rest, "/")
	path, query, _ := strings.Cut(path, "?")
	userinfo, hosts, found := cutLast(authority, "@")
	if !found {
		userinfo, hosts = "", authority
	}
	port := "6379"
	if scheme == "redis-sentinel" {
		port = "26379"
	}
	u := &redis.UniversalOptions{MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: o.PoolSize, DialerRetries: 1,
		MaintNotificationsConfig: quietUpgrades()}
	tune(&u.DialTimeout, &u.ReadTimeout, &u.WriteTimeout)
	for host := range strings.SplitSeq(hosts, ",") {
		if host == "" {
			return nil, errors.New("a host is empty")
		}
		if !strings.Contains(host, ":") {
			host += ":" + port
		}
		u.Addrs = append(u.Addrs, host)
	}
	if err := credentials(u, userinfo); err != nil {
		return nil, err
	}
	if scheme == "redis-cluster" {
		if path != "" || query != "" {
			return nil, errors.New("a cluster URL has no path and no query")
		}
		return redis.NewClusterClient(u.Cluster()), nil
	}
	values, err := url.ParseQuery(query)
	if err != nil || path == "" {
		return nil, errors.New(`a sentinel URL names its master, like "redis-sentinel://host:26379/mymaster?db=0"`)
	}
	u.MasterName = path
	if db := values.Get("db"); db != "" {
		if u.DB, err = strconv.Atoi(db); err != nil {
			return nil, fmt.Errorf("db %q is not a number", db)
		}
	}
	return redis.NewFailoverClient(u.Failover()), nil
}

// quietUpgrades turns off a handshake that only Redis' own cloud understands, and that two clients cannot share.
func quietUpgrades() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

func credentials(u *redis.UniversalOptions, userinfo string) error {
	user, password, has := strings.Cut(userinfo, ":")
	var uerr, perr error
	u.Username, uerr = url.PathUnescape(user)
	u.Password, perr = url.PathUnescape(password)
	if !has && userinfo != "" {
		return errors.New(`user info without a password: write ":password@" or "user:password@"`)
	}
	if uerr != nil || perr != nil {
		return errors.New("user info is not percent-encoded correctly")
	}
	return nil
}

func tune(dial, read, write *time.Duration) {
	*dial, *read, *write = dialTimeout, readTimeout, writeTimeout
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// redact keeps a password out of a parser's message.
func redact(err error, rawURL string) error {
	return errors.New(strings.ReplaceAll(err.Error(), rawURL, "<url>"))
}

// address is the host that an error names.
func address(c redis.UniversalClient) string {
	switch c := c.(type) {
	case *redis.Client:
		return c.Options().Addr
	case *redis.ClusterClient:
		return strings.Join(c.Options().Addrs, ",")
	}
	return ""
}
