package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"offstage/internal/redistest"
	"offstage/queue"
	"offstage/tasks"
)

// inspect gives what plain asynq knows of the database at url.
func inspect(t *testing.T, url string) *asynq.Inspector {
	t.Helper()
	return asynq.NewInspectorFromRedisClient(redistest.Connect(t, url))
}

// TestQueue_Enqueue is promise P1: a nil error means that the record and asynq's entry are both there.
func TestQueue_Enqueue(t *testing.T) {
	t.Parallel()
	url := server.FreshDB(t)
	q, seen := open(t, url)
	asynqs := inspect(t, url)
	soon := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	full := tasks.Spec{
		Type: "mail", Payload: map[string]any{"to": "<bob>"}, Owner: "ada", Name: "n", Description: "d", Queue: "mails",
		Metadata: map[string]string{"k": "v"}, Parent: &tasks.Parent{TaskID: "default.gone", RunID: "r"}, MaxRetries: new(7),
		Backoff: &tasks.Backoff{Base: tasks.Duration(time.Second)}, Timeout: new(1500 * time.Millisecond), Deadline: soon.Add(time.Hour),
		RunAt: soon, Retention: time.Minute, Notify: &tasks.Notify{OnComplete: true}, IdempotencyKey: "key",
	}
	tests := []struct {
		name  string
		spec  tasks.Spec
		want  tasks.Task // id and times of the moment apart
		state asynq.TaskState
	}{
		{"Least", noop(), tasks.Task{Handle: "bg_0", Type: "noop", Queue: "default", Status: tasks.Pending, MaxRetries: 3,
			Timeout: tasks.Duration(30 * time.Minute), Retention: tasks.Duration(24 * time.Hour)}, asynq.TaskStatePending},
		{"Full", full, tasks.Task{Handle: "mails_0", Type: "mail", Queue: "mails", Name: "n", Description: "d",
			Metadata: full.Metadata, Status: tasks.Scheduled, MaxRetries: 7, Payload: []byte(`{"to":"<bob>"}`), Parent: full.Parent,
			Notify: full.Notify, Backoff: full.Backoff, Timeout: tasks.Duration(1500 * time.Millisecond), Deadline: tasks.At(full.Deadline),
			Retention: tasks.Duration(time.Minute), ScheduledAt: tasks.At(soon)}, asynq.TaskStateScheduled},
		{"NoLimits", tasks.Spec{Type: "x", Owner: "bob", MaxRetries: new(0), Timeout: new(time.Duration(0))}, tasks.Task{Handle: "bg_0",
			Type: "x", Queue: "default", Status: tasks.Pending, Retention: tasks.Duration(24 * time.Hour)}, asynq.TaskStatePending},
		{"PastRunAt", tasks.Spec{Type: "x", Owner: "bob", RunAt: time.Now().Add(-time.Hour), MaxRetries: new(0), Timeout: new(time.Duration(0))},
			tasks.Task{Handle: "bg_1", Type: "x", Queue: "default", Status: tasks.Pending, Retention: tasks.Duration(24 * time.Hour)},
			asynq.TaskStatePending},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := enqueue(t, q, tt.spec)
			if since := time.Since(got.CreatedAt.Time); since < -time.Second || since > 5*time.Second {
				t.Errorf("created %v ago", since)
			}
			want := tt.want
			want.ID, want.CreatedAt, want.Owner, want.Version = got.ID, got.CreatedAt, tt.spec.Owner, 1
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("Enqueue (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got, get(t, q, got.ID)); diff != "" {
				t.Errorf("the record differs from what Enqueue said (-said +is):\n%s", diff)
			}
			info, err := asynqs.GetTaskInfo(got.Queue, got.ID)
			if err != nil || info.State != tt.state || string(info.Payload) != string(got.Payload) || info.Type != got.Type {
				t.Errorf("asynq has %+v, %v", info, err)
			}
		})
	}
	if seen.Get("enqueued") != len(tests) || seen.Get("enqueued mails mail") != 1 {
		t.Errorf("counted %v", seen.All())
	}
}

// TestQueue_EnqueueDelay: a delay counts from the moment Redis accepts the task, to the millisecond.
func TestQueue_EnqueueDelay(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	got := enqueue(t, q, tasks.Spec{Type: "x", Owner: "ada", Delay: 1234 * time.Millisecond})
	if d := got.ScheduledAt.Sub(got.CreatedAt.Time); got.Status != tasks.Scheduled || d != 1234*time.Millisecond {
		t.Errorf("%s after %v, want scheduled after 1.234s", got.Status, d)
	}
}

func TestQueue_EnqueueInvalid(t *testing.T) {
	t.Parallel()
	q, seen := open(t, server.FreshDB(t))
	for name, spec := range map[string]tasks.Spec{
		"NoOwner":    {Type: "x"},
		"QueueBrace": {Type: "x", Owner: "a", Queue: "a}b"},
		"Deadline":   {Type: "x", Owner: "a", Deadline: time.Now()},
	} {
		if task, created, err := q.Enqueue(t.Context(), spec); !errors.Is(err, tasks.ErrInvalid) || task != nil || created {
			t.Errorf("%s: Enqueue = %+v, %v, %v, want ErrInvalid", name, task, created, err)
		}
	}
	if n := count(t, q, queue.Filter{}); n != 0 || len(seen.All()) != 0 {
		t.Errorf("%d tasks, counted %v, want nothing", n, seen.All())
	}
}

func TestQueue_EnqueueLimits(t *testing.T) {
	t.Parallel()
	limits := tasks.Limits{Timeout: time.Second, MaxRetries: 9, Retention: time.Minute, MaxPayloadBytes: 10}
	q, err := queue.Open(t.Context(), server.FreshDB(t), queue.Options{Limits: &limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	got := enqueue(t, q, tasks.Spec{Type: "x", Owner: "ada", Payload: "12345678"})
	if got.MaxRetries != 9 || time.Duration(got.Timeout) != time.Second || time.Duration(got.Retention) != time.Minute {
		t.Errorf("the configured defaults are not in force: %+v", got)
	}
	if _, _, err := q.Enqueue(t.Context(), tasks.Spec{Type: "x", Owner: "ada", Payload: "123456789"}); !errors.Is(err, tasks.ErrTooLarge) {
		t.Errorf("a payload of 11 bytes, at most 10: %v", err)
	}
}

// TestQueue_EnqueueParent: nothing new starts under a cancelled parent, whether it has ended or is only asked to.
func TestQueue_EnqueueParent(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	under := func(id string) error {
		_, _, err := q.Enqueue(t.Context(), tasks.Spec{Type: "child", Owner: "ada", Parent: &tasks.Parent{TaskID: id}})
		return err
	}
	live, ended := enqueue(t, q, noop()).ID, enqueue(t, q, noop()).ID
	cancel(t, q, ended)
	if err := under(ended); !errors.Is(err, tasks.ErrParentCancelled) {
		t.Errorf("under a cancelled parent: %v", err)
	}
	for _, id := range []string{live, "default.gone", "elsewhere", "run-7"} {
		if err := under(id); err != nil {
			t.Errorf("under %s: %v", id, err)
		}
	}
	if n := count(t, q, queue.Filter{Parent: ended}); n != 0 {
		t.Errorf("%d tasks under the cancelled parent", n)
	}
}
