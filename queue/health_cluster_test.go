package queue_test

import (
	"net"
	"strings"
	"testing"

	"offstage/internal/redistest"
	"offstage/queue"
)

// cluster starts a cluster of masters and gives its URL.
func cluster(t *testing.T, opts ...[]redistest.Option) (servers []*redistest.Server, url string) {
	t.Helper()
	const slots = 16384
	var addrs []string
	for i, o := range opts {
		s := redistest.Start(t, append(o, redistest.Args("--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
			"--cluster-require-full-coverage", "no"))...)
		servers, addrs = append(servers, s), append(addrs, s.Addr)
		c := s.Client(t)
		first, last := i*slots/len(opts), (i+1)*slots/len(opts)-1
		if err := c.ClusterAddSlotsRange(t.Context(), first, last).Err(); err != nil {
			t.Fatal(err)
		}
		c.Do(t.Context(), "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		host, port, _ := net.SplitHostPort(servers[0].Addr)
		if err := c.ClusterMeet(t.Context(), host, port).Err(); i > 0 && err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range servers {
		c := s.Client(t)
		eventually(t, "cluster is whole", func() bool {
			info := c.ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_assigned:16384")
		})
	}
	return servers, "redis-cluster://" + strings.Join(addrs, ",")
}

// TestHealth_Cluster: each master counts, and is named.
func TestHealth_Cluster(t *testing.T) {
	t.Parallel()
	always, everysec := []redistest.Option{redistest.AOF("always")}, []redistest.Option{redistest.AOF("everysec")}
	servers, url := cluster(t, always, everysec, always)
	q := openWith(t, url, queue.Options{})
	well(t, q)
	if h, _ := q.Health(t.Context()); h.Durability != queue.DurabilityEverySec || len(h.Problems) > 0 {
		t.Errorf("Health = %+v, want the weakest durability", h)
	}
	for _, s := range servers {
		if n := s.Client(t).DBSize(t.Context()).Val(); n != 1 {
			t.Errorf("node %s has %d probes, want 1", s.Addr, n)
		}
	}
	if err := servers[2].ConfigSet("appendonly", "no"); err != nil {
		t.Fatal(err)
	}
	h, _ := q.Health(t.Context())
	if h.Durability != queue.DurabilityNone || !strings.Contains(strings.Join(h.Problems, ""), "node "+servers[2].Addr+": appendonly is no") {
		t.Errorf("Health = %+v, want node %s named", h, servers[2].Addr)
	}
	if err := servers[1].ConfigSet("min-replicas-to-write", "1"); err != nil {
		t.Fatal(err)
	}
	ill(t, q, "node "+servers[1].Addr, "min-replicas-to-write")
	found := doctor(t, url, queue.DoctorOptions{})
	finds(t, found, queue.Fail, "writes", "node "+servers[1].Addr)
	finds(t, found, queue.OK, "writes", "node "+servers[0].Addr)
	finds(t, found, queue.Warn, "durability", "node "+servers[2].Addr)
	finds(t, found, queue.OK, "rights", "node "+servers[0].Addr)
	finds(t, found, queue.OK, "cluster", "state ok, 3 masters")
	if err := servers[1].ConfigSet("min-replicas-to-write", "0"); err != nil {
		t.Fatal(err)
	}
	well(t, q)
	servers[0].Stop()
	ill(t, q, "node "+servers[0].Addr)
	eventually(t, "doctor tells of the node", func() bool {
		return strings.Contains(table(doctor(t, url, queue.DoctorOptions{})), "failing")
	})
}
