package topology_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"offstage/internal/topology"
	"offstage/queue"
)

// TestSentinel_Essentials: everything works through sentinels.
func TestSentinel_Essentials(t *testing.T) {
	t.Parallel()
	s := topology.StartSentinel(t, topology.SentinelConfig{})
	hosts, _, _ := strings.Cut(strings.TrimPrefix(s.URL, "redis-sentinel://"), "/")
	essentials(t, s.URL, asynq.RedisFailoverClientOpt{MasterName: topology.MasterName, SentinelAddrs: strings.Split(hosts, ",")},
		[]string{"default", "a", "b", "c", "d", "e"})
}

// kill is how a master is lost: at once, by SIGKILL, or in an orderly switch that a sentinel was asked for.
type kill func(i int) bool

func killed(int) bool   { return true }
func switched(int) bool { return false }
func mixed(i int) bool  { return i%2 == 0 }

// failoverConfig says what is done to a master under load.
type failoverConfig struct {
	times    int
	replicas int
	wait     int // queue.Options.WaitReplicas
	hard     kill
}

// failovers loses the master again and again under load, and says what that cost.
func failovers(t *testing.T, c failoverConfig) outcome {
	t.Helper()
	s := topology.StartSentinel(t, topology.SentinelConfig{Replicas: c.replicas})
	l, all := startLoad(t, loadConfig{url: s.URL, options: queue.Options{WaitReplicas: c.wait}, queues: []string{"default", "other"},
		producers: 4, workers: 2, pace: 10 * time.Millisecond})
	var accepts, runs []time.Duration
	for i := range c.times {
		s.AwaitQuorum()
		s.AwaitReplicas(c.replicas)
		l.flows(50)
		old, broke := s.Master(), time.Now()
		if c.hard(i) {
			old.Stop()
		} else {
			s.Failover()
		}
		s.AwaitMaster(old)
		promoted := time.Now()
		if c.hard(i) && c.wait >= c.replicas { // nothing is accepted until then
			s.Rejoin(old)
		}
		accept, run := l.recovery(broke, promoted)
		accepts, runs = append(accepts, accept), append(runs, run)
		if c.hard(i) && c.wait < c.replicas {
			l.flows(20)
			s.Rejoin(old)
		}
	}
	l.flows(20)
	got := l.finish()
	lost, strays := 0, 0
	for _, seen := range all {
		lost += seen.Get("repaired keyspace_lost")
		strays += seen.Get("repaired stray")
	}
	measured(t, "failovers=%d replicas=%d wait_replicas=%d %v strays=%d accepts_again median=%.1fs worst=%.1fs runs_again median=%.1fs worst=%.1fs",
		c.times, c.replicas, c.wait, got, strays, median(accepts), worst(accepts), median(runs), worst(runs))
	if lost != 0 {
		t.Errorf("%d times a promoted replica was taken for one without the data", lost)
	}
	if got.duplicated != 0 {
		t.Errorf("%d idempotency keys have more than one task", got.duplicated)
	}
	return got
}

func median(ds []time.Duration) float64 {
	sorted := slices.Sorted(slices.Values(ds))
	return sorted[len(sorted)/2].Seconds()
}

func worst(ds []time.Duration) float64 { return slices.Max(ds).Seconds() }

// TestSentinel_WaitReplicas: a task that was accepted survives the loss of the master, killed or switched, when all
// replicas were waited for.
func TestSentinel_WaitReplicas(t *testing.T) {
	t.Parallel()
	cases := map[string]failoverConfig{
		"OneOfOne": {times: 3, replicas: 1, wait: 1, hard: mixed},
		"TwoOfTwo": {times: 3, replicas: 2, wait: 2, hard: mixed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := failovers(t, c); got.missing != 0 {
				t.Errorf("%d accepted tasks are missing", got.missing)
			}
		})
	}
}

// TestSentinel_TooFewReplicas measures what may be lost otherwise, without waiting at all and with fewer replicas waited
// for than there are: a master that is replaced while it lives goes on for a moment, with the replicas that are left to
// it. A kill costs little or nothing, but sentinels may also replace a master that is only slow.
func TestSentinel_TooFewReplicas(t *testing.T) {
	t.Parallel()
	cases := map[string]failoverConfig{
		"NoneKilled":       {times: 2, replicas: 2, hard: killed},
		"NoneSwitched":     {times: 1, replicas: 2, hard: switched},
		"OneOfTwoKilled":   {times: 2, replicas: 2, wait: 1, hard: killed},
		"OneOfTwoSwitched": {times: 1, replicas: 2, wait: 1, hard: switched},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { failovers(t, c) })
	}
}
