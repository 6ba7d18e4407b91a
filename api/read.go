package api

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"offstage/queue"
	"offstage/tasks"
)

const (
	maxPageSize        = 200
	defaultOutputBytes = 64 << 10
	maxOutputBytes     = 1 << 20
	defaultEvents      = 100
	maxEvents          = 1000
	maxTokenBytes      = 4096
)

func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	p := query(r, "owner", "status", "type", "parent", "queue", "page_size", "page_token")
	f := queue.Filter{
		Owner: p.text("owner", tasks.MaxOwnerBytes), Statuses: p.statuses(), Type: p.text("type", tasks.MaxTypeBytes),
		Parent: p.text("parent", tasks.MaxTypeBytes), Queue: p.text("queue", tasks.MaxQueueBytes),
		PageSize: int(p.integer("page_size", 0, 1, maxPageSize)), PageToken: p.text("page_token", maxTokenBytes),
	}
	if f.Queue != "" {
		p.check(tasks.ValidateQueue(f.Queue))
	}
	if err := p.err(); err != nil {
		return err
	}
	ctx, cancel := bounded(r)
	defer cancel()
	page, err := s.queue.List(ctx, f)
	if err != nil {
		return err
	}
	if page.Tasks == nil {
		page.Tasks = []*tasks.Task{}
	}
	return writeJSON(w, http.StatusOK, page)
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) error {
	p := query(r, "owner", "wait")
	ref, wait := p.ref(r), p.wait()
	if err := p.err(); err != nil {
		return err
	}
	task, err := s.getOrWait(w, r, ref, wait)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(task))
	if matches(r.Header.Values("If-None-Match"), etag(task)) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return writeJSON(w, http.StatusOK, task)
}

// getOrWait waits for the end of a task for up to wait, and answers early when the server stops.
func (s *Server) getOrWait(w http.ResponseWriter, r *http.Request, ref tasks.Ref, wait time.Duration) (*tasks.Task, error) {
	if wait > 0 && !s.stopped() {
		ctx, done := s.waiting(w, r, wait)
		defer done()
		task, err := s.queue.Wait(ctx, ref, wait)
		if err == nil || !s.stopped() {
			return task, err
		}
	}
	ctx, cancel := bounded(r)
	defer cancel()
	return s.queue.Get(ctx, ref)
}

// etag is the task's version as an entity tag.
func etag(t *tasks.Task) string { return fmt.Sprintf(`"v%d"`, t.Version) }

// matches reports whether the If-None-Match headers name tag. Comparison is weak, as RFC 9110 wants it here.
func matches(headers []string, tag string) bool {
	for _, h := range headers {
		for candidate := range strings.SplitSeq(h, ",") {
			candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
			if candidate == tag || candidate == "*" {
				return true
			}
		}
	}
	return false
}

// output answers with the text itself; where it stands in the whole is in the headers.
func (s *Server) output(w http.ResponseWriter, r *http.Request) error {
	p := query(r, "owner", "offset", "limit", "wait")
	ref, wait := p.ref(r), p.wait()
	offset := p.integer("offset", -1, 0, math.MaxInt64)
	limit := int(p.integer("limit", defaultOutputBytes, 1, maxOutputBytes))
	if err := p.err(); err != nil {
		return err
	}
	out, err := s.readOutput(w, r, ref, offset, limit, wait)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(out.Text)))
	h.Set("Offstage-Output-Offset", strconv.FormatInt(out.Offset, 10))
	h.Set("Offstage-Output-Next", strconv.FormatInt(out.Next, 10))
	h.Set("Offstage-Output-Total", strconv.FormatInt(out.Total, 10))
	h.Set("Offstage-Task-Status", string(out.Status))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte(out.Text)) // a client that went away is no error of ours
	return nil
}

func (s *Server) readOutput(w http.ResponseWriter, r *http.Request, ref tasks.Ref, offset int64, limit int,
	wait time.Duration) (*queue.Output, error) {
	if wait > 0 && !s.stopped() {
		ctx, done := s.waiting(w, r, wait)
		defer done()
		out, err := s.queue.Output(ctx, ref, offset, limit, wait)
		if err == nil || !s.stopped() {
			return out, err
		}
	}
	ctx, cancel := bounded(r)
	defer cancel()
	return s.queue.Output(ctx, ref, offset, limit, 0)
}

// events answers with one page; the stream is another representation of the same resource.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		return errAccept.because("events are served as application/json pages only")
	}
	p := query(r, "owner", "after", "limit")
	ref, after := p.ref(r), p.integer("after", 0, 0, math.MaxInt64)
	limit := int(p.integer("limit", defaultEvents, 1, maxEvents))
	if err := p.err(); err != nil {
		return err
	}
	ctx, cancel := bounded(r)
	defer cancel()
	events, err := s.queue.Events(ctx, ref, after, limit)
	if err != nil {
		return err
	}
	if events == nil {
		events = []tasks.Event{}
	}
	next := after
	if n := len(events); n > 0 {
		next = events[n-1].Seq
	}
	return writeJSON(w, http.StatusOK, eventPage{events, next})
}

// eventPage is a part of a task's events. NextAfter is what to pass as after for the next part.
type eventPage struct {
	Events    []tasks.Event `json:"events"`
	NextAfter int64         `json:"next_after"`
}
