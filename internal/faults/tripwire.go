package faults

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
)

// Tripwire stands between a daemon and its Redis and calls a func at the n-th script that the daemon sends, either
// before Redis sees it or after Redis has run it, before the daemon sees the reply. From then on nothing passes.
type Tripwire struct {
	// URL is the redis:// URL by which the daemon reaches its Redis.
	URL string

	upstream string
	n        int
	after    bool
	trip     func()

	mu    sync.Mutex
	seen  int
	cut   bool
	conns []net.Conn
}

// StartTripwire starts a wire that ends with the test. trip is called once, from a goroutine of the wire's.
func StartTripwire(tb testing.TB, r *Redis, n int, after bool, trip func()) *Tripwire {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	w := &Tripwire{URL: "redis://" + l.Addr().String() + "/0", upstream: r.Addr, n: n, after: after, trip: trip}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { w.serve(c) })
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		w.closeAll()
		wg.Wait()
	})
	return w
}

// Tripped reports whether the n-th script came.
func (w *Tripwire) Tripped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut
}

func (w *Tripwire) serve(daemon net.Conn) {
	redis, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", w.upstream)
	if err != nil {
		_ = daemon.Close()
		return
	}
	w.mu.Lock()
	w.conns = append(w.conns, daemon, redis)
	w.mu.Unlock()
	doomed := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { w.replies(daemon, redis, doomed) })
	w.requests(daemon, redis, doomed)
	_ = redis.Close()
	wg.Wait()
	_ = daemon.Close()
}

// requests passes on what the daemon sends.
func (w *Tripwire) requests(daemon, redis net.Conn, doomed chan struct{}) {
	buf := make([]byte, 1<<20)
	for {
		n, err := daemon.Read(buf)
		if err != nil {
			return
		}
		last := w.count(buf[:n])
		if w.Tripped() && !last {
			return
		}
		if last && !w.after {
			w.trip()
			return
		}
		if last {
			close(doomed)
		}
		if _, err := redis.Write(buf[:n]); err != nil {
			return
		}
	}
}

// replies passes on what Redis answers; the answer to the script in question is kept back.
func (w *Tripwire) replies(daemon, redis net.Conn, doomed <-chan struct{}) {
	buf := make([]byte, 1<<20)
	for {
		n, err := redis.Read(buf)
		if closed(doomed) {
			w.trip()
			return
		}
		if err != nil {
			return
		}
		if _, err := daemon.Write(buf[:n]); err != nil {
			return
		}
	}
}

// count reports whether p has the n-th script in it.
func (w *Tripwire) count(p []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut || !bytes.Contains(p, []byte("eval")) || !bytes.Contains(p, []byte("offstage:{")) {
		return false
	}
	w.seen++
	w.cut = w.seen == w.n
	return w.cut
}

func (w *Tripwire) closeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
}
