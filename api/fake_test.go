package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"offstage/api"
	"offstage/queue"
	"offstage/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ api.Queue = (*queue.Queue)(nil)

// fakeQueue is an api.Queue in memory. The owner is checked, an idempotency key is kept, everything else is what the
// test put in.
type fakeQueue struct {
	mu      sync.Mutex
	tasks   map[string]*tasks.Task
	keys    map[string]string
	paused  map[string]bool
	filter  queue.Filter        // of the last List
	cancels queue.CancelRequest // the last
	asked   outputArgs          // of the last Output

	next   string             // NextPageToken of List
	out    *queue.Output      // of Output
	events []tasks.Event      // of Events
	health queue.Health       // of Health
	work   []queue.WorkerInfo // of Workers
	err    error              // of every call, when set
	panics bool               // every call
}

type outputArgs struct {
	offset int64
	limit  int
	wait   time.Duration
}

func newFake(ts ...*tasks.Task) *fakeQueue {
	q := &fakeQueue{tasks: map[string]*tasks.Task{}, keys: map[string]string{}, paused: map[string]bool{},
		health: queue.Health{Ready: true, Redis: "ok", Durability: "always"}}
	for _, t := range ts {
		q.tasks[t.ID] = t
	}
	return q
}

func (q *fakeQueue) fail() error {
	if q.panics {
		panic("fakeQueue was told to")
	}
	return q.err
}

func (q *fakeQueue) Enqueue(_ context.Context, spec tasks.Spec) (*tasks.Task, bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.fail(); err != nil {
		return nil, false, err
	}
	if err := spec.Validate(tasks.DefaultLimits(), time.Now()); err != nil {
		return nil, false, err
	}
	payload, _ := spec.PayloadJSON()
	if id, ok := q.keys[spec.IdempotencyKey]; ok && spec.IdempotencyKey != "" {
		if t := q.tasks[id]; string(t.Payload) != string(payload) {
			return nil, false, tasks.ErrIdempotencyMismatch
		}
		return q.tasks[id], false, nil
	}
	t := &tasks.Task{ID: fmt.Sprintf("default.%d", len(q.tasks)), Owner: spec.Owner, Type: spec.Type, Queue: "default",
		Status: tasks.Pending, Payload: payload, Version: 1}
	q.tasks[t.ID], q.keys[spec.IdempotencyKey] = t, t.ID
	return t, true, nil
}

func (q *fakeQueue) EnqueueBatch(ctx context.Context, specs []tasks.Spec) ([]queue.BatchResult, error) {
	var all []queue.BatchResult
	for _, s := range specs {
		t, _, err := q.Enqueue(ctx, s)
		all = append(all, queue.BatchResult{Task: t, Err: err})
	}
	return all, nil
}

func (q *fakeQueue) Get(_ context.Context, ref tasks.Ref) (*tasks.Task, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.fail(); err != nil {
		return nil, err
	}
	for _, t := range q.tasks {
		if t.ID != ref.ID && (t.Handle != ref.ID || ref.Owner == "") {
			continue
		}
		if ref.Owner != "" && t.Owner != ref.Owner {
			return nil, fmt.Errorf("get %s: %w", ref.ID, tasks.ErrNotOwner)
		}
		return t, nil
	}
	return nil, fmt.Errorf("get %s: %w", ref.ID, tasks.ErrNotFound)
}

func (q *fakeQueue) List(_ context.Context, f queue.Filter) (*queue.Page, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.filter = f
	page := &queue.Page{NextPageToken: q.next}
	for _, id := range slices.Sorted(maps.Keys(q.tasks)) {
		page.Tasks = append(page.Tasks, q.tasks[id])
	}
	return page, q.fail()
}

func (q *fakeQueue) Wait(ctx context.Context, ref tasks.Ref, bound time.Duration) (*tasks.Task, error) {
	t, err := q.Get(ctx, ref)
	if err != nil || t.Status.Terminal() {
		return t, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(bound):
		return t, nil
	}
}

func (q *fakeQueue) Cancel(ctx context.Context, ref tasks.Ref, r queue.CancelRequest) ([]tasks.Change, error) {
	t, err := q.Get(ctx, ref)
	q.cancels = r
	if err != nil || t.Status.Terminal() {
		return nil, err
	}
	return []tasks.Change{{ID: t.ID, From: t.Status, To: tasks.Cancelled}}, nil
}

