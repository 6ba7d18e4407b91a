package queue_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/queue"
	"offstage/tasks"
)

func TestQueue_List(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	add := func(spec tasks.Spec) string { time.Sleep(2 * time.Millisecond); return enqueue(t, q, spec).ID }
	parent := add(tasks.Spec{Type: "agent", Owner: "ada", Payload: "secret"})
	child := add(tasks.Spec{Type: "tool", Owner: "ada", Queue: "tools", Parent: &tasks.Parent{TaskID: parent}})
	gone := add(tasks.Spec{Type: "tool", Owner: "ada", Queue: "tools"})
	later := add(tasks.Spec{Type: "mail", Owner: "ada", Delay: time.Hour})
	bobs := add(tasks.Spec{Type: "mail", Owner: "bob", Queue: "mails"})
	cancel(t, q, gone)
	tests := []struct {
		name   string
		filter queue.Filter
		want   []string // newest first
	}{
		{"All", queue.Filter{}, []string{bobs, later, gone, child, parent}},
		{"Owner", queue.Filter{Owner: "ada"}, []string{later, gone, child, parent}},
		{"Stranger", queue.Filter{Owner: "eve"}, nil},
		{"OwnerPrefix", queue.Filter{Owner: "ad"}, nil},
		{"Queue", queue.Filter{Queue: "tools"}, []string{gone, child}},
		{"NoSuchQueue", queue.Filter{Queue: "nowhere"}, nil},
		{"OwnerQueue", queue.Filter{Owner: "bob", Queue: "tools"}, nil},
		{"Type", queue.Filter{Type: "mail"}, []string{bobs, later}},
		{"Parent", queue.Filter{Parent: parent}, []string{child}},
		{"StrangersParent", queue.Filter{Parent: parent, Owner: "bob"}, nil},
		{"Status", queue.Filter{Statuses: []tasks.Status{tasks.Cancelled}}, []string{gone}},
		{"Statuses", queue.Filter{Statuses: []tasks.Status{tasks.Scheduled, tasks.Cancelled}, Owner: "ada"}, []string{later, gone}},
		{"Together", queue.Filter{Owner: "ada", Type: "tool", Statuses: []tasks.Status{tasks.Pending}, Queue: "tools"}, []string{child}},
		{"OneByOne", queue.Filter{Owner: "ada", PageSize: 1}, []string{later, gone, child, parent}},
		{"TwoByTwo", queue.Filter{PageSize: 2}, []string{bobs, later, gone, child, parent}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var ids []string
			for _, task := range listAll(t, q, tt.filter) {
				ids = append(ids, task.ID)
				if task.Payload != nil || task.Result != nil || task.Output != "" {
					t.Errorf("a list carries payload, result or output: %+v", task)
				}
			}
			if !slices.Equal(ids, tt.want) {
				t.Errorf("List(%+v) = %v, want %v", tt.filter, ids, tt.want)
			}
		})
	}
}

func TestQueue_ListInvalid(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	enqueue(t, q, noop())
	token := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	tests := []struct {
		name   string
		filter queue.Filter
		field  string
	}{
		{"PageSize", queue.Filter{PageSize: -1}, "page_size"},
		{"PageSizeHuge", queue.Filter{PageSize: 201}, "page_size"},
		{"Status", queue.Filter{Statuses: []tasks.Status{"done"}}, "status"},
		{"Queue", queue.Filter{Queue: "a}b"}, "queue"},
		{"NotBase64", queue.Filter{PageToken: "%%%"}, "page_token"},
		{"NotJSON", queue.Filter{PageToken: token("x")}, "page_token"},
		{"Array", queue.Filter{PageToken: token("[1]")}, "page_token"},
		{"Texts", queue.Filter{PageToken: token(`{"default":"x"}`)}, "page_token"},
		{"Huge", queue.Filter{PageToken: token(`{"default":1e300}`)}, "page_token"},
		{"Trailing", queue.Filter{PageToken: token(`{"default":1}{}`)}, "page_token"},
		{"Null", queue.Filter{PageToken: token(`null`)}, "page_token"},
		{"Empty", queue.Filter{PageToken: token(`{}`)}, "page_token"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			page, err := q.List(t.Context(), tt.filter)
			if !errors.Is(err, tasks.ErrInvalid) || !slices.Equal(fieldOf(err), []string{tt.field}) {
				t.Errorf("List = %+v, %v, want ErrInvalid that names %s", page, err, tt.field)
			}
		})
	}
}

