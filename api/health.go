package api

import (
	"context"
	"net/http"
	"time"

	"offstage/queue"
)

// healthTimeout bounds what a readiness probe asks of Redis; probes themselves give up soon after.
const healthTimeout = 2 * time.Second

// livez is about the process only: a Redis that is away is no reason to kill it.
func (s *Server) livez(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok", "version": s.version})
}

// readiness is the answer of /readyz.
type readiness struct {
	queue.Health
	Draining bool   `json:"draining"`
	Version  string `json:"version"`
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
	defer cancel()
	health, err := s.queue.Health(ctx)
	if err != nil {
		health.Ready, health.Redis = false, err.Error()
		health.Problems = append(health.Problems, "redis: "+err.Error())
	}
	answer := readiness{Health: health, Draining: s.draining.Load(), Version: s.version}
	if answer.Draining {
		answer.Ready = false
		answer.Problems = append(answer.Problems, "draining: takes no new work")
	}
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	return writeJSON(w, status, answer)
}