func (q *fakeQueue) Retry(ctx context.Context, ref tasks.Ref) (*tasks.Task, error) {
	t, err := q.Get(ctx, ref)
	switch {
	case err != nil:
		return nil, err
	case t.Status == tasks.Completed:
		return nil, fmt.Errorf("retry %s: %w", ref.ID, &tasks.TerminatedError{Status: t.Status})
	case !t.Status.Terminal():
		return nil, tasks.ErrNotTerminated
	}
	return t, nil
}

func (q *fakeQueue) Delete(ctx context.Context, ref tasks.Ref) error {
	t, err := q.Get(ctx, ref)
	if err == nil && !t.Status.Terminal() {
		err = tasks.ErrNotTerminated
	}
	return err
}

func (q *fakeQueue) Output(ctx context.Context, ref tasks.Ref, offset int64, limit int, wait time.Duration) (*queue.Output, error) {
	q.asked = outputArgs{offset, limit, wait}
	if wait > 0 {
		if _, err := q.Wait(ctx, ref, wait); err != nil {
			return nil, err
		}
	}
	_, err := q.Get(ctx, ref)
	return q.out, err
}

func (q *fakeQueue) Events(ctx context.Context, ref tasks.Ref, after int64, limit int) ([]tasks.Event, error) {
	if _, err := q.Get(ctx, ref); err != nil {
		return nil, err
	}
	var page []tasks.Event
	for _, e := range q.events {
		if e.Seq > after && len(page) < limit {
			page = append(page, e)
		}
	}
	return page, nil
}

func (q *fakeQueue) Queues(ctx context.Context) ([]queue.Info, error) {
	info, err := q.Queue(ctx, "default")
	if err != nil {
		return nil, err
	}
	return []queue.Info{*info}, nil
}

func (q *fakeQueue) Queue(_ context.Context, name string) (*queue.Info, error) {
	if err := q.fail(); err != nil {
		return nil, err
	}
	return &queue.Info{Name: name, Paused: q.paused[name]}, nil
}

func (q *fakeQueue) Pause(_ context.Context, name string) error {
	q.paused[name] = true
	return q.fail()
}

func (q *fakeQueue) Resume(_ context.Context, name string) error {
	delete(q.paused, name)
	return q.fail()
}

func (q *fakeQueue) Workers(context.Context) ([]queue.WorkerInfo, error) { return q.work, q.fail() }
func (q *fakeQueue) Health(context.Context) (queue.Health, error)        { return q.health, q.fail() }

// serverOf makes a server of q, and of cfg for the rest.
func serverOf(t *testing.T, q *fakeQueue, cfg api.Config) *api.Server {
	t.Helper()
	cfg.Queue = q
	s, err := api.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// call sends one request straight to the handler. headers are "Name: value".
func call(t *testing.T, s *api.Server, method, target, body string, headers ...string) *http.Response {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8484"+target, r)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, req)
	return rec.Result()
}

// wantStatus fails the test unless res has the status.
func wantStatus(t *testing.T, res *http.Response, want int) {
	t.Helper()
	if res.StatusCode != want {
		t.Fatalf("status = %d, want %d; body: %s", res.StatusCode, want, text(t, res))
	}
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func read[T any](t *testing.T, res *http.Response) T {
	t.Helper()
	var v T
	body := text(t, res)
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("body %s: %v", body, err)
	}
	return v
}

// wantProblem checks that res is a problem with the status, code and field, and returns it.
func wantProblem(t *testing.T, res *http.Response, status int, code, field string) api.Problem {
	t.Helper()
	wantStatus(t, res, status)
	if ct := res.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("Content-Type = %q, want application/problem+json", ct)
	}
	p := read[api.Problem](t, res)
	if p.Status != status || p.Code != code || p.Field != field {
		t.Errorf("problem = %d %q field %q, want %d %q field %q; all: %+v", p.Status, p.Code, p.Field, status, code, field, p)
	}
	if p.Type != "urn:offstage:problem:"+code || p.Title == "" || p.RequestID == "" {
		t.Errorf("problem has type %q, title %q, request_id %q", p.Type, p.Title, p.RequestID)
	}
	if id := res.Header.Get("X-Request-Id"); id != p.RequestID {
		t.Errorf("X-Request-Id = %q, request_id = %q, want the same", id, p.RequestID)
	}
	return p
}

func task(id string, status tasks.Status) *tasks.Task {
	return &tasks.Task{ID: id, Handle: "bg_0", Owner: "o", Type: "t", Queue: "default", Status: status, Version: 7}
}
