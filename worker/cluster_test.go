package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"offstage/internal/redistest"
	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// cluster starts three masters that share the slots.
func cluster(t *testing.T) []*redistest.Server {
	t.Helper()
	const nodes, slots = 3, 16384
	var all []*redistest.Server
	for i := range nodes {
		s := redistest.Start(t, redistest.Args("--cluster-enabled", "yes", "--cluster-node-timeout", "3000"))
		all = append(all, s)
		admin := s.Client(t)
		if err := admin.ClusterAddSlotsRange(t.Context(), i*slots/nodes, (i+1)*slots/nodes-1).Err(); err != nil {
			t.Fatal(err)
		}
		host, port, _ := strings.Cut(all[0].Addr, ":")
		if err := admin.ClusterMeet(t.Context(), host, port).Err(); i > 0 && err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range all {
		admin := s.Client(t)
		eventually(t, "the cluster is whole", func() bool {
			info := admin.ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		})
	}
	return all
}

// TestWorker_Cluster: on a Redis Cluster, tasks of queues on all nodes run, and every operation finds its node.
func TestWorker_Cluster(t *testing.T) {
	t.Parallel()
	nodes := cluster(t)
	q, seen := open(t, fmt.Sprintf("redis-cluster://%s,%s", nodes[0].Addr, nodes[1].Addr))
	queues := map[string]int{"default": 1, "a": 1, "b": 1, "c": 1, "d": 1, "e": 1}
	cfg := worker.Config{Queues: queues, DrainTimeout: -1}
	start(t, q, cfg, func(w *worker.Worker) {
		w.HandleRaw("echo", func(_ context.Context, j *worker.Job) (any, error) {
			_, _ = fmt.Fprintln(j.Output(), "out")
			return j.Payload, errors.Join(j.Progress(0.5), j.Emit("tick", nil))
		})
		w.HandleRaw("long", func(ctx context.Context, _ *worker.Job) (any, error) { <-ctx.Done(); return nil, context.Cause(ctx) })
	})
	var specs []tasks.Spec
	for name := range queues {
		for i := range 5 {
			specs = append(specs, tasks.Spec{Type: "echo", Owner: "ada", Payload: i, Queue: name, Name: fmt.Sprint(name, i), IdempotencyKey: strconv.Itoa(i)})
		}
	}
	results, err := q.EnqueueBatch(t.Context(), specs)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for i, r := range results {
		if r.Err != nil {
			t.Fatalf("task %d: %v", i, r.Err)
		}
		got := wait(t, q, r.Task.ID)
		if got.Status != tasks.Completed || string(got.Result) != fmt.Sprint(specs[i].Payload) || got.Output != "out\n" {
			t.Errorf("task %d: %+v", i, got)
		}
		checkEvents(t, q.Events, got)
		used[got.Queue] = true
	}
	for _, s := range nodes {
		if n := s.Client(t).DBSize(t.Context()).Val(); n == 0 {
			t.Errorf("the node on %s holds nothing: %d queues are on the others", s.Addr, len(used))
		}
	}
	long := enqueue(t, q, tasks.Spec{Type: "long", Owner: "ada", Queue: "c"})
	reaches(t, q, long.ID, tasks.Running)
	if _, err := q.Cancel(t.Context(), tasks.Ref{ID: long.Handle, Owner: "ada"}, queue.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, q, long.ID); got.Status != tasks.Cancelled {
		t.Errorf("cancelled: %+v", got)
	}
	if _, err := q.Retry(t.Context(), tasks.Ref{ID: long.ID}); err != nil {
		t.Errorf("Retry: %v", err)
	}
	page, err := q.List(t.Context(), queue.Filter{Owner: "ada", PageSize: 200})
	if err != nil || len(page.Tasks) != len(specs)+1 {
		t.Errorf("List = %d tasks, %v, want %d", len(page.Tasks), err, len(specs)+1)
	}
	infos, err := q.Queues(t.Context())
	if err != nil || len(infos) != len(queues) {
		t.Errorf("Queues = %+v, %v", infos, err)
	}
	if workers, err := q.Workers(t.Context()); err != nil || len(workers) != 1 {
		t.Errorf("Workers = %+v, %v", workers, err)
	}
	if h, err := q.Health(t.Context()); err != nil || !h.Ready || h.Durability != "none" {
		t.Errorf("Health = %+v, %v", h, err)
	}
	if n := seen.Get("commit task_create") + seen.Get("commit task_begin") + seen.Get("commit task_completion"); n != 0 {
		t.Errorf("counted %v", seen.All())
	}
}
