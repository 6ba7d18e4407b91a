package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"offstage/tasks"
)

const idempotencyHeader = "Idempotency-Key"

func (s *Server) enqueue(w http.ResponseWriter, r *http.Request) error {
	if err := query(r).err(); err != nil {
		return err
	}
	body, err := needBody(w, r, s.limits.MaxPayloadBytes+bodyRoom)
	if err != nil {
		return err
	}
	spec, err := s.spec(body)
	if err != nil {
		return err
	}
	if spec.IdempotencyKey, err = idempotencyKey(r); err != nil {
		return err
	}
	ctx, cancel := bounded(r)
	defer cancel()
	task, created, err := s.queue.Enqueue(ctx, spec)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/tasks/"+url.PathEscape(task.ID))
	w.Header().Set("ETag", etag(task))
	if !created {
		return writeJSON(w, http.StatusOK, task)
	}
	return writeJSON(w, http.StatusCreated, task)
}

// spec decodes one spec and asks whether anybody would run it.
func (s *Server) spec(body []byte) (tasks.Spec, error) {
	var spec tasks.Spec
	if err := decode(body, &spec, "payload", "metadata"); err != nil {
		return spec, err
	}
	return spec, s.check(spec)
}

func idempotencyKey(r *http.Request) (string, error) {
	given := r.Header.Values(idempotencyHeader)
	switch {
	case len(given) == 0:
		return "", nil
	case len(given) > 1:
		return "", &tasks.InvalidError{Field: idempotencyHeader, Reason: "is given more than once"}
	case given[0] == "":
		return "", &tasks.InvalidError{Field: idempotencyHeader, Reason: "is empty"}
	}
	return given[0], nil
}

// batchItem is what became of one spec of a batch: one of its fields is set.
type batchItem struct {
	Task  *tasks.Task `json:"task,omitempty"`
	Error *Problem    `json:"error,omitempty"`
}

// enqueueBatch answers 201 when every task was accepted and 207 when one was not. When Redis took none of them, the
// whole call is unavailable: then it may be repeated as it is.
func (s *Server) enqueueBatch(w http.ResponseWriter, r *http.Request) error {
	raw, err := s.readBatch(w, r)
	if err != nil {
		return err
	}
	errs := make([]error, len(raw))
	specs, places := make([]tasks.Spec, 0, len(raw)), make([]int, 0, len(raw))
	for i, b := range raw {
		spec, err := s.spec(b)
		if err != nil {
			errs[i] = err
			continue
		}
		specs, places = append(specs, spec), append(places, i)
	}
	items := make([]batchItem, len(raw))
	if err := s.runBatch(r, specs, places, items, errs); err != nil {
		return err
	}
	status := http.StatusCreated
	for i, err := range errs {
		if err != nil {
			status = http.StatusMultiStatus
			items[i].Error = s.itemProblem(r, err)
		}
	}
	return writeJSON(w, status, map[string][]batchItem{"results": items})
}

// runBatch enqueues specs and spreads what became of them over items and errs at their places.
func (s *Server) runBatch(r *http.Request, specs []tasks.Spec, places []int, items []batchItem, errs []error) error {
	if len(specs) == 0 {
		return nil
	}
	ctx, cancel := bounded(r)
	defer cancel()
	results, err := s.queue.EnqueueBatch(ctx, specs)
	if err != nil {
		return err
	}
	if len(results) != len(specs) {
		return fmt.Errorf("batch of %d specs has %d results", len(specs), len(results))
	}
	unavailable := 0
	for j, res := range results {
		items[places[j]].Task, errs[places[j]] = res.Task, res.Err
		if errors.Is(res.Err, tasks.ErrUnavailable) {
			unavailable++
		}
	}
	if unavailable == len(errs) {
		return results[0].Err
	}
	return nil
}

// readBatch reads the specs of a batch, not decoded yet: a fault in one must not cost the others.
func (s *Server) readBatch(w http.ResponseWriter, r *http.Request) ([]json.RawMessage, error) {
	if err := query(r).err(); err != nil {
		return nil, err
	}
	if r.Header.Get(idempotencyHeader) != "" {
		return nil, &tasks.InvalidError{Field: idempotencyHeader, Reason: "is not taken by a batch",
			Hint: "enqueue the task on its own"}
	}
	body, err := needBody(w, r, s.limits.MaxPayloadBytes+maxBatch*batchRoom)
	if err != nil {
		return nil, err
	}
	var batch struct {
		Tasks []json.RawMessage `json:"tasks"`
	}
	if err := decode(body, &batch, "tasks"); err != nil {
		return nil, err
	}
	if n := len(batch.Tasks); n == 0 || n > maxBatch {
		return nil, &tasks.InvalidError{Field: "tasks", Reason: fmt.Sprintf("has %d entries", n),
			Hint: fmt.Sprintf("1 to %d", maxBatch)}
	}
	return batch.Tasks, nil
}

// itemProblem is the problem of one spec of a batch.
func (s *Server) itemProblem(r *http.Request, err error) *Problem {
	p, known := problemOf(err)
	if !known {
		s.log.ErrorContext(r.Context(), "Request failed", "request_id", requestID(r), "route", r.Pattern, "err", err)
	}
	return &p
}
