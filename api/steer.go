package api

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"offstage/queue"
	"offstage/tasks"
)

// maxReasonBytes bounds why a task was cancelled.
const maxReasonBytes = 1024

type cancelBody struct {
	Tree   bool   `json:"tree"`
	Reason string `json:"reason"`
}

func (b cancelBody) validate() error {
	switch {
	case b.Tree:
		return &tasks.InvalidError{Field: "tree", Reason: "is not supported yet", Hint: "cancel each task by its id"}
	case len(b.Reason) > maxReasonBytes:
		return &tasks.InvalidError{Field: "reason", Reason: fmt.Sprintf("is %d bytes long", len(b.Reason)),
			Hint: fmt.Sprintf("at most %d", maxReasonBytes)}
	case !utf8.ValidString(b.Reason) || strings.Contains(b.Reason, "\x00"):
		return &tasks.InvalidError{Field: "reason", Reason: "has a NUL character"}
	}
	return nil
}

// cancelled says what a cancel changed. Nothing is no error: the task had ended.
type cancelled struct {
	Cancelled int            `json:"cancelled"`
	Tasks     []tasks.Change `json:"tasks"`
}

func (s *Server) cancel(w http.ResponseWriter, r *http.Request) error {
	p := query(r, "owner")
	ref := p.ref(r)
	if err := p.err(); err != nil {
		return err
	}
	var body cancelBody
	if err := optionalBody(w, r, &body); err != nil {
		return err
	}
	if err := body.validate(); err != nil {
		return err
	}
	ctx, done := bounded(r)
	defer done()
	changes, err := s.queue.Cancel(ctx, ref, queue.CancelRequest{Reason: body.Reason})
	if err != nil {
		return err
	}
	if changes == nil {
		changes = []tasks.Change{}
	}
	return writeJSON(w, http.StatusOK, cancelled{len(changes), changes})
}

func (s *Server) retry(w http.ResponseWriter, r *http.Request) error {
	p := query(r, "owner")
	ref := p.ref(r)
	if err := p.err(); err != nil {
		return err
	}
	if err := optionalBody(w, r, &struct{}{}); err != nil {
		return err
	}
	ctx, cancel := bounded(r)
	defer cancel()
	task, err := s.queue.Retry(ctx, ref)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(task))
	return writeJSON(w, http.StatusOK, task)
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request) error {
	p := query(r, "owner")
	ref := p.ref(r)
	if err := p.err(); err != nil {
		return err
	}
	ctx, cancel := bounded(r)
	defer cancel()
	if err := s.queue.Delete(ctx, ref); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
