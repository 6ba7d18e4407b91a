package topology

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/internal/redistest"
)

// MasterName is what the sentinels call their master.
const MasterName = "main"

// SentinelConfig says what a [Sentinel] is made of. The zero value is a master with two replicas that hold nothing on
// disk, and three sentinels.
type SentinelConfig struct {
	Replicas  int // zero means 2
	Sentinels int // zero means 3; more than half of them must agree
	// DownAfter is how long a server must be silent to count as down; zero means 1 s.
	DownAfter time.Duration
	// Options are those of the master and its replicas.
	Options []redistest.Option
}

// failoverTimeout is short, because sentinels let twice as long pass between two failovers of their own.
const failoverTimeout = 3 * time.Second

// Sentinel is a replicated Redis with sentinels that watch it.
type Sentinel struct {
	Servers   []*redistest.Server // the first one is the master at first
	Sentinels []*redistest.Server
	URL       string // redis-sentinel://, with every sentinel

	tb testing.TB
}

// StartSentinel starts a set-up that ends with the test, and returns when the sentinels know each other and every
// server, and the replicas are in step.
func StartSentinel(tb testing.TB, c SentinelConfig) *Sentinel {
	tb.Helper()
	if c.Replicas == 0 {
		c.Replicas = 2
	}
	if c.Sentinels == 0 {
		c.Sentinels = 3
	}
	if c.DownAfter == 0 {
		c.DownAfter = time.Second
	}
	s := &Sentinel{tb: tb}
	opts := append(slices.Clip(c.Options), redistest.Args("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"))
	s.Servers = append(s.Servers, redistest.Start(tb, opts...))
	host, port, err := net.SplitHostPort(s.Servers[0].Addr)
	must(tb, "address", err)
	for range c.Replicas {
		s.Servers = append(s.Servers, redistest.Start(tb, append(slices.Clip(opts), redistest.Args("--replicaof", host+" "+port))...))
	}
	s.AwaitReplicas(c.Replicas)
	config := strings.NewReplacer("$name", MasterName, "$addr", host+" "+port, "$quorum", strconv.Itoa(c.Sentinels/2+1),
		"$down", strconv.FormatInt(c.DownAfter.Milliseconds(), 10),
		"$timeout", strconv.FormatInt(failoverTimeout.Milliseconds(), 10)).Replace(`
sentinel monitor $name $addr $quorum
sentinel down-after-milliseconds $name $down
sentinel failover-timeout $name $timeout
sentinel parallel-syncs $name 8
`)
	var addrs []string
	for range c.Sentinels {
		one := redistest.Start(tb, redistest.Sentinel(config))
		s.Sentinels, addrs = append(s.Sentinels, one), append(addrs, one.Addr)
	}
	s.URL = "redis-sentinel://" + strings.Join(addrs, ",") + "/" + MasterName
	s.AwaitQuorum()
	return s
}

// states gives the master's state as each sentinel sees it.
func (s *Sentinel) states() ([]map[string]string, error) {
	var all []map[string]string
	for _, one := range s.Sentinels {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		c := redis.NewSentinelClient(&redis.Options{Addr: one.Addr})
		state, err := c.Master(ctx, MasterName).Result()
		_ = c.Close()
		cancel()
		if err != nil {
			return nil, err
		}
		all = append(all, state)
	}
	return all, nil
}

// AwaitQuorum waits until every sentinel is content: it knows the others and the replicas, and sees no failure.
func (s *Sentinel) AwaitQuorum() {
	s.tb.Helper()
	want := map[string]string{
		"num-other-sentinels": strconv.Itoa(len(s.Sentinels) - 1), "num-slaves": strconv.Itoa(len(s.Servers) - 1), "flags": "master",
	}
	await(s.tb, "the sentinels are content", func() error {
		states, err := s.states()
		for _, state := range states {
			for k, v := range want {
				if state[k] != v {
					return fmt.Errorf("%s is %q, want %q", k, state[k], v)
				}
			}
		}
		return err
	})
}

// Master gives the server that most sentinels name and that says it is a master; nil while there is none.
func (s *Sentinel) Master() *redistest.Server {
	states, err := s.states()
	if err != nil {
		return nil
	}
	votes := map[string]int{}
	for _, state := range states {
		votes[net.JoinHostPort(state["ip"], state["port"])]++
	}
	for _, server := range s.Servers {
		if votes[server.Addr] > len(s.Sentinels)/2 && replication(server)["role"] == "master" {
			return server
		}
	}
	return nil
}

// replication is what a server says of its replication; empty when it does not answer.
func replication(server *redistest.Server) map[string]string {
	c := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	all, err := c.InfoMap(ctx, "replication").Result()
	if err != nil {
		return nil
	}
	return all["Replication"]
}

// AwaitMaster waits until there is a master that is not old, and gives it.
func (s *Sentinel) AwaitMaster(old *redistest.Server) *redistest.Server {
	s.tb.Helper()
	var found *redistest.Server
	await(s.tb, "a replica is promoted", func() error {
		if found = s.Master(); found == nil || found == old {
			return errors.New("none yet")
		}
		return nil
	})
	return found
}

// AwaitReplicas waits until n replicas of the master are in step.
func (s *Sentinel) AwaitReplicas(n int) {
	s.tb.Helper()
	await(s.tb, fmt.Sprintf("%d replicas are in step", n), func() error {
		master := s.Servers[0]
		if len(s.Sentinels) > 0 {
			master = s.Master()
		}
		if master == nil {
			return errors.New("no master")
		}
		said, online := replication(master), 0
		for k, v := range said {
			if strings.HasPrefix(k, "slave") && strings.Contains(v, "state=online") {
				online++
			}
		}
		if online < n {
			return fmt.Errorf("%v", said)
		}
		return nil
	})
}

// Rejoin starts a server that was killed, as a replica of the master, and waits until it is in step.
func (s *Sentinel) Rejoin(server *redistest.Server) {
	s.tb.Helper()
	must(s.tb, "restart", server.Restart())
	master := s.AwaitMaster(server)
	host, port, err := net.SplitHostPort(master.Addr)
	must(s.tb, "address", err)
	must(s.tb, "replicaof", server.Client(s.tb).ReplicaOf(s.tb.Context(), host, port).Err())
	await(s.tb, "the server is in step again", func() error {
		if said := replication(server); said["master_link_status"] != "up" {
			return fmt.Errorf("%v", said)
		}
		return nil
	})
}

// Failover asks a sentinel to promote a replica; [Sentinel.AwaitMaster] waits for it. Sentinels refuse while they think
// that a failover is under way.
func (s *Sentinel) Failover() {
	s.tb.Helper()
	c := redis.NewSentinelClient(&redis.Options{Addr: s.Sentinels[0].Addr})
	defer func() { _ = c.Close() }()
	await(s.tb, "a sentinel begins a failover", func() error { return c.Failover(s.tb.Context(), MasterName).Err() })
}

// Point makes all sentinels forget their master and watch another server in its place, as an operator may do.
func (s *Sentinel) Point(server *redistest.Server) {
	s.tb.Helper()
	host, port, err := net.SplitHostPort(server.Addr)
	must(s.tb, "address", err)
	for _, one := range s.Sentinels {
		c := redis.NewSentinelClient(&redis.Options{Addr: one.Addr})
		must(s.tb, "remove", c.Remove(s.tb.Context(), MasterName).Err())
		must(s.tb, "monitor", c.Monitor(s.tb.Context(), MasterName, host, port, strconv.Itoa(len(s.Sentinels)/2+1)).Err())
		must(s.tb, "close", c.Close())
	}
}
