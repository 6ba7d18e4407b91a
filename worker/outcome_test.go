package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/tasks"
	"offstage/worker"
)

type greeting struct {
	Name string `json:"name"`
}

// TestWorker_Outcomes is promise P2: whatever a body does, its task gets the one truthful status.
func TestWorker_Outcomes(t *testing.T) {
	t.Parallel()
	q, seen := open(t, server.FreshDB(t))
	boom := errors.New("boom")
	bodies := map[string]worker.Handler{
		"error":     func(context.Context, *worker.Job) (any, error) { return nil, boom },
		"permanent": func(context.Context, *worker.Job) (any, error) { return nil, worker.Permanent(boom) },
		"rejected":  func(context.Context, *worker.Job) (any, error) { return nil, tasks.Rejected(boom) },
		"panic":     func(context.Context, *worker.Job) (any, error) { panic("at the disco") },
		"goexit":    func(context.Context, *worker.Job) (any, error) { runtime.Goexit(); return nil, nil },
		"binary": func(context.Context, *worker.Job) (any, error) {
			return nil, errors.New(strings.Repeat("\xff\x00", 1<<20))
		},
		"partial": func(context.Context, *worker.Job) (any, error) { return map[string]int{"exit_code": 3}, boom },
		"chan":    func(context.Context, *worker.Job) (any, error) { return make(chan int), nil },
		"defer": func(context.Context, *worker.Job) (any, error) {
			defer func() { panic("second") }()
			panic("first")
		},
		"timeout": func(ctx context.Context, _ *worker.Job) (any, error) { <-ctx.Done(); return nil, context.Cause(ctx) },
		"toolong": func(context.Context, *worker.Job) (any, error) { return strings.Repeat("x", 1<<20), nil },
	}
	start(t, q, worker.Config{}, func(w *worker.Worker) {
		worker.Handle(w, "greet", func(_ context.Context, j *worker.Job, g greeting) (string, error) {
			return "hello " + g.Name, nil
		})
		for typ, h := range bodies {
			w.HandleRaw(typ, h)
		}
	})
	tests := []struct {
		typ     string
		payload any
		status  tasks.Status
		kind    tasks.Kind
		message string // a part of it
		result  string
		tries   int // attempts with one retry allowed
	}{
		{"greet", greeting{"Ada"}, tasks.Completed, "", "", `"hello Ada"`, 1},
		{"greet", []int{1}, tasks.Failed, tasks.KindRejected, "payload does not fit greet", "", 1},
		{"error", nil, tasks.Failed, tasks.KindError, "boom", "", 2},
		{"permanent", nil, tasks.Failed, tasks.KindError, "boom", "", 1},
		{"rejected", nil, tasks.Failed, tasks.KindRejected, "boom", "", 1},
		{"panic", nil, tasks.Failed, tasks.KindPanic, "panic: at the disco", "", 2},
		{"goexit", nil, tasks.Failed, tasks.KindPanic, "runtime.Goexit", "", 2},
		{"defer", nil, tasks.Failed, tasks.KindPanic, "second", "", 2},
		{"binary", nil, tasks.Failed, tasks.KindError, "(cut)", "", 2},
		{"partial", nil, tasks.Failed, tasks.KindError, "boom", `{"exit_code":3}`, 2},
		{"chan", nil, tasks.Failed, tasks.KindError, "result cannot be encoded", "", 1},
		{"toolong", nil, tasks.Failed, tasks.KindError, "task.max_result", "", 1},
		{"timeout", nil, tasks.Failed, tasks.KindTimeout, "task timed out", "", 2},
		{"nobody", nil, tasks.Failed, tasks.KindRejected, `no handler for type "nobody"`, "", 2},
	}
	for _, tt := range tests {
		t.Run(tt.typ, func(t *testing.T) {
			t.Parallel()
			task := enqueue(t, q, tasks.Spec{
				Type: tt.typ, Payload: tt.payload, MaxRetries: new(1), Timeout: new(500 * time.Millisecond),
				Backoff: &tasks.Backoff{Base: tasks.Duration(10 * time.Millisecond), Max: tasks.Duration(10 * time.Millisecond)},
			})
			got := wait(t, q, task.ID)
			if got.Status != tt.status || got.Attempt != tt.tries {
				t.Errorf("status %s after %d attempts, want %s after %d", got.Status, got.Attempt, tt.status, tt.tries)
			}
			if string(got.Result) != tt.result {
				t.Errorf("result %s, want %s", got.Result, tt.result)
			}
			checkFailure(t, got, tt.kind, tt.message, tt.tries)
			checkEvents(t, q.Events, got)
		})
	}
	t.Cleanup(func() {
		if n := seen.Get("unknown script"); n > 0 {
			t.Errorf("asynq sent %d scripts that are not known", n)
		}
	})
}

