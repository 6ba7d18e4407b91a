package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

const rightsWayOut = "ACL SETUSER <user> ~asynq:* ~offstage:* &asynq:* &offstage:* +@all -@dangerous +info +config|get +keys"

// right is a command that offstage or asynq sends, with a key of its kind and the least of arguments.
type right struct {
	cmd  string
	kind string // of the key; empty when there is none
	args []any
	soft bool // without it only an explanation is missing, or the dashboard
}

// neededRights are the commands of our scripts, of asynq's and of package queue. TestDoctor_RightsSuffice runs tasks with
// exactly these and those of serverRights.
func neededRights() []right {
	of := func(kind string, cmds ...string) []right {
		var rs []right
		for _, c := range cmds {
			words := strings.Fields(c)
			r := right{cmd: words[0], kind: kind}
			for _, w := range words[1:] {
				r.args = append(r.args, w)
			}
			rs = append(rs, r)
		}
		return rs
	}
	return slices.Concat(
		of("string", "SET 1", "GET", "APPEND 1", "GETRANGE 0 1", "STRLEN", "PEXPIRE 60000", "EXPIRE 60", "PEXPIREAT 99999999999999",
			"EXPIREAT 9999999999", "PERSIST", "PTTL", "TTL", "EXISTS", "SETEX 60 1", "SETNX 1"),
		of("number", "INCR"),
		of("hash", "HSET f 1", "HGET f", "HMGET f", "HGETALL", "HVALS", "HEXISTS f", "HINCRBY f 1", "HDEL g"),
		of("list", "LPUSH a", "RPUSH b", "LLEN", "LRANGE 0 1", "LINDEX 0", "LPOS a", "LREM 0 b", "RPOP"),
		of("set", "SADD a", "SMEMBERS", "SISMEMBER a", "SREM b"),
		of("zset", "ZADD 1 a", "ZCARD", "ZSCORE a", "ZRANGE 0 1", "ZREVRANGE 0 1", "ZRANGEBYSCORE 0 1", "ZREVRANGEBYSCORE 1 0",
			"ZREM b", "ZREMRANGEBYSCORE 5 6", "ZREMRANGEBYRANK 5 6"),
		of("stream", "XADD * f 1", "XRANGE - +"),
		of("string", "DEL"),
	)
}

// serverRights are the commands without a key of ours; scripts do not try them.
func serverRights(key string) []right {
	return []right{
		{cmd: "EVAL", args: []any{"return 1", 1, key}},
		{cmd: "EVALSHA", args: []any{"e0e1f9fabfc9d4800c877a703b823ac0578ff8db", 1, key}},
		{cmd: "PING"}, {cmd: "TIME"}, {cmd: "MULTI"}, {cmd: "EXEC"},
		{cmd: "SUBSCRIBE", args: []any{"asynq:cancel"}}, {cmd: "PUBLISH", args: []any{"asynq:cancel", "x"}},
		{cmd: "SUBSCRIBE", args: []any{"offstage:cancel"}}, {cmd: "PUBLISH", args: []any{"offstage:cancel", "x"}},
		{cmd: "INFO", args: []any{"memory"}, soft: true}, {cmd: "CONFIG", args: []any{"GET", "*append*"}, soft: true},
		{cmd: "MEMORY", args: []any{"USAGE", key}, soft: true}, {cmd: "KEYS", args: []any{"asynq:*"}, soft: true},
	}
}

// keyOf names a throwaway key on the node: of a prefix and a kind.
func (n *node) keyOf(prefix, kind string) string { return prefix + ":doctor:{" + n.tag + "}:" + kind }

// rights finds out what the user may do. ACL DRYRUN (7.0) tells without doing it. Where that is not there, or not
// allowed, a script does each command on throwaway keys and removes them.
func (d *doctor) rights(ctx context.Context, n *node, v *vitals) {
	user, missing, err := n.dryRun(ctx, d.want.WaitReplicas > 0)
	if err != nil {
		user = "this user"
		if missing, err = n.reallyRun(ctx); err != nil {
			d.untold("rights", err)
			return
		}
	}
	hard, soft := missing[false], missing[true]
	switch {
	case len(hard) > 0:
		d.add(Fail, "rights", v.named(user+" may not: "+shorten(hard)), rightsWayOut)
	case len(soft) > 0:
		d.add(Warn, "rights", v.named(user+" may not: "+shorten(soft)+"; health and dashboard know less"), rightsWayOut)
	default:
		d.add(OK, "rights", v.named(user+" may do all that is needed"), "")
	}
}

