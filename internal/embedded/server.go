package embedded

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// tick is how often keys are expired, and so by how much a key may outlive its TTL. A key may also go up to one tick
// early, because a tick takes the same time off every TTL, also off one set a moment ago.
const tick = 100 * time.Millisecond

// restFactor keeps expiry at or below a twentieth of the time: one pass visits every key with the server locked.
const restFactor = 20

// Server is a running server. All methods may be called from any goroutine.
type Server struct {
	redis    *miniredis.Miniredis
	addr     string
	password string

	close   sync.Once
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Start starts a server on a free port of 127.0.0.1. It listens when Start returns; the caller closes it.
func Start() (*Server, error) {
	s := &Server{redis: miniredis.NewMiniRedis(), password: rand.Text()}
	s.redis.RequireAuth(s.password)
	if err := s.redis.Start(); err != nil {
		return nil, fmt.Errorf("start embedded redis: %w", err)
	}
	s.addr = s.redis.Addr()
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.running.Go(func() { s.expire(ctx) })
	return s, nil
}

// URL is how to reach the server, password included: redis://:password@127.0.0.1:port/0. It stays the same after
// Close.
func (s *Server) URL() string {
	return "redis://:" + s.password + "@" + s.addr + "/0"
}

// Addr is the server's address without the password, host:port, for logs.
func (s *Server) Addr() string { return s.addr }

// Close cuts all connections, stops the server and waits for its goroutines. What it held is gone. Further calls do
// nothing.
func (s *Server) Close() {
	s.close.Do(func() {
		s.cancel()
		s.running.Wait()
		s.redis.Close()
	})
}

// expire lets the time that really went by pass for the keys, until ctx ends.
func (s *Server) expire(ctx context.Context) {
	last := time.Now()
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now := time.Now()
		s.redis.FastForward(now.Sub(last))
		last = now
		timer.Reset(max(tick, restFactor*time.Since(now)))
	}
}