func checkFailure(t *testing.T, got *tasks.Task, kind tasks.Kind, message string, tries int) {
	t.Helper()
	if kind == "" {
		if got.Error != nil || got.Errors != nil || got.Progress != 1 {
			t.Errorf("completed task has error %v, errors %v, progress %v", got.Error, got.Errors, got.Progress)
		}
		return
	}
	if got.Error == nil || got.Error.Kind != kind || !strings.Contains(got.Error.Message, message) {
		t.Fatalf("error %+v, want kind %s and %q", got.Error, kind, message)
	}
	if len(got.Error.Message) > tasks.MaxMessageBytes || strings.Contains(got.Error.Message, "\x00") {
		t.Errorf("error message of %d bytes is not clean and bounded", len(got.Error.Message))
	}
	if len(got.Errors) != tries {
		t.Errorf("%d failed attempts listed, want %d: %+v", len(got.Errors), tries, got.Errors)
	}
	for i, f := range got.Errors {
		if f.Attempt != i+1 || f.At.IsZero() {
			t.Errorf("failure %d is %+v", i, f)
		}
	}
}

// checkEvents wants gapless numbers and exactly one terminal event, the last one, with the task's outcome.
func checkEvents(t *testing.T, events func(context.Context, tasks.Ref, int64, int) ([]tasks.Event, error), task *tasks.Task) {
	t.Helper()
	list, err := events(t.Context(), tasks.Ref{ID: task.ID}, 0, 1000)
	if err != nil {
		t.Fatalf("Events: %v", err)
	}
	for i, e := range list {
		if e.Seq != int64(i+1) || e.TaskID != task.ID || e.Owner != task.Owner || e.At.IsZero() {
			t.Errorf("event %d is %+v", i, e)
		}
		if e.Kind.Terminal() != (i == len(list)-1) {
			t.Errorf("event %d of %d is %s", i+1, len(list), e.Kind)
		}
	}
	last := list[len(list)-1]
	if string(last.Kind) != string(task.Status) || !cmp.Equal(last.Error, task.Error) || string(last.Result) != string(task.Result) {
		t.Errorf("terminal event %+v does not tell the task's outcome", last)
	}
}

func TestWorker_Job(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	start(t, q, worker.Config{}, func(w *worker.Worker) {
		w.Use(func(next worker.Handler) worker.Handler {
			return func(ctx context.Context, j *worker.Job) (any, error) {
				v, err := next(ctx, j)
				return map[string]any{"wrapped": v}, err
			}
		})
		w.HandleRaw("parent", func(ctx context.Context, j *worker.Job) (any, error) {
			if err := j.Progress(0.5); err != nil {
				return nil, err
			}
			for i := range 100 {
				if err := j.Emit("tick", i); err != nil {
					return nil, err
				}
			}
			_, _ = j.Output().Write([]byte("hé"[:2]))
			_, _ = j.Output().Write([]byte("hé"[2:] + "llo\n\x1b[31mred\x1b[0m\n"))
			child, err := j.Enqueue(ctx, tasks.Spec{Type: "child"})
			if err != nil {
				return nil, err
			}
			return child.ID, nil
		})
		w.HandleRaw("child", func(_ context.Context, j *worker.Job) (any, error) { return j.Task.Parent, nil })
	})
	task := enqueue(t, q, tasks.Spec{Type: "parent", Parent: &tasks.Parent{RunID: "r1", CallID: "c1", AgentID: "a1"}})
	got := wait(t, q, task.ID)
	if got.Status != tasks.Completed || got.Output != "héllo\n\x1b[31mred\x1b[0m\n" {
		t.Fatalf("status %s, output %q, error %v", got.Status, got.Output, got.Error)
	}
	events, err := q.Events(t.Context(), tasks.Ref{ID: task.ID}, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 104 || events[2].Kind != tasks.EventProgress || string(events[2].Payload) != `{"progress":0.5}` {
		t.Fatalf("%d events, third %+v", len(events), events[2])
	}
	for i, e := range events[3:103] {
		if want, _ := json.Marshal(i); e.Kind != tasks.EventCustom || e.Type != "tick" || string(e.Payload) != string(want) {
			t.Fatalf("event %d: %+v", i, e)
		}
	}
	if n := events[103].Notice; n.Output != "héllo\nred\n" || n.OutputCut != 0 {
		t.Errorf("notice %+v", n)
	}
	var id struct{ Wrapped string }
	if err := json.Unmarshal(got.Result, &id); err != nil {
		t.Fatal(err)
	}
	child := wait(t, q, id.Wrapped)
	want := &tasks.Parent{TaskID: task.ID, RunID: "r1", CallID: "c1", AgentID: "a1"}
	if diff := cmp.Diff(want, child.Parent); diff != "" || child.Owner != task.Owner {
		t.Errorf("child of owner %s has parent (-want +got):\n%s", child.Owner, diff)
	}
}
