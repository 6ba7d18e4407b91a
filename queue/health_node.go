package queue

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// node is a Redis that takes writes: the only one, or a master of a cluster.
type node struct {
	client *redis.Client
	addr   string // empty when there is only one
	tag    string // keys with this hash tag live there
}

// probeLife is the TTL of the key that [Queue.Health] writes.
const probeLife = time.Minute

func (n *node) probe() string { return "offstage:probe:{" + n.tag + "}" }

// nodes finds the nodes. The error is one of reaching the cluster.
func (q *Queue) nodes(ctx context.Context) ([]*node, error) {
	cluster, ok := q.rdb.(*redis.ClusterClient)
	if !ok {
		return []*node{{client: q.rdb.(*redis.Client), tag: "0"}}, nil // New has checked the client's type
	}
	var mu sync.Mutex
	found := map[string]*node{}
	err := cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		addr := c.Options().Addr
		found[addr] = &node{client: c, addr: addr}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return placed(ctx, cluster, found), nil
}

// placed finds a hash tag for each node. The client knows the slots, so this asks no node and needs a few tries for each.
// A node that has no slot gets none and is left out: no key can live there.
func placed(ctx context.Context, cluster *redis.ClusterClient, found map[string]*node) []*node {
	const most = 16384
	var nodes []*node
	for i := 0; i < most && len(nodes) < len(found); i++ {
		tag := strconv.Itoa(i)
		c, err := cluster.MasterForKey(ctx, "{"+tag+"}")
		if err != nil {
			continue
		}
		if n := found[c.Options().Addr]; n != nil && n.tag == "" {
			n.tag = tag
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// vitals is what a node says of itself and to a write.
type vitals struct {
	addr string // empty when there is only one

	replication, persistence, memory map[string]string // sections of INFO
	config                           map[string]string // of the append-only file
	infoErr, write                   error
}

// vitals asks all nodes at once.
func (q *Queue) vitals(ctx context.Context) ([]*vitals, error) {
	nodes, err := q.nodes(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]*vitals, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { all[i] = n.vitals(ctx) })
	}
	wg.Wait()
	return all, nil
}

// vitals asks one node, in one exchange. Redis before 7.0 gives one section of INFO at a time and one pattern of CONFIG.
func (n *node) vitals(ctx context.Context) *vitals {
	pipe := n.client.Pipeline()
	replication := pipe.InfoMap(ctx, "replication")
	persistence := pipe.InfoMap(ctx, "persistence")
	memory := pipe.InfoMap(ctx, "memory")
	config := pipe.ConfigGet(ctx, "*append*")
	write := pipe.Set(ctx, n.probe(), 1, probeLife)
	_, err := pipe.Exec(ctx)
	infoErr, writeErr := replication.Err(), write.Err()
	if err != nil && infoErr == nil && replication.Val() == nil {
		infoErr = err // nothing was sent: a refused login leaves the commands without an error
	}
	if err != nil && writeErr == nil && write.Val() != "OK" {
		writeErr = err
	}
	return &vitals{
		addr: n.addr, config: config.Val(), infoErr: infoErr, write: writeErr,
		replication: section(replication, "Replication"), persistence: section(persistence, "Persistence"),
		memory: section(memory, "Memory"),
	}
}

func section(cmd *redis.InfoCmd, name string) map[string]string { return cmd.Val()[name] }

// answered reports whether the node said anything at all.
func (v *vitals) answered() bool { return v.infoErr == nil || isRedisError(v.write) || v.write == nil }

// silent gives the error of the first node that did not answer.
func silent(all []*vitals) error {
	for _, v := range all {
		if !v.answered() {
			return v.write
		}
	}
	return nil
}

// named puts the node's address in front of text when there are several.
func (v *vitals) named(text string) string {
	if v.addr == "" {
		return text
	}
	return "node " + v.addr + ": " + text
}

// checkWrites says whether the node takes writes.
func (v *vitals) checkWrites() Finding {
	const check = "writes"
	if v.write != nil {
		return explain(v.write, v)
	}
	if v.replication["role"] == "slave" { // with replica-read-only no it takes them, until its master overwrites them
		return Finding{Fail, check, v.named("Redis is a replica of " + v.master() + " and loses what is written to it"), masterWayOut}
	}
	return Finding{OK, check, v.named("Redis takes writes"), ""}
}

const masterWayOut = "point redis.url at the master, or at sentinels that know it (redis-sentinel://)"

func (v *vitals) master() string {
	return v.replication["master_host"] + ":" + v.replication["master_port"]
}

// nearlyFull is the part of maxmemory from which on there is a warning, in percent. Redis itself refuses at 100.
const nearlyFull = 90

// checkMemory says whether keys may be thrown away, and whether writes will be refused soon.
func (v *vitals) checkMemory() Finding {
	const check = "memory"
	limit, used := number(v.memory["maxmemory"]), v.used()
	policy := v.memory["maxmemory_policy"]
	switch {
	case policy == "":
		return Finding{Warn, check, v.named("Redis does not tell its memory (INFO memory)"), "grant the user +info"}
	case policy != "noeviction" && limit > 0:
		return Finding{Fail, check, v.named("maxmemory-policy is " + policy + ": when memory is short Redis throws tasks away"),
			"CONFIG SET maxmemory-policy noeviction, and the same in redis.conf"}
	case policy != "noeviction":
		return Finding{Warn, check, v.named("maxmemory-policy is " + policy + ", which throws tasks away once there is a maxmemory"),
			"CONFIG SET maxmemory-policy noeviction, and the same in redis.conf"}
	case limit == 0:
		return Finding{OK, check, v.named(megabytes(used) + " used, no maxmemory, noeviction"), ""}
	case used*100 >= limit*nearlyFull:
		return Finding{Warn, check, v.named(fmt.Sprintf("%s of maxmemory %s used (%d %%): at 100 %% Redis refuses new tasks",
			megabytes(used), megabytes(limit), used*100/limit)), memoryWayOut}
	}
	return Finding{OK, check, v.named(fmt.Sprintf("%s of maxmemory %s used, noeviction", megabytes(used), megabytes(limit))), ""}
}

const memoryWayOut = "raise maxmemory, shorten task.retention, or delete ended tasks"

// used is what Redis holds against maxmemory.
func (v *vitals) used() int64 {
	return max(number(v.memory["used_memory"])-number(v.memory["mem_not_counted_for_evict"]), 0)
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