// TestQueue_ListDeep: paging over several queues with tasks of the same millisecond visits each task once, newest
// first, while others are added and deleted.
func TestQueue_ListDeep(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	const each = 200
	names := []string{"default", "a", "b"}
	want := map[string]bool{}
	for range each / 50 {
		var specs []tasks.Spec
		for i := range 50 * len(names) {
			specs = append(specs, tasks.Spec{Type: "x", Owner: fmt.Sprint("owner", i%2), Queue: names[i%len(names)]})
		}
		for _, r := range batch(t, q, specs) {
			want[r.Task.ID] = true
		}
	}
	for _, owner := range []string{"", "owner1"} {
		t.Run("Owner="+owner, func(t *testing.T) {
			t.Parallel()
			seen := map[string]int{}
			last := time.Now().Add(time.Hour)
			f := queue.Filter{Owner: owner, PageSize: 17}
			for pages := 0; ; pages++ {
				page, err := q.List(t.Context(), f)
				if err != nil || len(page.Tasks) > 17 || pages > 200 {
					t.Fatalf("page %d: %d tasks, %v", pages, len(page.Tasks), err)
				}
				for _, task := range page.Tasks {
					seen[task.ID]++
					if !want[task.ID] {
						continue
					}
					if task.CreatedAt.After(last) {
						t.Errorf("page %d: %s comes after an older one", pages, task.ID)
					}
					last = task.CreatedAt.Time
				}
				if f.PageToken = page.NextPageToken; f.PageToken == "" {
					break
				}
				id := enqueue(t, q, tasks.Spec{Type: "x", Owner: "owner1", Queue: names[pages%3]}).ID
				if pages%2 == 0 {
					cancel(t, q, id)
					if err := q.Delete(t.Context(), tasks.Ref{ID: id}); err != nil {
						t.Fatal(err)
					}
				}
			}
			visited := 0
			for id, n := range seen {
				if n != 1 {
					t.Errorf("%s was listed %d times", id, n)
				}
				if want[id] {
					visited++
				}
			}
			if all := len(want); (owner == "" && visited != all) || (owner != "" && visited != all/2) {
				t.Errorf("%d of the tasks were listed, want all of %d of %s", visited, all, owner)
			}
		})
	}
}

// TestQueue_ListScan: a call that finds little looks at a bounded number of records, in few round trips, and says where
// to go on.
func TestQueue_ListScan(t *testing.T) {
	t.Parallel()
	opts, err := redis.ParseURL(server.FreshDB(t))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	trips := &tripCounter{}
	client.AddHook(trips)
	q, err := queue.New(client, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(q.Close(), client.Close()) })
	needle := enqueue(t, q, tasks.Spec{Type: "needle", Owner: "ada"}).ID
	for range 3 {
		specs := make([]tasks.Spec, 1000)
		for i := range specs {
			specs[i] = tasks.Spec{Type: "hay", Owner: "ada"}
		}
		batch(t, q, specs)
	}
	trips.n.Store(0)
	f := queue.Filter{Type: "needle", PageSize: 1}
	page, err := q.List(t.Context(), f)
	if err != nil || len(page.Tasks) != 0 || page.NextPageToken == "" {
		t.Fatalf("the first page = %+v, %v, want nothing yet", page, err)
	}
	if n := trips.n.Load(); n > 100 {
		t.Errorf("%d round trips for one page", n)
	}
	f.PageToken = page.NextPageToken
	page, err = q.List(t.Context(), f)
	if err != nil || len(page.Tasks) != 1 || page.Tasks[0].ID != needle {
		t.Errorf("the second page = %+v, %v, want the needle", page, err)
	}
}

// tripCounter is a hook that counts round trips.
type tripCounter struct{ n atomic.Int64 }

func (c *tripCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *tripCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.n.Add(1); return next(ctx, cmd) }
}

func (c *tripCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { c.n.Add(1); return next(ctx, cmds) }
}
