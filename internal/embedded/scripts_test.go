package embedded_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What offstage's scripts build on, with the answer that Redis 7.0 gives.
func TestServer_Scripts(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	for _, tc := range []struct {
		name, script string
		want         any
	}{
		{"TIME", `local t = redis.call('TIME'); return {type(t[1]), type(t[2]), #t}`, []any{"string", "string", int64(2)}},
		{"milliseconds stay exact", `redis.call('HSET', KEYS[1], 'n', 1732100000123); return redis.call('HGET', KEYS[1], 'n')`, "1732100000123"},
		{"milliseconds in text", `return 1732100000123 .. ''`, "1732100000123"},
		{"missing field", `return type(redis.call('HGET', KEYS[1], 'none'))`, "boolean"},
		{"missing fields", `local a, b = unpack(redis.call('HMGET', KEYS[1], 'x', 'y')); return {type(a), type(b)}`, []any{"boolean", "boolean"}},
		{"HINCRBY", `return redis.call('HINCRBY', KEYS[1], 'c', 5)`, int64(5)},
		{"XADD with an id", `return redis.call('XADD', KEYS[1], 'MAXLEN', '~', 10000, '7-0', 'k', 'v')`, "7-0"},
		{"XADD in the past", `redis.call('XADD', KEYS[1], '7-0', 'k', 'v'); return redis.pcall('XADD', KEYS[1], '7-0', 'k', 'v').err`,
			"ERR The ID specified in XADD is equal or smaller than the target stream top item"},
		{"ZADD and ranges", `redis.call('ZADD', KEYS[1], 3, 'c', 1, 'a', 2, 'b'); return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', 2, 'LIMIT', 0, 10)`,
			[]any{"a", "b"}},
		{"ZADD GT and CH", `redis.call('ZADD', KEYS[1], 3, 'c'); return redis.call('ZADD', KEYS[1], 'GT', 'CH', 5, 'c')`, int64(1)},
		{"lists", `redis.call('LPUSH', KEYS[1], 'a', 'b', 'c'); return {redis.call('RPOP', KEYS[1]), redis.call('LMOVE', KEYS[1], KEYS[1], 'RIGHT', 'RIGHT')}`,
			[]any{"a", "b"}},
		{"several from a list", `redis.call('LPUSH', KEYS[1], 'a', 'b', 'c'); return redis.call('RPOP', KEYS[1], 2)`, []any{"a", "b"}},
		{"TTL", `redis.call('SET', KEYS[1], 'v'); redis.call('PEXPIRE', KEYS[1], 60000); return redis.call('PTTL', KEYS[1]) > 50000`, int64(1)},
		{"SET NX PX", `return {redis.call('SET', KEYS[1], 'v', 'NX', 'PX', 60000).ok, redis.call('SET', KEYS[1], 'v', 'NX')}`, []any{"OK", nil}},
		{"bytes", `redis.call('SET', KEYS[1], string.char(0, 255, 13, 10)); return {#redis.call('GET', KEYS[1]), string.byte(redis.call('GET', KEYS[1]), 2)}`,
			[]any{int64(4), int64(255)}},
		{"tail of a text", `redis.call('APPEND', KEYS[1], 'hello'); return redis.call('GETRANGE', KEYS[1], -3, -1)`, "llo"},
		{"cjson both ways", `return cjson.encode(cjson.decode('{"n":1732100000123}'))`, `{"n":1732100000123}`},
		{"large unpack", `local t = {}; for i = 1, 4000 do t[i] = i end; return redis.call('RPUSH', KEYS[1], unpack(t))`, int64(4000)},
		{"a hole ends a reply", `return {1, nil, 2}`, []any{int64(1)}},
		{"numbers are cut", `return 3.99`, int64(3)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := c.Eval(t.Context(), tc.script, []string{"{q}:" + t.Name()}).Result()
			if err != nil {
				t.Fatalf("%s: %v", tc.script, err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.script, d)
			}
		})
	}
}

// A refusal keeps its code, which is how callers tell them apart.
func TestServer_ScriptErrors(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	for script, want := range map[string]string{
		`return redis.error_reply('STALE epoch 3')`: "STALE epoch 3",
		`return {err = 'STALE epoch 3'}`:            "STALE epoch 3",
		`return redis.pcall('LPUSH', KEYS[1], 'v')`: "WRONGTYPE Operation against a key holding the wrong kind of value",
	} {
		if err := c.Set(t.Context(), "text", "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.Eval(t.Context(), script, []string{"text"}).Err(); err == nil || err.Error() != want {
			t.Errorf("%s = %v, want %s", script, err, want)
		}
	}
	err := c.EvalSha(t.Context(), strings.Repeat("0", 40), nil).Err()
	if err == nil || !strings.HasPrefix(err.Error(), "NOSCRIPT") {
		t.Errorf("EVALSHA of an unknown script = %v, want NOSCRIPT", err)
	}
}

// Known differences to Redis. A release of miniredis that closes one makes this fail: then take it off the list.
func TestServer_ScriptDifferences(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	for script, want := range map[string]any{
		`return cjson.encode({})`:                  "[]",               // Redis: {}
		`return tostring(cjson.null)`:              "nil",              // Redis: userdata
		`return type(rawget(_G, 'cmsgpack'))`:      "nil",              // Redis: table; struct and bit likewise
		`return select('#', cjson.decode('{bad'))`: int64(2),           // Redis: raises an error
		`return 1732100000123456 .. ''`:            "1732100000123456", // Redis: 1.7321000001235e+15
		`return #cjson.decode('[1,null,3]')`:       int64(2),           // Redis: 3
	} {
		if got, err := c.Eval(t.Context(), script, nil).Result(); err != nil || got != want {
			t.Errorf("%s = %v, %v, want %v", script, got, err, want)
		}
	}
	for _, script := range []string{"#!lua\nreturn 1", "#!lua flags=allow-oom\nreturn 1"} {
		if err := c.Eval(t.Context(), script, nil).Err(); err == nil {
			t.Errorf("%q runs, want a syntax error", script)
		}
	}
}
