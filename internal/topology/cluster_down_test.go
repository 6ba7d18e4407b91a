package topology_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"offstage/internal/redistest"
	"offstage/internal/topology"
	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// TestCluster_NodeDown: with one node of a cluster away its queues wait and all others go on, delayed tasks, retries and
// the takeover of a dead worker too; readiness is off meanwhile and says which node it is. Once the node is back its
// tasks go on.
func TestCluster_NodeDown(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"WithTheListOfQueues", "Other"} { // the key asynq:queues is on the first one
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodeDown(t, i)
		})
	}
}

func nodeDown(t *testing.T, lost int) {
	t.Helper()
	c := topology.StartCluster(t, topology.ClusterConfig{Options: []redistest.Option{redistest.AOF("always")}})
	queues := c.Queues(2)
	gone, there := queues[2*lost:2*lost+2], slices.Concat(queues[:2*lost], queues[2*lost+2:])
	node := c.Masters[lost]
	q, seen := open(t, c.URL, queue.Options{})
	begun, hold := make(chan string, 100), make(chan struct{})
	release := func() {
		select {
		case <-hold:
		default:
			close(hold)
		}
	}
	dying, _ := open(t, c.URL, queue.Options{})
	abort := make(chan struct{})
	cfg := brisk(queues...)
	cfg.Abort, cfg.CancelGrace = abort, bound
	_, stop := start(t, dying, cfg, func(w *worker.Worker) {
		w.HandleRaw("deaf", func(_ context.Context, j *worker.Job) (any, error) { begun <- j.ID; <-hold; return "old", nil })
	})
	t.Cleanup(release)
	var deaf []string
	for _, name := range there {
		deaf = append(deaf, enqueue(t, q, tasks.Spec{Type: "deaf", Queue: name, MaxRetries: new(0)}).ID)
		<-begun
	}
	w, _ := start(t, q, brisk(queues...), func(w *worker.Worker) {
		w.HandleRaw("echo", func(_ context.Context, j *worker.Job) (any, error) { return j.Payload, nil })
		w.HandleRaw("deaf", func(context.Context, *worker.Job) (any, error) { return "new", nil })
		w.HandleRaw("flaky", func(_ context.Context, j *worker.Job) (any, error) {
			if j.Attempt < 3 {
				return nil, tasks.RetryAfter(50*time.Millisecond, fmt.Errorf("not yet"))
			}
			return j.Attempt, nil
		})
	})
	var waiting []string
	for _, name := range gone {
		if err := q.Pause(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			waiting = append(waiting, enqueue(t, q, tasks.Spec{Type: "echo", Queue: name, Payload: name}).ID)
		}
		if err := q.Resume(t.Context(), name); err == nil && name == gone[1] {
			break
		}
	}
	if h, _ := q.Health(t.Context()); !h.Ready {
		t.Errorf("before: %+v", h)
	}

	node.Stop()
	down := time.Now()
	close(abort)
	_ = stop()
	eventually(t, "readiness is off and names the node", func() bool {
		h, _ := q.Health(t.Context())
		return !h.Ready && strings.Contains(strings.Join(h.Problems, "\n"), node.Addr)
	})
	if _, _, err := q.Enqueue(t.Context(), tasks.Spec{Type: "echo", Owner: owner, Queue: gone[0]}); err == nil {
		t.Error("a task was accepted for a queue whose node is away")
	}
	var slowest, slowestDelayed time.Duration
	for _, name := range there {
		for range 5 {
			began := time.Now()
			ends(t, q, enqueue(t, q, tasks.Spec{Type: "echo", Queue: name, Payload: name}).ID, tasks.Completed)
			slowest = max(slowest, time.Since(began))
		}
		delayed := ends(t, q, enqueue(t, q, tasks.Spec{Type: "echo", Queue: name, Delay: 500 * time.Millisecond}).ID, tasks.Completed)
		slowestDelayed = max(slowestDelayed, delayed.StartedAt.Sub(delayed.ScheduledAt.Time))
		ends(t, q, enqueue(t, q, tasks.Spec{Type: "flaky", Queue: name}).ID, tasks.Completed)
	}
	var takeover time.Duration
	for _, id := range deaf {
		got := ends(t, q, id, tasks.Completed)
		takeover = max(takeover, got.StartedAt.Sub(down))
		if string(got.Result) != `"new"` || got.Interruptions != 1 {
			t.Errorf("taken over: %+v", got)
		}
	}
	release()
	refused := seen.Sum("commit ")

	if err := node.Restart(); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	c.AwaitWhole()
	for _, id := range waiting {
		ends(t, q, id, tasks.Completed)
	}
	for _, name := range gone {
		ends(t, q, enqueue(t, q, tasks.Spec{Type: "echo", Queue: name, Payload: name}).ID, tasks.Completed)
	}
	recovered := time.Since(back)
	eventually(t, "readiness is back", func() bool { h, _ := q.Health(t.Context()); return h.Ready })
	if problems, _ := w.Health(); problems != nil {
		t.Errorf("worker: %q", problems)
	}
	measured(t, "node_down waiting=%d lost=0 other_queues slowest=%.2fs delayed_late=%.2fs takeover=%.1fs recovered=%.1fs refused_writes=%d",
		len(waiting), slowest.Seconds(), slowestDelayed.Seconds(), takeover.Seconds(), recovered.Seconds(), refused)
	if took := slowest; took > 10*time.Second {
		t.Errorf("a task of a queue that is served took %v", took)
	}
}