// denied is the commands that are not allowed, by whether offstage can do without them.
type denied map[bool][]string

func (m denied) add(r right, what string) {
	if !slices.Contains(m[r.soft], what) {
		m[r.soft] = append(m[r.soft], what)
	}
}

// shorten keeps a list readable.
func shorten(list []string) string {
	const most = 12
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}

func (n *node) dryRun(ctx context.Context, wait bool) (user string, missing denied, err error) {
	name, err := n.client.ACLWhoAmI(ctx).Result()
	if err != nil {
		return "", nil, err
	}
	type asked struct {
		right
		what string
		cmd  *redis.StringCmd
	}
	var all []asked
	pipe := n.client.Pipeline()
	for _, prefix := range []string{"asynq", "offstage"} {
		for _, r := range neededRights() {
			command := append([]any{r.cmd, n.keyOf(prefix, r.kind)}, r.args...)
			all = append(all, asked{r, r.cmd + " " + prefix + ":*", pipe.ACLDryRun(ctx, name, command...)})
		}
	}
	server := serverRights(n.keyOf("asynq", "string"))
	if wait {
		server = append(server, right{cmd: "WAIT", args: []any{0, 0}})
	}
	for _, r := range server {
		all = append(all, asked{r, r.name(), pipe.ACLDryRun(ctx, name, append([]any{r.cmd}, r.args...)...)})
	}
	if _, err := pipe.Exec(ctx); err != nil { // a denial is a reply, not an error
		return "", nil, err
	}
	missing = denied{}
	for _, a := range all {
		if a.cmd.Val() != "OK" {
			missing.add(a.right, a.what)
		}
	}
	return fmt.Sprintf("user %q", name), missing, nil
}

// name is a command of serverRights as an operator would grant it.
func (r right) name() string {
	switch r.cmd {
	case "CONFIG", "MEMORY", "SUBSCRIBE", "PUBLISH":
		return fmt.Sprint(r.cmd, " ", r.args[0])
	}
	return r.cmd
}

// dryScript does commands and tells which were not allowed.
// KEYS  throwaway keys   ARGV 1 commands (JSON)
// Returns the numbers, from 1, of those that were refused for want of rights.
var dryScript = redis.NewScript(`
local missing = {}
for i, command in ipairs(cjson.decode(ARGV[1])) do
  local reply = redis.pcall(unpack(command))
  local err = type(reply) == 'table' and reply.err or ''
  local refused = string.find(err, 'NOPERM') or string.find(err, 'ACL failure') or string.find(err, 'executing the script can')
  missing[#missing + 1] = refused and i or nil
end
for _, key in ipairs(KEYS) do redis.pcall('PEXPIRE', key, 60000) end
redis.pcall('DEL', unpack(KEYS))
return missing`)

// reallyRun tries the commands with keys. Whether PUBLISH and SUBSCRIBE are allowed it does not tell.
func (n *node) reallyRun(ctx context.Context) (denied, error) {
	var keys []string
	var commands [][]any
	var all []right
	missing := denied{}
	for _, prefix := range []string{"asynq", "offstage"} {
		for _, r := range neededRights() {
			key := n.keyOf(prefix, r.kind)
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
			commands = append(commands, append([]any{r.cmd, key}, r.args...))
			r.args = []any{prefix}
			all = append(all, r)
		}
	}
	list, err := json.Marshal(commands)
	if err != nil {
		return nil, err
	}
	refused, err := dryScript.Run(ctx, n.client, keys, list).Int64Slice()
	if redis.HasErrorPrefix(err, "NOPERM") {
		missing.add(right{}, "EVAL, or asynq:* and offstage:* at all ("+err.Error()+")")
		return missing, nil
	}
	if err != nil {
		return nil, err
	}
	for _, i := range refused {
		missing.add(all[i-1], fmt.Sprintf("%s %v:*", all[i-1].cmd, all[i-1].args[0]))
	}
	for _, r := range []right{{cmd: "INFO", soft: true}, {cmd: "CONFIG", args: []any{"GET", "appendonly"}, soft: true}} {
		if err := n.client.Do(ctx, append([]any{r.cmd}, r.args...)...).Err(); redis.HasErrorPrefix(err, "NOPERM") {
			missing.add(r, r.name())
		}
	}
	return missing, nil
}
