package tasks_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/tasks"
)

func at(ms int) tasks.Time {
	return tasks.At(time.Date(2026, 11, 20, 11, 0, 0, ms*1e6, time.UTC))
}

func TestTask_JSON(t *testing.T) {
	t.Parallel()
	full := tasks.Task{
		ID: "mails.01k", Handle: "mails_0", Owner: "o", Type: "t", Queue: "mails", Name: "n", Description: "d",
		Metadata: map[string]string{"k": "v"}, Status: tasks.Failed, Progress: 0.25, Attempt: 2, MaxRetries: 1, Interruptions: 1,
		Payload: json.RawMessage(`{"a":1}`), Result: json.RawMessage(`[2]`), Output: "out", OutputCut: 9,
		Error:  &tasks.Error{Kind: tasks.KindTimeout, Message: "late", Retryable: true},
		Errors: []tasks.Failure{{Attempt: 1, Kind: tasks.KindPanic, Message: "oh", At: at(1)}},
		Parent: &tasks.Parent{TaskID: "p"}, Cancel: &tasks.Cancel{RequestedAt: at(2), By: "b", Reason: "r", Abandoned: true},
		Notify:  &tasks.Notify{OnComplete: true},
		Backoff: &tasks.Backoff{Base: tasks.Duration(time.Second)}, Timeout: tasks.Duration(500 * time.Millisecond),
		Deadline: at(3), Retention: tasks.Duration(time.Hour), Worker: "w", Version: 7,
		CreatedAt: at(0), ScheduledAt: at(4), StartedAt: at(5), CompletedAt: at(6), ExpiresAt: at(7),
	}
	tests := []struct {
		name string
		task tasks.Task
		want string
	}{
		{"Full", full, `{"id":"mails.01k","handle":"mails_0","owner":"o","type":"t","queue":"mails","name":"n","description":"d",` +
			`"metadata":{"k":"v"},"status":"failed","progress":0.25,"attempt":2,"max_retries":1,"interruptions":1,` +
			`"payload":{"a":1},"result":[2],"output":"out","output_cut":9,` +
			`"error":{"kind":"timeout","message":"late","retryable":true},` +
			`"errors":[{"attempt":1,"kind":"panic","message":"oh","at":"2026-11-20T11:00:00.001Z"}],"parent":{"task_id":"p"},` +
			`"cancel":{"requested_at":"2026-11-20T11:00:00.002Z","by":"b","reason":"r","abandoned":true},` +
			`"notify":{"on_complete":true},"backoff":{"base":"1s"},"timeout":"500ms","deadline":"2026-11-20T11:00:00.003Z",` +
			`"retention":"1h0m0s","worker":"w","version":7,"created_at":"2026-11-20T11:00:00.000Z",` +
			`"scheduled_at":"2026-11-20T11:00:00.004Z","started_at":"2026-11-20T11:00:00.005Z",` +
			`"completed_at":"2026-11-20T11:00:00.006Z","expires_at":"2026-11-20T11:00:00.007Z"}`},
		{"Least", tasks.Task{ID: "default.01k", Owner: "o", Type: "t", Queue: "default", Status: tasks.Pending, Version: 1, CreatedAt: at(0)},
			`{"id":"default.01k","owner":"o","type":"t","queue":"default","status":"pending","progress":0,"attempt":0,` +
				`"max_retries":0,"version":1,"created_at":"2026-11-20T11:00:00.000Z"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, encode(t, tt.task)); diff != "" {
				t.Fatalf("Marshal (-want +got):\n%s", diff)
			}
			var back tasks.Task
			if err := json.Unmarshal([]byte(tt.want), &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.task, back); diff != "" {
				t.Errorf("there and back (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEvent_JSON(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		event tasks.Event
		want  string
	}{
		{"Custom", tasks.Event{Seq: 3, TaskID: "i", Owner: "o", Kind: tasks.EventCustom, Type: "tick", Payload: json.RawMessage("7"), At: at(1)},
			`{"seq":3,"task_id":"i","owner":"o","kind":"custom","type":"tick","payload":7,"at":"2026-11-20T11:00:00.001Z"}`},
		{"Failed", tasks.Event{Seq: 4, TaskID: "i", Owner: "o", Kind: tasks.EventFailed, At: at(2),
			Result: json.RawMessage(`{"exit_code":0}`), Error: &tasks.Error{Kind: tasks.KindError, Message: "m"},
			Notice: tasks.Notice{ExitCode: new(0), Command: "true", Output: "x", OutputCut: 2}},
			`{"seq":4,"task_id":"i","owner":"o","kind":"failed","at":"2026-11-20T11:00:00.002Z","result":{"exit_code":0},` +
				`"error":{"kind":"error","message":"m","retryable":false},"exit_code":0,"command":"true","output":"x","output_cut":2}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, encode(t, tt.event)); diff != "" {
				t.Fatalf("Marshal (-want +got):\n%s", diff)
			}
			var back tasks.Event
			if err := json.Unmarshal([]byte(tt.want), &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.event, back); diff != "" {
				t.Errorf("there and back (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	terminal := map[tasks.Status]bool{tasks.Completed: true, tasks.Failed: true, tasks.Cancelled: true}
	if len(tasks.Statuses()) != 7 {
		t.Errorf("%d statuses, want 7", len(tasks.Statuses()))
	}
	for _, s := range tasks.Statuses() {
		if !s.Valid() || s.Terminal() != terminal[s] || tasks.EventKind(s).Terminal() != terminal[s] {
			t.Errorf("%s: valid %v, terminal %v", s, s.Valid(), s.Terminal())
		}
	}
	for _, s := range []tasks.Status{"", "Pending", "done"} {
		if s.Valid() || s.Terminal() {
			t.Errorf("%q: valid %v, terminal %v", s, s.Valid(), s.Terminal())
		}
	}
	for _, k := range []tasks.EventKind{tasks.EventCreated, tasks.EventRetrying, tasks.EventOutput, tasks.EventMessage} {
		if k.Terminal() {
			t.Errorf("%s ends a task's events", k)
		}
	}
}
