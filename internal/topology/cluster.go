package topology

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"offstage/internal/redistest"
)

// Slots is the number of hash slots of every Redis Cluster.
const Slots = 16384

// readyTimeout bounds how long a topology may take to become what was asked for.
const readyTimeout = 40 * time.Second

// ClusterConfig says what a [Cluster] is made of. The zero value is three masters that hold nothing on disk.
type ClusterConfig struct {
	// Masters is how many nodes have slots; zero means 3.
	Masters int
	// Replicas is how many replicas each of them has.
	Replicas int
	// NodeTimeout is after how long a silent node counts as failed; zero means 1 s.
	NodeTimeout time.Duration
	// Options are those of every node.
	Options []redistest.Option
}

// Cluster is a Redis Cluster that serves the slots it can while a node is away.
type Cluster struct {
	Masters  []*redistest.Server // each with an equal share of the slots, in order
	Replicas []*redistest.Server // of Masters[i/c.Replicas]
	URL      string              // redis-cluster://, with every master

	tb testing.TB
}

// StartCluster starts a cluster that ends with the test, and returns when every node finds it whole.
func StartCluster(tb testing.TB, c ClusterConfig) *Cluster {
	tb.Helper()
	if c.Masters == 0 {
		c.Masters = 3
	}
	if c.NodeTimeout == 0 {
		c.NodeTimeout = time.Second
	}
	cluster := &Cluster{tb: tb}
	for range c.Masters {
		cluster.Masters = append(cluster.Masters, startNode(tb, c))
	}
	for range c.Masters * c.Replicas {
		cluster.Replicas = append(cluster.Replicas, startNode(tb, c))
	}
	var addrs []string
	for i, s := range cluster.Masters {
		addrs = append(addrs, s.Addr)
		cluster.join(i, s, i*Slots/c.Masters, (i+1)*Slots/c.Masters-1)
	}
	for _, s := range cluster.Replicas {
		cluster.meet(s)
	}
	cluster.AwaitWhole()
	for i, s := range cluster.Replicas {
		cluster.replicate(s, cluster.Masters[i/c.Replicas])
	}
	cluster.URL = "redis-cluster://" + strings.Join(addrs, ",")
	return cluster
}

// startNode starts a node on a port to which 10,000 can be added for the cluster's bus: both lie below the range from
// which Linux gives ports to outgoing connections.
func startNode(tb testing.TB, c ClusterConfig) *redistest.Server {
	tb.Helper()
	const low, high, bus, attempts = 10000, 32768 - 10000, 10000, 20
	var errs error
	for range attempts {
		port := low + rand.IntN(high-low) //nolint:gosec // any port will do
		if !free(tb.Context(), port) || !free(tb.Context(), port+bus) {
			continue
		}
		opts := append(slices.Clip(c.Options), redistest.Port(port), redistest.Args("--cluster-enabled", "yes",
			"--cluster-node-timeout", strconv.FormatInt(c.NodeTimeout.Milliseconds(), 10),
			"--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration", "no",
			"--repl-diskless-sync-delay", "0"))
		s, stop, err := redistest.StartMain(opts...)
		if err == nil {
			tb.Cleanup(stop)
			return s
		}
		errs = errors.Join(errs, err)
	}
	tb.Fatalf("topology: no cluster node in %d tries: %v", attempts, errs)
	return nil
}

func free(ctx context.Context, port int) bool {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// join gives a master its slots and makes it known.
func (c *Cluster) join(i int, s *redistest.Server, first, last int) {
	c.tb.Helper()
	client := s.Client(c.tb)
	ctx := c.tb.Context()
	must(c.tb, "slots", client.ClusterAddSlotsRange(ctx, first, last).Err())
	must(c.tb, "epoch", client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
	c.meet(s)
}

func (c *Cluster) meet(s *redistest.Server) {
	c.tb.Helper()
	if s == c.Masters[0] {
		return
	}
	host, port, err := net.SplitHostPort(c.Masters[0].Addr)
	must(c.tb, "address", err)
	must(c.tb, "meet", s.Client(c.tb).ClusterMeet(c.tb.Context(), host, port).Err())
}

// replicate makes a node a replica, and returns when it has the master's data.
func (c *Cluster) replicate(replica, master *redistest.Server) {
	c.tb.Helper()
	ctx := c.tb.Context()
	id, err := master.Client(c.tb).ClusterMyID(ctx).Result()
	must(c.tb, "node id", err)
	client := replica.Client(c.tb)
	await(c.tb, "the replica knows its master", func() error { return client.ClusterReplicate(ctx, id).Err() })
	c.AwaitReplica(replica)
}

// AwaitWhole waits until every node that runs sees all slots served.
func (c *Cluster) AwaitWhole() {
	c.tb.Helper()
	nodes := append(slices.Clip(c.Masters), c.Replicas...)
	for _, s := range nodes {
		client := s.Client(c.tb)
		await(c.tb, "the cluster is whole for "+s.Addr, func() error {
			info, err := client.ClusterInfo(c.tb.Context()).Result()
			for _, want := range []string{"cluster_state:ok", "cluster_slots_ok:" + strconv.Itoa(Slots), "cluster_known_nodes:" + strconv.Itoa(len(nodes))} {
				if err == nil && !strings.Contains(info, want) {
					err = fmt.Errorf("not %q in %q", want, info)
				}
			}
			return err
		})
	}
}

// AwaitPromoted waits until a replica has its master's slots and all others know.
func (c *Cluster) AwaitPromoted(replica *redistest.Server) {
	c.tb.Helper()
	await(c.tb, "the replica is promoted", func() error {
		if said := replication(replica); said["role"] != "master" {
			return fmt.Errorf("%v", said)
		}
		return nil
	})
}

// AwaitReplica waits until a node that was replaced is a replica in step.
func (c *Cluster) AwaitReplica(node *redistest.Server) {
	c.tb.Helper()
	await(c.tb, "the node follows its successor", func() error {
		if said := replication(node); said["role"] != "slave" || said["master_link_status"] != "up" {
			return fmt.Errorf("%v", said)
		}
		return nil
	})
}

// Queues gives names of queues, each n of which live on one master: the first n on Masters[0], and so on.
func (c *Cluster) Queues(n int) []string {
	c.tb.Helper()
	byNode := make([][]string, len(c.Masters))
	for i, missing := 0, n*len(c.Masters); missing > 0; i++ {
		name := "q" + strconv.Itoa(i)
		at := c.NodeOf(name)
		if len(byNode[at]) < n {
			byNode[at] = append(byNode[at], name)
			missing--
		}
	}
	return slices.Concat(byNode...)
}

// NodeOf gives the number of the master that holds a queue.
func (c *Cluster) NodeOf(queue string) int {
	c.tb.Helper()
	slot, err := c.Masters[0].Client(c.tb).ClusterKeySlot(c.tb.Context(), "{"+queue+"}").Result()
	must(c.tb, "slot of "+queue, err)
	for i := range c.Masters {
		if int(slot) < (i+1)*Slots/len(c.Masters) {
			return i
		}
	}
	return len(c.Masters) - 1
}

func must(tb testing.TB, what string, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("topology: %s: %v", what, err)
	}
}

// await tries until it works, at most for readyTimeout.
func await(tb testing.TB, what string, try func() error) {
	tb.Helper()
	deadline := time.NewTimer(readyTimeout)
	defer deadline.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-deadline.C:
			tb.Fatalf("topology: not in %v: %s: %v", readyTimeout, what, err)
		}
	}
}
