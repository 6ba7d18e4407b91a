package bridge_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/internal/redistest"
	"offstage/queue/bridge"
	"offstage/tasks"
)

// scriptCall is a call of one of our scripts that would change something.
type scriptCall struct {
	name string
	call func(f *fixture, s *scene) error
	// inMemoryNeed: the script works although Redis is out of memory, for it makes room, or keeps order meanwhile.
	inMemoryNeed bool
}

// scene is a queue in which every script has something to do.
type scene struct {
	ids     map[tasks.Status]string
	running *bridge.Attempt // by a worker that is silent
	fresh   *bridge.Creation
}

func newScene(f *fixture) *scene {
	f.t.Helper()
	s := &scene{ids: f.inEach()}
	over := func(c *bridge.Creation) { c.Retention = time.Millisecond }
	a := f.takeAll("silent", 1)[0] // the pending one
	s.running, s.ids[tasks.Pending] = a, f.create()
	f.create(func(c *bridge.Creation) { c.Delay = time.Millisecond })
	gone := f.create(over)
	f.cancel(gone)
	s.fresh = f.creation(func(c *bridge.Creation) { c.Hold = true })
	if err := f.enqueue(s.fresh); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.store.Beat(f.ctx(), f.queue, worker, json.RawMessage(`{}`), life, nil); err != nil {
		f.t.Fatal(err)
	}
	time.Sleep(5 * time.Millisecond)
	return s
}

func scriptCalls() []scriptCall {
	end := func(outcome bridge.Outcome) func(*fixture, *scene) error {
		return func(f *fixture, s *scene) error {
			e := bridge.End{Outcome: outcome, Output: "x", Result: json.RawMessage(`1`)}
			if outcome == bridge.Failed || outcome == bridge.Retry {
				e.Error = boom()
			}
			return none(f.store.End(f.ctx(), s.running, e))
		}
	}
	cancel := func(status tasks.Status) func(*fixture, *scene) error {
		return func(f *fixture, s *scene) error {
			_, _, err := f.store.Cancel(f.ctx(), s.ids[status], "", "tester", "")
			return err
		}
	}
	return []scriptCall{
		{"create", func(f *fixture, s *scene) error { return f.store.Create(f.ctx(), s.fresh) }, false},
		{"take", func(f *fixture, _ *scene) error { _, _, err := f.store.Take(f.ctx(), f.queue, worker, 1); return err }, true},
		{"end completed", end(bridge.Completed), true},
		{"end failed", end(bridge.Failed), true},
		{"end retry", end(bridge.Retry), true},
		{"end release", end(bridge.Release), true},
		{"cancel pending", cancel(tasks.Pending), true},
		{"cancel scheduled", cancel(tasks.Scheduled), true},
		{"cancel running", cancel(tasks.Running), true},
		{"rerun", func(f *fixture, s *scene) error { return f.store.Rerun(f.ctx(), s.ids[tasks.Failed], "", false) }, false},
		{"delete", func(f *fixture, s *scene) error { return f.store.Delete(f.ctx(), s.ids[tasks.Completed], "") }, true},
		{"delete, entry left", func(f *fixture, s *scene) error { return f.store.Delete(f.ctx(), s.ids[tasks.Cancelled], "") }, true},
		{"purge", func(f *fixture, _ *scene) error { return none(f.store.Purge(f.ctx(), f.queue)) }, true},
		{"forward", func(f *fixture, _ *scene) error { return none(f.store.Forward(f.ctx(), f.queue)) }, true},
		{"progress", func(f *fixture, s *scene) error { return f.store.WriteProgress(f.ctx(), s.running, 0.5) }, false},
		{"event", func(f *fixture, s *scene) error { return f.store.WriteEvent(f.ctx(), s.running, "x", nil) }, false},
		{"output", func(f *fixture, s *scene) error { return f.store.WriteOutput(f.ctx(), s.running, "text", 0) }, false},
		{"beat", func(f *fixture, _ *scene) error {
			return none(f.store.Beat(f.ctx(), f.queue, worker, json.RawMessage(`{"new":1}`), life, nil))
		}, true},
		{"leave", func(f *fixture, _ *scene) error { return f.store.Leave(f.ctx(), f.queue, worker) }, true},
		{"takeover", func(f *fixture, _ *scene) error { return none(f.store.Takeover(f.ctx(), f.queue, life, 3)) }, true},
	}
}

// A script that Redis refuses has changed nothing: the refusal comes with its first write, for scripts are not rolled
// back. Out of memory, those that make room work nevertheless, to their end.
func TestStore_Refused(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t) // its settings are this test's own
	for _, trouble := range []struct{ name, key, bad, good, reason string }{
		{"no replicas", "min-replicas-to-write", "1", "0", bridge.ReasonUnavailable},
		{"out of memory", "maxmemory", "1", "0", bridge.ReasonOOM},
	} {
		for _, tc := range scriptCalls() {
			t.Run(trouble.name+"/"+tc.name, func(t *testing.T) { // one after the other
				f := newFixture(t, own.FreshDB(t))
				s := newScene(f)
				if tc.name == "create" { // known to Redis, not to lose its first write to NOSCRIPT
					f.create()
				}
				before := f.dump()
				check(t, own.ConfigSet(trouble.key, trouble.bad))
				err := tc.call(f, s)
				check(t, own.ConfigSet(trouble.key, trouble.good))
				if tc.inMemoryNeed && trouble.reason == bridge.ReasonOOM {
					if err != nil {
						t.Errorf("it is refused: %v", err)
					}
					f.check()
					return
				}
				if op := (*bridge.OpError)(nil); !errors.As(err, &op) || op.Reason != trouble.reason {
					t.Errorf("error = %v, want reason %s", err, trouble.reason)
				}
				if d := cmp.Diff(before, f.dump()); d != "" {
					t.Errorf("it was refused and changed (-before +after):\n%s", d)
				}
				if err := tc.call(f, s); err != nil {
					t.Errorf("once it is healed: %v", err)
				}
				f.check()
			})
		}
	}
}

// dump is all that Redis holds, readable.
func (f *fixture) dump() map[string]string {
	f.t.Helper()
	all := map[string]string{}
	for _, key := range f.rdb.Keys(f.ctx(), "*").Val() {
		if key == "offstage:{low}:reconcile" { // gone in a moment
			continue
		}
		var v any
		var err error
		switch kind := f.rdb.Type(f.ctx(), key).Val(); kind {
		case "hash":
			var m map[string]string
			m, err = f.rdb.HGetAll(f.ctx(), key).Result()
			for _, k := range slices.Sorted(maps.Keys(m)) {
				all[key+" "+k] = m[k]
			}
		case "list":
			v, err = f.rdb.LRange(f.ctx(), key, 0, -1).Result()
		case "set":
			v, err = f.rdb.SMembers(f.ctx(), key).Result()
		case "zset":
			v, err = f.rdb.ZRangeWithScores(f.ctx(), key, 0, -1).Result()
		case "stream":
			v, err = f.rdb.XRange(f.ctx(), key, "-", "+").Result()
		default:
			v, err = f.rdb.Get(f.ctx(), key).Result()
		}
		check(f.t, err)
		all[key] = fmt.Sprint(v)
	}
	return all
}
