package topology_test

import (
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"offstage/internal/topology"
)

// TestCluster_Essentials: everything works on a Redis Cluster of three masters, each of which holds two queues.
func TestCluster_Essentials(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t, topology.ClusterConfig{})
	addrs := strings.Split(strings.TrimPrefix(c.URL, "redis-cluster://"), ",")
	essentials(t, c.URL, asynq.RedisClusterClientOpt{Addrs: addrs}, c.Queues(2))
	for _, s := range c.Masters {
		if n := s.Client(t).DBSize(t.Context()).Val(); n < 50 {
			t.Errorf("node %s holds %d keys: its queues live elsewhere", s.Addr, n)
		}
	}
}
