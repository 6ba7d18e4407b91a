package topology_test

import (
	"testing"
	"time"

	"offstage/internal/topology"
	"offstage/queue"
)

// TestCluster_WaitReplicas: masters of a cluster are lost under load, each replaced by its replica. With the replica
// waited for, nothing that was accepted is missing.
func TestCluster_WaitReplicas(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t, topology.ClusterConfig{Replicas: 1})
	l, all := startLoad(t, loadConfig{url: c.URL, options: queue.Options{WaitReplicas: 1}, queues: c.Queues(1), producers: 4, workers: 2,
		pace: 10 * time.Millisecond})
	var accepts, runs []time.Duration
	masters, replicas := c.Masters, c.Replicas
	for i := range 2 {
		l.flows(50)
		broke := time.Now()
		masters[i].Stop()
		c.AwaitPromoted(replicas[i])
		if err := masters[i].Restart(); err != nil { // the new master has no replica until then, so nothing is accepted
			t.Fatal(err)
		}
		c.AwaitReplica(masters[i])
		accept, run := l.recovery(broke, time.Now())
		accepts, runs = append(accepts, accept), append(runs, run)
		l.flows(20)
	}
	got := l.finish()
	refused := 0
	for _, seen := range all {
		refused += seen.Sum("commit ")
	}
	measured(t, "cluster failovers=%d wait_replicas=1 %v accepts_again worst=%.1fs runs_again worst=%.1fs refused_writes=%d", len(runs), got,
		worst(accepts), worst(runs), refused)
	if took := max(worst(accepts), worst(runs)); took > 30 {
		t.Errorf("went on after %.1f s", took)
	}
	if got.missing != 0 || got.duplicated != 0 {
		t.Errorf("%d accepted tasks are missing, %d keys have two", got.missing, got.duplicated)
	}
}
