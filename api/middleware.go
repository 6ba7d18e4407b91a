package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
)

type requestIDKey struct{}

// requestID is the id that identify gave r.
func requestID(r *http.Request) string {
	id, _ := r.Context().Value(requestIDKey{}).(string)
	return id
}

// identify gives every request an id: the client's X-Request-Id when it is sane, else a new one.
func (s *Server) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if !saneID(id) {
			id = newID()
		}
		w.Header().Set("X-Request-Id", id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id)))
	})
}

// saneID keeps out what would not fit a log line.
func saneID(id string) bool {
	const most = 64
	return id != "" && len(id) <= most && !strings.ContainsFunc(id, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.:", c))
	})
}

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// observe writes the access log.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w}
		if !s.log.Enabled(r.Context(), slog.LevelDebug) {
			next.ServeHTTP(rec, r)
			return
		}
		start := time.Now()
		defer func() {
			s.log.DebugContext(r.Context(), "Request served", "request_id", requestID(r), "method", r.Method,
				"path", r.URL.Path, "status", rec.code(), "bytes", rec.bytes, "duration", time.Since(start),
				"remote", r.RemoteAddr)
		}()
		next.ServeHTTP(rec, r)
	})
}

// recoverPanic turns a panic into a problem and a log line. http.ErrAbortHandler passes: it means what it says.
func (s *Server) recoverPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(v)
			}
			s.log.ErrorContext(r.Context(), "Request panicked", "request_id", requestID(r), "method", r.Method,
				"path", r.URL.Path, "stack", string(debug.Stack()), "err", fmt.Sprint(v))
			if rec, ok := w.(*recorder); ok && rec.status != 0 {
				panic(http.ErrAbortHandler) // half an answer must not look like a whole one
			}
			writeProblem(w, r, errInternal.problem("see the daemon's log for this request_id"))
		}()
		next.ServeHTTP(w, r)
	})
}

// recorder remembers how a request was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// code is the status for the log; 499 stands for a client that went away before it was answered.
func (w *recorder) code() int {
	const clientGone = 499
	if w.status == 0 {
		return clientGone
	}
	return w.status
}
