package queue

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"offstage/tasks"
)

// The sizes of a list.
const (
	defaultPage = 50
	maxPage     = 200
	maxScan     = 2000 // records one call looks at
)

// List reads tasks, newest first, without payload, result and output; [Queue.Get] has those. Errors:
// *tasks.InvalidError, tasks.ErrUnavailable.
func (q *Queue) List(ctx context.Context, f Filter) (*Page, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	size := cmp.Or(f.PageSize, defaultPage)
	cursors, err := q.cursors(ctx, f, size)
	if err != nil {
		return nil, err
	}
	page := &Page{Tasks: []*tasks.Task{}}
	for looked := 0; len(page.Tasks) < size && looked < maxScan; looked++ {
		c, err := q.newest(ctx, f, cursors)
		if err != nil {
			return nil, err
		}
		if c == nil {
			return page, nil
		}
		if t := c.pop(); f.matches(t) {
			page.Tasks = append(page.Tasks, t)
		}
	}
	page.NextPageToken = encodeToken(cursors)
	return page, nil
}

func (f *Filter) check() error {
	if f.PageSize < 0 || f.PageSize > maxPage {
		return &tasks.InvalidError{Field: "page_size", Reason: fmt.Sprintf("is %d", f.PageSize), Hint: fmt.Sprintf("1 to %d", maxPage)}
	}
	for _, s := range f.Statuses {
		if !s.Valid() {
			return &tasks.InvalidError{Field: "status", Reason: fmt.Sprintf("%q is not a status", s),
				Hint: fmt.Sprint(tasks.Statuses())}
		}
	}
	if f.Queue != "" {
		return tasks.ValidateQueue(f.Queue)
	}
	return nil
}

func (f *Filter) matches(t *tasks.Task) bool {
	return (len(f.Statuses) == 0 || slices.Contains(f.Statuses, t.Status)) &&
		(f.Type == "" || f.Type == t.Type) &&
		(f.Parent == "" || t.Parent != nil && t.Parent.TaskID == f.Parent) &&
		(f.Owner == "" || f.Owner == t.Owner)
}

// cursor walks down the index of one queue.
type cursor struct {
	queue  string
	before int64 // entries numbered below are still to come; -1: all
	batch  int   // entries to read next; more each time, for a filter may pass few
	end    bool
	ahead  []numbered // read, not yet used
}

type numbered struct {
	n    int64
	task *tasks.Task
}

func (c *cursor) pop() *tasks.Task {
	first := c.ahead[0]
	c.ahead, c.before = c.ahead[1:], first.n
	return first.task
}

// cursors makes one for each queue, at the token's places.
func (q *Queue) cursors(ctx context.Context, f Filter, size int) ([]*cursor, error) {
	places, err := decodeToken(f.PageToken)
	if err != nil {
		return nil, err
	}
	names := []string{f.Queue}
	if f.Queue == "" {
		if names, err = q.store.Queues(ctx); err != nil {
			return nil, err
		}
	}
	var cursors []*cursor
	for _, name := range names {
		before := int64(-1)
		if f.PageToken != "" {
			n, ok := places[name]
			if !ok {
				continue // at its end, or a queue younger than the list
			}
			before = n
		}
		cursors = append(cursors, &cursor{queue: name, before: before, batch: size})
	}
	return cursors, nil
}

// newest gives the cursor whose next task is the newest; nil when all are at their end.
func (q *Queue) newest(ctx context.Context, f Filter, cursors []*cursor) (*cursor, error) {
	var best *cursor
	for _, c := range cursors {
		if err := q.fill(ctx, f, c); err != nil {
			return nil, err
		}
		if len(c.ahead) > 0 && (best == nil || c.ahead[0].task.CreatedAt.After(best.ahead[0].task.CreatedAt.Time)) {
			best = c
		}
	}
	return best, nil
}

// fill reads ahead until the cursor has a task or is at its end. Entries without a record are passed over.
func (q *Queue) fill(ctx context.Context, f Filter, c *cursor) error {
	for !c.end && len(c.ahead) == 0 {
		entries, err := q.store.Index(ctx, c.queue, f.Owner, c.before, c.batch)
		if err != nil {
			return err
		}
		if c.end = len(entries) < c.batch; len(entries) == 0 {
			return nil
		}
		c.batch = min(2*c.batch, maxPage)
		ids := make([]string, len(entries))
		for i, e := range entries {
			ids[i] = e.ID
		}
		found, err := q.store.GetAll(ctx, c.queue, ids)
		if err != nil {
			return err
		}
		for i, t := range found {
			if t != nil {
				c.ahead = append(c.ahead, numbered{entries[i].N, t})
			}
		}
		if len(c.ahead) == 0 {
			c.before = entries[len(entries)-1].N
		}
	}
	return nil
}

// encodeToken notes where each queue's cursor stands; it is empty when all are at their end.
func encodeToken(cursors []*cursor) string {
	places := map[string]int64{}
	for _, c := range cursors {
		if !c.end || len(c.ahead) > 0 {
			places[c.queue] = c.before
		}
	}
	if len(places) == 0 {
		return ""
	}
	b, _ := json.Marshal(places) // strings and numbers: cannot fail
	return base64.RawURLEncoding.EncodeToString(b)
}

func decodeToken(token string) (map[string]int64, error) {
	var places map[string]int64
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil && token != "" {
		err = json.Unmarshal(b, &places)
	}
	if err != nil || (token != "" && len(places) == 0) {
		return nil, &tasks.InvalidError{Field: "page_token", Reason: "is not one that a list returned"}
	}
	return places, nil
}
