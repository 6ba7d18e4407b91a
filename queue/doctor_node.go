package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// node examines one Redis.
func (d *doctor) node(ctx context.Context, n *node) {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	v := n.vitals(ctx)
	d.found = append(d.found, v.checkWrites())
	if !v.answered() {
		return
	}
	server := n.client.InfoMap(ctx, "server").Val()["Server"]
	stats := n.client.InfoMap(ctx, "stats").Val()["Stats"]
	cluster := n.client.InfoMap(ctx, "cluster").Val()["Cluster"]
	d.found = append(d.found, v.checkVersion(server), d.checkDurability(v), v.checkMemory(), v.checkEvicted(stats), d.checkReplicas(v))
	if cluster["cluster_enabled"] == "1" && n.addr == "" {
		d.add(Fail, "cluster", "Redis is a node of a cluster, and redis.url is not one of a cluster", "write redis.url as redis-cluster://")
	}
	d.clock(ctx, n, v)
	d.latency(ctx, n, v)
	d.rights(ctx, n, v)
}

// checkVersion: 6.2 has all commands that are used; before 7.0 a cluster and the ACLs of scripts were weaker.
func (v *vitals) checkVersion(server map[string]string) Finding {
	const check = "version"
	version := server["redis_version"]
	major, minor := versionOf(version)
	switch {
	case version == "":
		return Finding{Warn, check, v.named("Redis does not tell its version (INFO server)"), "grant the user +info"}
	case major < 6 || major == 6 && minor < 2:
		return Finding{Fail, check, v.named("Redis " + version + " is too old"), "use 6.2 at least, better 7.0 or later"}
	case major < 7:
		return Finding{Warn, check, v.named("Redis " + version + " works, and gets no more fixes"), "use 7.0 or later"}
	}
	return Finding{OK, check, v.named("Redis " + version), ""}
}

func versionOf(s string) (major, minor int) {
	first, rest, _ := strings.Cut(s, ".")
	second, _, _ := strings.Cut(rest, ".")
	major, _ = strconv.Atoi(first)
	minor, _ = strconv.Atoi(second)
	return major, minor
}

func (d *doctor) checkDurability(v *vitals) Finding {
	const check = "durability"
	now := v.durability()
	text := fmt.Sprintf("%s (%s): %s", now.Durability, now.why, now.loses())
	switch {
	case !now.AtLeast(d.want.RequireDurability):
		e := &DurabilityError{d.want.RequireDurability, now.Durability, now.why}
		return Finding{Fail, check, fmt.Sprintf("%s, and redis.require_durability is %s", text, e.Required), e.wayOut()}
	case now.Durability == DurabilityNone:
		return Finding{Warn, check, text, durabilityWayOut(DurabilityEverySec)}
	case now.Durability == DurabilityUnknown:
		return Finding{Warn, check, text, configWayOut}
	}
	return Finding{OK, check, text, ""}
}

// checkEvicted looks for keys that are gone already.
func (v *vitals) checkEvicted(stats map[string]string) Finding {
	const check = "evictions"
	switch n := number(stats["evicted_keys"]); {
	case stats == nil:
		return Finding{Warn, check, v.named("Redis does not tell its statistics (INFO stats)"), "grant the user +info"}
	case n > 0:
		return Finding{Fail, check, v.named(fmt.Sprintf("Redis has thrown %d keys away for want of memory: tasks may be among them", n)),
			`set maxmemory-policy noeviction; look for what is missing in "orphans"; CONFIG RESETSTAT clears the count`}
	}
	return Finding{OK, check, v.named("no key was ever evicted"), ""}
}

// checkReplicas compares the replicas with what Redis and the configuration ask for.
func (d *doctor) checkReplicas(v *vitals) Finding {
	const check = "replicas"
	n := number(v.replication["connected_slaves"])
	good, asked := v.replication["min_slaves_good_slaves"] // there when min-replicas-to-write is set
	text := fmt.Sprintf("%d connected", n)
	switch {
	case v.replication["role"] == "slave":
		text = "role replica of " + v.master() + ", link " + v.replication["master_link_status"]
		return Finding{Fail, check, v.named(text), masterWayOut}
	case n < int64(d.want.WaitReplicas):
		return Finding{Fail, check, v.named(fmt.Sprintf("%s, and redis.wait_replicas is %d", text, d.want.WaitReplicas)),
			"connect replicas, or lower redis.wait_replicas"}
	case redis.IsNoReplicasError(v.write):
		return Finding{Fail, check, v.named(text + ", " + good + " of them good enough for min-replicas-to-write"),
			"bring the replicas back, or lower min-replicas-to-write"}
	case asked:
		text += ", " + good + " of them good; min-replicas-to-write is met"
	}
	return Finding{OK, check, v.named("role master, " + text), ""}
}

// maxSkew is how far this machine's clock may be from Redis' without a word.
const maxSkew = time.Second

// clock compares the clocks. Redis' decides; this machine's shows in ids, logs and what run_at a caller computes.
func (d *doctor) clock(ctx context.Context, n *node, v *vitals) {
	before := time.Now()
	theirs, err := n.client.Time(ctx).Result()
	after := time.Now()
	if err != nil {
		d.untold("clock", err)
		return
	}
	skew := theirs.Sub(before.Add(after.Sub(before) / 2)).Round(time.Millisecond)
	d.found = append(d.found, v.checkClock(skew))
}

func (v *vitals) checkClock(skew time.Duration) Finding {
	if skew.Abs() > maxSkew {
		direction := "ahead of"
		if skew < 0 {
			direction = "behind"
		}
		return Finding{Warn, "clock", v.named(fmt.Sprintf("Redis' clock is %v %s this machine's", skew.Abs(), direction)),
			"let both run NTP (chrony, systemd-timesyncd)"}
	}
	return Finding{OK, "clock", v.named(fmt.Sprintf("%v from Redis' clock", skew.Abs())), ""}
}

const (
	pings       = 20
	slowLatency = 10 * time.Millisecond
)

// latency is the median of some pings: every enqueue and every batch of ends waits for one.
func (d *doctor) latency(ctx context.Context, n *node, v *vitals) {
	took := make([]time.Duration, 0, pings)
	for range pings {
		began := time.Now()
		if err := n.client.Ping(ctx).Err(); err != nil {
			d.untold("latency", err)
			return
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	median := took[pings/2].Round(time.Microsecond)
	text := v.named(fmt.Sprintf("median of %d round trips %v, slowest %v", pings, median, took[pings-1].Round(time.Microsecond)))
	if median > slowLatency {
		d.add(Warn, "latency", text, "bring daemon and Redis closer together; look at SLOWLOG GET and at the host's load")
		return
	}
	d.add(OK, "latency", text, "")
}

// cluster looks at a cluster as a whole.
func (d *doctor) cluster(ctx context.Context) error {
	c, ok := d.q.rdb.(*redis.ClusterClient)
	if !ok {
		return nil
	}
	text, err := c.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[key] = value
	}
	if failed := number(info["cluster_slots_fail"]) + number(info["cluster_slots_pfail"]); info["cluster_state"] != "ok" || failed > 0 {
		d.add(Fail, "cluster", fmt.Sprintf("state %s, %s of 16384 slots served, %d failing", info["cluster_state"],
			info["cluster_slots_ok"], failed), `look at "redis-cli --cluster check"; start the nodes that are missing`)
		return nil
	}
	d.add(OK, "cluster", "state ok, "+info["cluster_size"]+" masters", "")
	return nil
}
