package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// The phases of a connection, each bounded. A call that waits for a task extends its own deadlines.
const (
	headerTimeout   = 10 * time.Second
	readTimeout     = 30 * time.Second // header and body
	writeTimeout    = 60 * time.Second
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 10 * time.Second
	maxHeaderBytes  = 64 << 10
)

// callTimeout bounds what one call asks of Redis, waiting for a task aside.
const callTimeout = 10 * time.Second

// Serve answers on ln until ctx ends, then lets the calls under way finish: those that wait for a task answer at once
// with what there is, the others have 10 s. It returns nil after that, and closes ln in any case.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	served := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { served <- srv.Serve(ln) })
	defer wg.Wait()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	s.stopOnce.Do(func() { close(s.stopping) })
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := srv.Shutdown(bounded); err != nil {
		return errors.Join(fmt.Errorf("shut down %s: %w", ln.Addr(), err), srv.Close())
	}
	return nil
}

// waiting gives a call that waits for up to d its deadlines, and a context that also ends when the server stops.
// Without the extension the read timeout would cancel the request while it waits.
func (s *Server) waiting(w http.ResponseWriter, r *http.Request, d time.Duration) (context.Context, func()) {
	deadline := time.Now().Add(d + callTimeout)
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(deadline) // not supported by a test's recorder, and not needed there
	_ = rc.SetWriteDeadline(deadline.Add(writeTimeout))
	ctx, cancel := context.WithDeadline(r.Context(), deadline)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-s.stopping:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(); wg.Wait() }
}

// stopped reports whether the server is shutting down.
func (s *Server) stopped() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// bounded is r's context, bounded for one call to Redis.
func bounded(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), callTimeout)
}
