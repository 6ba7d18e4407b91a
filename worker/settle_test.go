package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"offstage/internal/redistest"
	"offstage/queue/bridge"
	"offstage/tasks"
	"offstage/worker"
)

// TestWorker_SettleWritten: the spool may hold an outcome that Redis took and whose reply was lost. When its task starts
// again before the spool is replayed, the outcome is not written a second time in place of the new attempt.
func TestWorker_SettleWritten(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		fail error          // of the first body
		end  bridge.Outcome // that Redis took
		then tasks.Status
	}{
		"Retry":  {worker.RetryAfter(300*time.Millisecond, errors.New("no")), bridge.Retry, tasks.Retrying},
		"Failed": {worker.Permanent(errors.New("no")), bridge.Failed, tasks.Failed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := server.FreshDB(t)
			q, _ := open(t, url)
			s := openSpool(t, t.TempDir())
			var bodies atomic.Int32
			start(t, q, worker.Config{Spool: s, Heartbeat: 20 * time.Second, Lease: time.Minute}, func(w *worker.Worker) {
				w.HandleRaw("work", func(context.Context, *worker.Job) (any, error) {
					if bodies.Add(1) == 1 {
						return nil, c.fail
					}
					return "done", nil
				})
			})
			id := enqueue(t, q, tasks.Spec{Type: "work", MaxRetries: new(1)}).ID
			reaches(t, q, id, c.then)
			epoch, err := redistest.Connect(t, url).HGet(t.Context(), ours+"t:"+id, "ended").Int64()
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(map[string]any{
				"mark": bridge.Mark{Queue: "default", ID: id, Epoch: epoch}, "type": "work",
				"end": bridge.End{Outcome: c.end, Error: &tasks.Error{Kind: tasks.KindError, Message: "no"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Put(id, b); err != nil {
				t.Fatal(err)
			}
			if c.then.Terminal() {
				if _, err := q.Retry(t.Context(), tasks.Ref{ID: id}); err != nil {
					t.Fatal(err)
				}
			}
			got := reaches(t, q, id, tasks.Completed)
			if got.Attempt != 2 || bodies.Load() != 2 {
				t.Errorf("attempt %d, %d bodies, want 2 and 2: %+v", got.Attempt, bodies.Load(), got)
			}
			if s.Len() != 0 {
				t.Errorf("%d outcomes are still spooled", s.Len())
			}
		})
	}
}
