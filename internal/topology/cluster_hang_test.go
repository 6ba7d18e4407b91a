package topology_test

import (
	"context"
	"testing"
	"time"

	"offstage/internal/topology"
	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// TestCluster_Hang: a node that hangs for longer than a reply is waited for, and then runs what it was sent. The other
// node's queue goes on meanwhile, and no task is left behind with a worker that never got it.
func TestCluster_Hang(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t, topology.ClusterConfig{NodeTimeout: time.Minute}) // it hangs, it has not failed
	queues := c.Queues(1)
	q, seen := open(t, c.URL, queue.Options{})
	gate := make(chan struct{})
	begun := make(chan string, 10)
	cfg := brisk(queues...)
	cfg.Concurrency = 1
	start(t, q, cfg, func(w *worker.Worker) {
		w.HandleRaw("hold", func(_ context.Context, j *worker.Job) (any, error) { begun <- j.ID; <-gate; return nil, nil })
		w.HandleRaw("echo", func(_ context.Context, j *worker.Job) (any, error) { return j.Payload, nil })
	})
	enqueue(t, q, tasks.Spec{Type: "hold", Queue: queues[0]})
	<-begun // the only slot
	var ids []string
	for i := range 20 {
		ids = append(ids, enqueue(t, q, tasks.Spec{Type: "echo", Queue: queues[1], Payload: i}).ID)
	}
	if err := c.Masters[1].Pause(); err != nil {
		t.Fatal(err)
	}
	close(gate) // the next take goes to the node that hangs
	time.Sleep(3500 * time.Millisecond)
	if err := c.Masters[1].Resume(); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	for _, id := range ids {
		if got := ends(t, q, id, tasks.Completed); got.Attempt != 1 {
			t.Errorf("ran %d times: %+v", got.Attempt, got)
		}
	}
	measured(t, "node_hang tasks=%d lost=0 drained=%.1fs after it answered; strays freed=%d", len(ids), time.Since(back).Seconds(), seen.Get("repaired stray"))
}
