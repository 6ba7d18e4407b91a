package faults

import (
	"context"
	"fmt"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy stands between a daemon and its Redis and can spoil the connection.
type Proxy struct {
	// URL is the redis:// URL by which the daemon reaches its Redis.
	URL string

	proxy *toxiproxy.Proxy
}

// StartProxy starts a proxy before r that ends with the test.
func StartProxy(tb testing.TB, name string, r *Redis) *Proxy {
	tb.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(server, name, "127.0.0.1:0", r.Addr)
	if err := p.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.Toxics.ResetToxics(context.Background())
		p.Stop()
	})
	return &Proxy{URL: "redis://" + p.Listen + "/0", proxy: p}
}

// Refuse closes all connections and refuses new ones.
func (p *Proxy) Refuse() Fault {
	return Fault{
		Name:   "refuse " + p.proxy.Name,
		Inject: func(context.Context) error { p.proxy.Stop(); return nil },
		Heal: func(context.Context) error {
			p.proxy.Lock()
			running := p.proxy.Enabled
			p.proxy.Unlock()
			if running {
				return nil
			}
			return p.proxy.Start()
		},
	}
}

// Reset breaks every connection as soon as something is sent.
func (p *Proxy) Reset() Fault {
	return p.toxic("reset", `{"type":"reset_peer","stream":"upstream","attributes":{"timeout":0}}`)
}

// Blackhole swallows what is sent, in both directions; connections stay open.
func (p *Proxy) Blackhole() Fault {
	return p.toxic("blackhole", `{"type":"timeout","stream":"upstream","attributes":{"timeout":0}}`,
		`{"type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
}

// CutReplies lets every request through and closes the connection instead of answering.
func (p *Proxy) CutReplies() Fault {
	return p.toxic("cut replies", `{"type":"limit_data","stream":"downstream","attributes":{"bytes":0}}`)
}

// LateReplies holds every reply back for some milliseconds.
func (p *Proxy) LateReplies(ms int) Fault {
	return p.toxic("late replies", fmt.Sprintf(`{"type":"latency","stream":"downstream","attributes":{"latency":%d}}`, ms))
}

func (p *Proxy) toxic(name string, toxics ...string) Fault {
	return Fault{
		Name: name + " " + p.proxy.Name,
		Inject: func(context.Context) error {
			for _, t := range toxics {
				if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(t)); err != nil {
					return err
				}
			}
			return nil
		},
		Heal: func(ctx context.Context) error {
			p.proxy.Toxics.ResetToxics(ctx)
			return nil
		},
	}
}
