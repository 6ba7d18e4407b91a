package worker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"offstage/internal/redistest"
)

// link is a connection between a worker and Redis that a test can cut.
type link struct {
	t     *testing.T
	proxy *toxiproxy.Proxy
	url   string
}

// newLink gives a link to the database at url.
func newLink(t *testing.T, url string) *link {
	t.Helper()
	addr := redistest.Connect(t, url).Options().Addr
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &link{t: t, proxy: toxiproxy.NewProxy(api, "redis", "127.0.0.1:0", addr)}
	l.up()
	t.Cleanup(l.proxy.Stop)
	l.url = strings.Replace(url, addr, l.proxy.Listen, 1)
	return l
}

// down cuts all connections and refuses new ones.
func (l *link) down() { l.proxy.Stop() }

func (l *link) up() {
	l.t.Helper()
	if err := l.proxy.Start(); err != nil {
		l.t.Fatal(err)
	}
}

// mute lets requests pass and swallows the replies.
func (l *link) mute() {
	l.t.Helper()
	toxic := `{"name":"mute","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		l.t.Fatal(err)
	}
}

// unmute closes the connections that lost a reply.
func (l *link) unmute() {
	l.t.Helper()
	if err := l.proxy.Toxics.RemoveToxic(l.t.Context(), "mute"); err != nil {
		l.t.Fatal(err)
	}
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in 15 s: %s", what)
		}
	}
}
