package queue

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
)

// explain turns the error of a write into a sentence that says what state Redis is in, and the way out.
func explain(err error, v *vitals) Finding {
	what, out := refusal(err, v)
	return Finding{Fail, "writes", v.named(what), out}
}

// refusal tells Redis' error codes apart.
func refusal(err error, v *vitals) (what, wayOut string) {
	switch {
	case !isRedisError(err):
		return silence(err)
	case redis.HasErrorPrefix(err, "LOADING"):
		return "Redis is loading its data after a start", "wait: it becomes ready by itself"
	case redis.HasErrorPrefix(err, "READONLY"):
		return "Redis is a replica of " + v.master() + " and refuses writes", masterWayOut
	case redis.HasErrorPrefix(err, "MISCONF"):
		return "Redis cannot write to its disk and refuses writes (" + v.disk() + ")",
			"look into Redis' log; free space on its disk, or give it the rights to its folder"
	case redis.HasErrorPrefix(err, "OOM"):
		return fmt.Sprintf("Redis is out of memory and refuses new tasks (%s of maxmemory %s used, %s)", megabytes(v.used()),
			megabytes(number(v.memory["maxmemory"])), v.memory["maxmemory_policy"]), memoryWayOut
	case redis.HasErrorPrefix(err, "NOREPLICAS"):
		return fmt.Sprintf("Redis has %d good replicas, less than min-replicas-to-write, and refuses writes",
			number(v.replication["min_slaves_good_slaves"])), "bring the replicas back, or lower min-replicas-to-write"
	case redis.HasErrorPrefix(err, "BUSY"):
		return "Redis is busy with a script and answers nobody", `wait, or end the script with "redis-cli SCRIPT KILL"`
	case redis.HasErrorPrefix(err, "MASTERDOWN"):
		return "Redis is a replica that has lost its master " + v.master(), masterWayOut
	case redis.HasErrorPrefix(err, "CLUSTERDOWN"):
		return "the cluster is down: " + err.Error(), `look at "redis-cli --cluster check"; start the nodes that are missing`
	case redis.HasErrorPrefix(err, "MOVED"), redis.HasErrorPrefix(err, "CROSSSLOT"):
		return "Redis is a node of a cluster: " + err.Error(), "write redis.url as redis-cluster://"
	case loginRefused(err):
		return "Redis refuses the login: " + err.Error(), "check user and password in redis.url"
	case redis.HasErrorPrefix(err, "NOPERM"):
		return "the user of redis.url may not do what offstage needs: " + err.Error(), rightsWayOut
	}
	return "Redis refuses a write: " + err.Error(), "look into Redis' log"
}

func loginRefused(err error) bool {
	return redis.HasErrorPrefix(err, "NOAUTH") || redis.HasErrorPrefix(err, "WRONGPASS")
}

// disk says which write failed last.
func (v *vitals) disk() string {
	if v.persistence["aof_last_write_status"] == "err" {
		return "the last write of the append-only file failed"
	}
	return "the last snapshot failed, and stop-writes-on-bgsave-error is yes"
}

// silence explains an error that is not Redis'.
func silence(err error) (what, wayOut string) {
	netErr, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, redis.ErrPoolTimeout):
		return "all connections to Redis are in use", "raise the size of the pool"
	case errors.Is(err, context.Canceled):
		return "nobody waited for Redis' answer", ""
	case errors.Is(err, context.DeadlineExceeded), isNet && netErr.Timeout():
		return "Redis does not answer in time", "look at its process and at the network: it hangs, or a command takes long (SLOWLOG GET)"
	}
	return "Redis cannot be reached: " + err.Error(), "check redis.url, and that Redis runs"
}

func isRedisError(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}
