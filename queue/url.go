package queue

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"offstage/tasks"
)

// dial makes a client for a URL; it does not connect. What it says of a bad URL never has a part of the user info in it.
// Errors: *tasks.InvalidError.
func dial(rawURL string, o Options) (redis.UniversalClient, error) {
	client, err := parse(rawURL, o)
	if err != nil {
		return nil, &tasks.InvalidError{Field: "redis.url", Reason: err.Error()}
	}
	return client, nil
}

func parse(rawURL string, o Options) (redis.UniversalClient, error) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return nil, errors.New(`want a URL like "redis://127.0.0.1:6379/0"`)
	}
	switch scheme {
	case "redis", "rediss", "unix":
		opts, err := redis.ParseURL(rawURL)
		if err != nil {
			return nil, explainURL(scheme, rest, err)
		}
		tune(&opts.DialTimeout, &opts.ReadTimeout, &opts.WriteTimeout)
		opts.MaxRetries, opts.ContextTimeoutEnabled, opts.PoolSize = -1, true, o.PoolSize
		opts.DialerRetries, opts.MaintNotificationsConfig = 1, quietUpgrades()
		return redis.NewClient(opts), nil
	case "redis-sentinel", "redis-cluster":
		return parseMany(scheme, rest, o)
	}
	return nil, fmt.Errorf("scheme %q is not one of redis, rediss, unix, redis-sentinel, redis-cluster", scheme)
}

// explainURL says what is wrong with a URL that go-redis refused with err, whose text may hold the password. It asks again
// without the user info: what is still wrong can be told.
func explainURL(scheme, rest string, err error) error {
	_, bare, has := cutLast(rest, "@")
	if !has {
		if _, unparsed := errors.AsType[*url.Error](err); unparsed {
			return fmt.Errorf(`cannot be parsed: want "%s://[user:password@]host[:port][/db]"`, scheme)
		}
		return err
	}
	if _, err = redis.ParseURL(scheme + "://" + bare); err == nil {
		return errUserInfo
	}
	if e, unparsed := errors.AsType[*url.Error](err); unparsed {
		return e.Err
	}
	return err
}

var errUserInfo = errors.New("user info is not percent-encoded correctly")

// parseMany reads the URLs with more than one host, which net/url does not take.
func parseMany(scheme, rest string, o Options) (redis.UniversalClient, error) {
	userinfo, rest, found := cutLast(rest, "@")
	if !found {
		userinfo, rest = "", userinfo
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	u := &redis.UniversalOptions{MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: o.PoolSize, DialerRetries: 1,
		MaintNotificationsConfig: quietUpgrades()}
	tune(&u.DialTimeout, &u.ReadTimeout, &u.WriteTimeout)
	if err := credentials(u, userinfo); err != nil {
		return nil, err
	}
	port := "6379"
	if scheme == "redis-sentinel" {
		port = "26379"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := hostPort(host, port)
		if err != nil {
			return nil, err
		}
		u.Addrs = append(u.Addrs, addr)
	}
	if scheme == "redis-cluster" {
		if path != "" || query != "" {
			return nil, errors.New("a cluster URL has no path and no query")
		}
		opts := u.Cluster()
		opts.NewClient, opts.ClusterStateReloadInterval = sendOnce, slotsFresh
		return redis.NewClusterClient(opts), nil
	}
	if err := sentinel(u, path, query); err != nil {
		return nil, err
	}
	return redis.NewFailoverClient(u.Failover()), nil
}

// sentinel reads what a sentinel URL has behind its hosts.
func sentinel(u *redis.UniversalOptions, path, query string) error {
	values, err := url.ParseQuery(query)
	if err != nil || path == "" {
		return errors.New(`a sentinel URL names its master, like "redis-sentinel://host:26379/mymaster?db=0"`)
	}
	u.MasterName = path
	if db, given := values["db"]; given {
		if u.DB, err = strconv.Atoi(db[0]); err != nil || u.DB < 0 {
			return fmt.Errorf("db %q is not the number of a database", db[0])
		}
	}
	delete(values, "db")
	for name := range values {
		return fmt.Errorf("unknown option %q: a sentinel URL has only db", name)
	}
	return nil
}

// hostPort completes a host with the default port. Its errors do not repeat the text: where the @ was forgotten, it is
// the password.
func hostPort(s, port string) (string, error) {
	if s == "" {
		return "", errors.New("a host is empty")
	}
	if !strings.Contains(s, ":") || strings.HasSuffix(s, "]") {
		return net.JoinHostPort(strings.Trim(s, "[]"), port), nil
	}
	host, port, err := net.SplitHostPort(s)
	n, nerr := strconv.ParseUint(port, 10, 16)
	if err != nil || nerr != nil || n == 0 || host == "" {
		return "", errors.New("a host is not of the form host:port")
	}
	return s, nil
}

func credentials(u *redis.UniversalOptions, userinfo string) error {
	user, password, has := strings.Cut(userinfo, ":")
	var uerr, perr error
	u.Username, uerr = url.PathUnescape(user)
	u.Password, perr = url.PathUnescape(password)
	if !has && userinfo != "" {
		return errors.New(`user info without a password: write ":password@" or "user:password@"`)
	}
	if uerr != nil || perr != nil || strings.ContainsAny(userinfo, "/?#") {
		return errUserInfo
	}
	return nil
}

// quietUpgrades turns off a handshake that only Redis' own cloud understands, and that two clients cannot share.
func quietUpgrades() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
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

// address is what an error names: the hosts or the socket of a URL that has been parsed.
func address(rawURL string) string {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	if _, bare, has := cutLast(rest, "@"); has {
		rest = bare
	}
	rest, _, _ = strings.Cut(rest, "?")
	if scheme != "unix" {
		rest, _, _ = strings.Cut(rest, "/")
	}
	return rest
}
