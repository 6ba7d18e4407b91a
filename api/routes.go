package api

import (
	"net/http"
)

// handler answers a request, or returns the error that becomes the problem sent.
type handler func(w http.ResponseWriter, r *http.Request) error

type route struct {
	pattern string
	handler handler
}

func (s *Server) table() []route {
	return []route{
		{"POST /v1/tasks", s.enqueue},
		{"POST /v1/tasks/batch", s.enqueueBatch},
		{"GET /v1/tasks", s.list},
		{"GET /v1/tasks/{id}", s.get},
		{"DELETE /v1/tasks/{id}", s.delete},
		{"POST /v1/tasks/{id}/cancel", s.cancel},
		{"POST /v1/tasks/{id}/retry", s.retry},
		{"GET /v1/tasks/{id}/output", s.output},
		{"GET /v1/tasks/{id}/events", s.events},
		{"GET /v1/queues", s.listQueues},
		{"GET /v1/queues/{queue}", s.getQueue},
		{"POST /v1/queues/{queue}/pause", s.pause},
		{"POST /v1/queues/{queue}/resume", s.resume},
		{"GET /v1/workers", s.workers},
		{"GET /livez", s.livez},
		{"GET /readyz", s.readyz},
	}
}

// routes builds the handler: what every request passes is read from the outside in.
func (s *Server) routes(metrics, monitoring http.Handler) http.Handler {
	mux := http.NewServeMux()
	for _, rt := range s.table() {
		mux.Handle(rt.pattern, s.serve(rt.handler))
		s.patterns = append(s.patterns, rt.pattern)
	}
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
		s.patterns = append(s.patterns, "GET /metrics")
	}
	if monitoring != nil {
		mux.Handle("/monitoring/", monitoring)
		s.patterns = append(s.patterns, "/monitoring/")
	}
	return s.identify(s.observe(s.recoverPanic(s.guardHost(withProblems(mux)))))
}

// serve makes an http.Handler of h: every call is bounded, nothing is cached, an error becomes a problem.
func (s *Server) serve(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

// withProblems is mux, with problems where it would answer 404 and 405 in plain text.
func withProblems(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		answer := &headerOnly{header: http.Header{}}
		refuse.ServeHTTP(answer, r)
		if allow := answer.header.Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
			writeProblem(w, r, errMethod.problem("this path takes "+allow))
			return
		}
		writeProblem(w, r, errRoute.problem("nothing is served at this path"))
	})
}

// headerOnly takes a response and keeps its header.
type headerOnly struct{ header http.Header }

func (h *headerOnly) Header() http.Header         { return h.header }
func (h *headerOnly) Write(b []byte) (int, error) { return len(b), nil }
func (h *headerOnly) WriteHeader(int)             {}
