package client

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"offstage/tasks"
)

// DefaultServer is where a daemon with an untouched configuration listens.
const DefaultServer = "http://127.0.0.1:8484"

// Options are what a Client may be given. The zero value is usable.
type Options struct {
	// Token is sent as a bearer token with every request; empty sends none.
	Token string
	// HTTPClient carries the requests. Nil means a client of its own that follows no redirects; its idle
	// connections end with Close. A client that is handed in is not closed.
	HTTPClient *http.Client
	// UserAgent names the caller in the server's log; empty means "offstage-client".
	UserAgent string
	// Timeout bounds one HTTP exchange, beside the time that a long poll asks the server to wait. Zero means 30 s.
	Timeout time.Duration
	// Patience bounds how long Wait and Follow go on trying while the server cannot be reached. Zero means one
	// minute; negative means that the first failure ends them.
	Patience time.Duration
	// OnRetry, when set, hears of every request that failed and is about to be repeated after the given pause.
	// It is called from the goroutine that makes the request.
	OnRetry func(err error, after time.Duration)
}

// Client is a connection to one daemon. It is safe for use by several goroutines at once. Make one with [New].
type Client struct {
	server   string // without a trailing slash
	http     *http.Client
	own      *http.Transport // nil when the http.Client was handed in
	token    string
	agent    string
	timeout  time.Duration
	patience time.Duration
	onRetry  func(error, time.Duration)
}

// New makes a Client of the daemon at base, an http or https URL such as "http://127.0.0.1:8484"; it may have a path
// when the daemon sits behind a prefix. An unusable base is a *tasks.InvalidError with field "server". Nothing is sent
// yet.
func New(base string, o Options) (*Client, error) {
	server, err := parseServer(base)
	if err != nil {
		return nil, err
	}
	c := &Client{
		server: server, http: o.HTTPClient, token: o.Token, agent: o.UserAgent,
		timeout: o.Timeout, patience: o.Patience, onRetry: o.OnRetry,
	}
	if c.http == nil {
		c.own = newTransport()
		c.http = &http.Client{Transport: c.own, CheckRedirect: keepRedirect}
	}
	if c.agent == "" {
		c.agent = "offstage-client"
	}
	if c.timeout <= 0 {
		c.timeout = 30 * time.Second
	}
	if c.patience == 0 {
		c.patience = time.Minute
	}
	return c, nil
}

// Server is the URL that the client was made for.
func (c *Client) Server() string { return c.server }

// Close ends the idle connections of the client's own transport. It may be called more than once, and the client is
// still usable afterwards.
func (c *Client) Close() error {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
	return nil
}

func parseServer(base string) (string, error) {
	bad := func(reason string) error {
		return &tasks.InvalidError{Field: "server", Reason: reason, Hint: "a URL like " + DefaultServer}
	}
	if !strings.HasPrefix(base, "http://") && !strings.HasPrefix(base, "https://") {
		return "", bad("is not an http or https URL")
	}
	u, err := url.Parse(base)
	switch {
	case err != nil, u.Host == "":
		return "", bad("is not a URL with a host")
	case u.User != nil:
		return "", bad("has user info in it (a token has its own option)")
	case u.RawQuery != "" || u.Fragment != "":
		return "", bad("has a query or fragment")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
	}
}

// keepRedirect hands a redirect to the caller: the API has none, and a token must not travel.
func keepRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
