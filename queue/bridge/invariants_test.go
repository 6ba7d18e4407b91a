package bridge_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"offstage/tasks"
)

// checkQueue fails the test when anything that Redis holds of a queue contradicts something else: records, counters
// and indexes with each other, records with asynq's keys, and both with what asynq's tools show. Nothing may be
// writing meanwhile.
func checkQueue(t *testing.T, rdb *redis.Client, inspector *asynq.Inspector, queue string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	s, err := loadQueue(ctx, rdb, queue)
	if err != nil {
		t.Fatalf("read queue %s: %v", queue, err)
	}
	s.checkAll(ctx, rdb, inspector)
	for i, fault := range s.faults {
		if i == 20 {
			t.Errorf("... and %d more", len(s.faults)-i)
			break
		}
		t.Errorf("queue %s: %s", queue, fault)
	}
}

func (s *snapshot) checkAll(ctx context.Context, rdb *redis.Client, inspector *asynq.Inspector) {
	for _, id := range slices.Sorted(maps.Keys(s.records)) {
		s.checkRecord(id)
		s.checkPlace(id)
		s.checkEvents(ctx, rdb, id)
		s.checkLives(ctx, rdb, id)
	}
	s.checkSets()
	s.checkNumbers()
	s.checkAsynq()
	s.checkKeys(ctx, rdb)
	s.checkTools(inspector)
}

// snapshot is all of a queue.
type snapshot struct {
	queue    string
	now      time.Time
	records  map[string]map[string]string // by asynq's id
	messages map[string]map[string]string // asynq's hashes, by id
	keys     []string                     // all keys under both prefixes

	counts, seq                    map[string]string
	live, expiry, due, index       map[string]float64
	owners                         map[string]map[string]float64 // index:<owner>
	pending, active                []string
	lease, scheduled, retry        map[string]float64
	archived, completed, groupsets map[string]float64

	faults []string
}

func (s *snapshot) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

func (s *snapshot) ours() string  { return "offstage:{" + s.queue + "}:" }
func (s *snapshot) asynq() string { return "asynq:{" + s.queue + "}:" }

func loadQueue(ctx context.Context, rdb *redis.Client, queue string) (*snapshot, error) {
	s := &snapshot{queue: queue, owners: map[string]map[string]float64{}}
	var err error
	if s.now, err = rdb.Time(ctx).Result(); err != nil {
		return nil, err
	}
	for iter := rdb.Scan(ctx, 0, "*", 1000).Iterator(); iter.Next(ctx); {
		if key := iter.Val(); strings.HasPrefix(key, s.ours()) || strings.HasPrefix(key, s.asynq()) {
			s.keys = append(s.keys, key)
		}
	}
	slices.Sort(s.keys)
	s.keys = slices.Compact(s.keys)
	if s.records, err = s.hashes(ctx, rdb, s.ours()+"t:"); err != nil {
		return nil, err
	}
	if s.messages, err = s.hashes(ctx, rdb, s.asynq()+"t:"); err != nil {
		return nil, err
	}
	s.counts, s.seq = rdb.HGetAll(ctx, s.ours()+"counts").Val(), rdb.HGetAll(ctx, s.ours()+"seq").Val()
	s.pending = rdb.LRange(ctx, s.asynq()+"pending", 0, -1).Val()
	s.active = rdb.LRange(ctx, s.asynq()+"active", 0, -1).Val()
	for key, set := range map[string]*map[string]float64{
		s.ours() + "live": &s.live, s.ours() + "expiry": &s.expiry, s.ours() + "due": &s.due, s.ours() + "index": &s.index,
		s.asynq() + "lease": &s.lease, s.asynq() + "scheduled": &s.scheduled, s.asynq() + "retry": &s.retry,
		s.asynq() + "archived": &s.archived, s.asynq() + "completed": &s.completed,
	} {
		if *set, err = sortedSet(ctx, rdb, key); err != nil {
			return nil, err
		}
	}
	return s, s.loadFamilies(ctx, rdb)
}

// loadFamilies reads the sets of which there are many.
func (s *snapshot) loadFamilies(ctx context.Context, rdb *redis.Client) error {
	s.groupsets = map[string]float64{}
	for _, key := range s.keys {
		owner, ours := strings.CutPrefix(key, s.ours()+"index:")
		if !ours && !strings.HasPrefix(key, s.asynq()+"g:") {
			continue
		}
		set, err := sortedSet(ctx, rdb, key)
		if err != nil {
			return err
		}
		if ours {
			s.owners[owner] = set
		} else {
			maps.Copy(s.groupsets, set)
		}
	}
	return nil
}

func (s *snapshot) hashes(ctx context.Context, rdb *redis.Client, prefix string) (map[string]map[string]string, error) {
	pipe := rdb.Pipeline()
	cmds := map[string]*redis.MapStringStringCmd{}
	for _, key := range s.keys {
		if id, ok := strings.CutPrefix(key, prefix); ok {
			cmds[id] = pipe.HGetAll(ctx, key)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	all := map[string]map[string]string{}
	for id, cmd := range cmds {
		all[id] = cmd.Val()
	}
	return all, nil
}

func sortedSet(ctx context.Context, rdb *redis.Client, key string) (map[string]float64, error) {
	zs, err := rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
	set := make(map[string]float64, len(zs))
	for _, z := range zs {
		set[z.Member.(string)] = z.Score
	}
	return set, err
}

// number reads a field that must be a whole number.
func (s *snapshot) number(id, field string) int64 {
	n, err := strconv.ParseInt(s.records[id][field], 10, 64)
	if err != nil {
		s.fault("record %s: %s is %q, want a whole number", id, field, s.records[id][field])
	}
	return n
}

func (s *snapshot) status(id string) tasks.Status { return tasks.Status(s.records[id]["status"]) }

// checkRecord checks a record by itself.
func (s *snapshot) checkRecord(id string) {
	r := s.records[id]
	status := s.status(id)
	if !slices.Contains(tasks.Statuses(), status) {
		s.fault("record %s: status is %q", id, status)
	}
	for _, field := range []string{"owner", "spec"} {
		if r[field] == "" {
			s.fault("record %s: no %s", id, field)
		}
	}
	for _, field := range []string{"keep", "n", "created", "due", "seq", "version", "mlen"} {
		s.number(id, field)
	}
	if r["attempt"] != "" && s.number(id, "epoch") < s.number(id, "attempt") {
		s.fault("record %s: epoch %s, attempt %s", id, r["epoch"], r["attempt"])
	}
	if r["ended"] != "" && s.number(id, "ended") > s.number(id, "epoch") {
		s.fault("record %s: ended epoch %s, current %s", id, r["ended"], r["epoch"])
	}
	if status == tasks.Running && (r["worker"] == "" || r["started"] == "" || r["epoch"] == "") {
		s.fault("record %s runs without worker, start or epoch: %v", id, r)
	}
	if (status == tasks.Failed) != (r["error"] != "") {
		s.fault("record %s: %s with error %q", id, status, r["error"])
	}
	if status.Terminal() {
		if got, want := s.number(id, "expires"), s.number(id, "done")+s.number(id, "keep"); got != want {
			s.fault("record %s: expires %d, want end + retention %d", id, got, want)
		}
	} else if r["done"] != "" || r["expires"] != "" {
		s.fault("record %s: %s but done %q expires %q", id, status, r["done"], r["expires"])
	}
	if status == tasks.Cancelled && r["cancel_at"] == "" {
		s.fault("record %s is cancelled and nobody asked", id)
	}
	if r["cancel_at"] != "" && status != tasks.Cancelled && status != tasks.Running {
		s.fault("record %s: asked to cancel, but %s", id, status)
	}
}

// checkPlace checks that a task is where asynq keeps tasks of its status, and nowhere else.
func (s *snapshot) checkPlace(id string) {
	status := s.status(id)
	msg, there := s.messages[id]
	if !there {
		if status != tasks.Failed {
			s.fault("record %s: %s without asynq's task", id, status)
		}
		return
	}
	if msg["msg"] == "" {
		s.fault("record %s: asynq's task has no message", id)
	}
	if want := asynqState(status).String(); msg["state"] != want {
		s.fault("record %s: %s, but asynq's state is %q", id, status, msg["state"])
	}
	if (status == tasks.Pending) != (msg["pending_since"] != "") {
		s.fault("record %s: %s with pending_since %q", id, status, msg["pending_since"])
	}
	second := func(field string) float64 { return math.Ceil(float64(s.number(id, field)) / 1000) }
	s.member(id, "scheduled", s.scheduled, status == tasks.Scheduled, func() float64 { return second("due") })
	s.member(id, "retry", s.retry, status == tasks.Retrying, func() float64 { return second("due") })
	s.member(id, "completed", s.completed, status == tasks.Completed, func() float64 { return second("expires") })
	s.member(id, "archived", s.archived, status == tasks.Failed || status == tasks.Cancelled,
		func() float64 { return math.Floor(float64(s.number(id, "done")) / 1000) })
	s.member(id, "lease", s.lease, status == tasks.Running, nil)
	if n := count(s.active, id); (n == 1) != (status == tasks.Running) || n > 1 {
		s.fault("record %s: %s, and %d times on asynq's active list", id, status, n)
	}
	n := count(s.pending, id)
	if tomb := status == tasks.Cancelled && n == 1; tomb != (s.records[id]["tomb"] != "") {
		s.fault("record %s: %s, %d times on asynq's pending list, tomb is %q", id, status, n, s.records[id]["tomb"])
	}
	if status == tasks.Pending && n != 1 {
		s.fault("record %s: pending, and %d times on asynq's list", id, n)
	}
	if n > 0 && status != tasks.Pending && status != tasks.Cancelled {
		s.fault("record %s: %s, but asynq's pending list has it", id, status)
	}
}

// member checks that a set has id exactly if it should, with the score that it should have.
func (s *snapshot) member(id, name string, set map[string]float64, want bool, score func() float64) {
	got, has := set[id]
	switch {
	case has != want:
		s.fault("record %s: %s, but in %s: %v", id, s.status(id), name, has)
	case has && score != nil && got != score():
		s.fault("record %s: score %v in %s, want %v", id, got, name, score())
	}
}

func count(list []string, id string) int {
	n := 0
	for _, x := range list {
		if x == id {
			n++
		}
	}
	return n
}

// checkEvents checks that events are numbered without gaps from 2 to the record's last, and that one that says how a
// task ended is the last of one that has.
func (s *snapshot) checkEvents(ctx context.Context, rdb *redis.Client, id string) {
	last := s.number(id, "seq")
	events, err := rdb.XRange(ctx, s.ours()+"e:"+id, "-", "+").Result()
	if err != nil {
		s.fault("events of %s: %v", id, err)
	}
	if int64(len(events)) != last-1 {
		s.fault("record %s: %d events stored, the last number is %d", id, len(events), last)
	}
	kind := ""
	for i, e := range events {
		if want := fmt.Sprintf("%d-0", i+2); e.ID != want {
			s.fault("record %s: event %s, want %s", id, e.ID, want)
		}
		kind, _ = e.Values["k"].(string)
	}
	status := s.status(id)
	if status.Terminal() != tasks.EventKind(kind).Terminal() || status.Terminal() && kind != string(status) {
		s.fault("record %s: %s, but its last event is %q", id, status, kind)
	}
}

// checkLives checks that what a task leaves behind goes away by itself, a day after its time, and not before.
func (s *snapshot) checkLives(ctx context.Context, rdb *redis.Client, id string) {
	for _, key := range []string{s.ours() + "t:" + id, s.asynq() + "t:" + id, s.ours() + "e:" + id, s.ours() + "o:" + id} {
		ttl, err := rdb.PTTL(ctx, key).Result()
		switch {
		case err != nil:
			s.fault("PTTL %s: %v", key, err)
		case ttl == -2: // no such key
		case !s.status(id).Terminal() && ttl != -1:
			s.fault("%s of a task that is %s goes away in %v", key, s.status(id), ttl)
		case s.records[id]["tomb"] != "" && key == s.asynq()+"t:"+id:
			if ttl != -1 {
				s.fault("%s goes away in %v, while its entry stays", key, ttl)
			}
		case s.status(id).Terminal():
			want := time.UnixMilli(s.number(id, "expires")).Add(24 * time.Hour).Sub(s.now)
			if ttl < 0 || (want-ttl).Abs() > time.Minute { // the snapshot may be old by now
				s.fault("%s goes away in %v, want %v", key, ttl, want)
			}
		}
	}
	if size := rdb.StrLen(ctx, s.ours()+"o:"+id).Val(); size > 96<<10 {
		s.fault("output of %s has %d bytes", id, size)
	}
}

// checkSets compares our sets with what they should be, computed from the records.
func (s *snapshot) checkSets() {
	live, expiry, due := map[string]float64{}, map[string]float64{}, map[string]float64{}
	owners := map[string]map[string]float64{}
	for id, r := range s.records {
		status := s.status(id)
		if status.Terminal() {
			expiry[id] = float64(s.number(id, "expires"))
		} else {
			live[id] = float64(s.number(id, "created"))
		}
		if status == tasks.Scheduled || status == tasks.Retrying {
			due[id] = float64(s.number(id, "due"))
		}
		if owners[r["owner"]] == nil {
			owners[r["owner"]] = map[string]float64{}
		}
		owners[r["owner"]][id] = float64(s.number(id, "n"))
	}
	s.same("live", live, s.live)
	s.same("expiry", expiry, s.expiry)
	s.same("due", due, s.due)
	for owner := range maps.Keys(s.owners) {
		if owners[owner] == nil {
			s.fault("index of owner %s, who has no task: %v", owner, s.owners[owner])
		}
	}
	for owner, want := range owners {
		s.same("index:"+owner, want, s.owners[owner])
	}
	for id := range s.records {
		if _, ok := s.index[id]; !ok {
			s.fault("record %s is not in index", id)
		}
	}
	if len(s.index) != len(s.records) {
		s.fault("index has %d entries, there are %d records", len(s.index), len(s.records))
	}
}

func (s *snapshot) same(name string, want, got map[string]float64) {
	if maps.Equal(want, got) {
		return
	}
	for id, score := range want {
		if g, ok := got[id]; !ok || g != score {
			s.fault("%s: %s has score %v (there: %v), want %v", name, id, g, ok, score)
		}
	}
	for id := range got {
		if _, ok := want[id]; !ok {
			s.fault("%s: has %s, which should not be there (it is %q)", name, id, s.status(id))
		}
	}
}

// checkNumbers recounts the records by status and checks the counters of tasks.
func (s *snapshot) checkNumbers() {
	want, highest := map[string]int64{}, map[string]int64{}
	seen := map[string]string{}
	for id, r := range s.records {
		want[r["status"]]++
		n := s.number(id, "n")
		highest[r["owner"]] = max(highest[r["owner"]], n)
		handle := fmt.Sprint(r["owner"], " ", n)
		if other := seen[handle]; other != "" {
			s.fault("records %s and %s of owner %s have the number %d", id, other, r["owner"], n)
		}
		seen[handle] = id
	}
	for _, status := range slices.Sorted(maps.Keys(s.counts)) {
		if s.counts[status] != fmt.Sprint(want[status]) {
			s.fault("counts: %s is %s, %d records are", status, s.counts[status], want[status])
		}
		delete(want, status)
	}
	for status, n := range want {
		s.fault("counts: no %s, %d records are", status, n)
	}
	for owner, n := range highest {
		if next, _ := strconv.ParseInt(s.seq[owner], 10, 64); next <= n {
			s.fault("owner %s: next number is %d, there is a task with %d", owner, next, n)
		}
	}
}

// checkAsynq checks asynq's lists and sets by themselves: each entry has its task, and a task without a record waits
// where its state says.
func (s *snapshot) checkAsynq() {
	places := map[string][]string{}
	for _, id := range s.pending {
		places[id] = append(places[id], "pending")
	}
	for _, id := range s.active {
		places[id] = append(places[id], "active")
	}
	for state, set := range map[string]map[string]float64{
		"scheduled": s.scheduled, "retry": s.retry, "archived": s.archived, "completed": s.completed, "aggregating": s.groupsets,
	} {
		for id := range set {
			places[id] = append(places[id], state)
		}
	}
	for id, states := range places {
		if _, ok := s.messages[id]; !ok {
			s.fault("asynq has %s in %v, but no task of that id; its tools fail on it", id, states)
			continue
		}
		if _, ok := s.records[id]; ok || s.tombstone(id, states) {
			continue
		}
		if !slices.Equal(states, []string{s.messages[id]["state"]}) {
			s.fault("asynq's task %s, without a record, is in %v, its state is %q", id, states, s.messages[id]["state"])
		}
	}
	for id, msg := range s.messages {
		if _, ok := places[id]; !ok {
			s.fault("asynq's task %s (%s) is in no list and no set", id, msg["state"])
		}
	}
	active := map[string]float64{}
	for _, id := range s.active {
		active[id] = s.lease[id]
	}
	s.same("lease", active, s.lease)
}

// tombstone reports whether all there is of a task is its entry in the pending list, and the empty hash that asynq's
// tools need for it.
func (s *snapshot) tombstone(id string, places []string) bool {
	return slices.Equal(places, []string{"pending"}) && maps.Equal(s.messages[id], map[string]string{"state": "archived"})
}

// checkKeys checks that every key is one that we know, belongs to a task that exists, and goes away if it should.
func (s *snapshot) checkKeys(ctx context.Context, rdb *redis.Client) {
	for _, key := range s.keys {
		rest, ours := strings.CutPrefix(key, s.ours())
		if !ours {
			continue
		}
		family, id, _ := strings.Cut(rest, ":")
		switch family {
		case "counts", "seq", "live", "expiry", "due", "index", "workers", "keyspace":
			if ttl := rdb.PTTL(ctx, key).Val(); ttl != -1 {
				s.fault("%s goes away in %v", key, ttl)
			}
		case "t", "e", "o":
			if s.records[id] == nil {
				s.fault("%s is there without a record", key)
			}
		case "idem", "w", "reconcile":
			if ttl := rdb.PTTL(ctx, key).Val(); ttl == -1 {
				s.fault("%s never goes away (PTTL %v)", key, ttl)
			}
		default:
			s.fault("%s is no key of ours", key)
		}
	}
}

// checkTools checks what asynq's tools show of the queue and, when it is small, of each task.
func (s *snapshot) checkTools(inspector *asynq.Inspector) {
	if len(s.records)+len(s.messages) == 0 {
		return
	}
	q, err := inspector.GetQueueInfo(s.queue)
	if err != nil {
		s.fault("GetQueueInfo: %v", err)
		return
	}
	got := []int{q.Pending, q.Active, q.Scheduled, q.Retry, q.Archived, q.Completed}
	want := []int{len(s.pending), len(s.active), len(s.scheduled), len(s.retry), len(s.archived), len(s.completed)}
	if !slices.Equal(got, want) {
		s.fault("GetQueueInfo: %v, want %v (pending active scheduled retry archived completed)", got, want)
	}
	for i, id := range slices.Sorted(maps.Keys(s.records)) {
		if _, ok := s.messages[id]; !ok || i > 100 {
			continue
		}
		info, err := inspector.GetTaskInfo(s.queue, id)
		switch {
		case err != nil:
			s.fault("GetTaskInfo(%s): %v", id, err)
		case info.ID != id || info.Queue != s.queue || info.Type != s.records[id]["type"] || info.State != asynqState(s.status(id)):
			s.fault("GetTaskInfo(%s) = %s task %s of type %q in %s, the record is %v", id, info.State, info.ID, info.Type, info.Queue, s.records[id])
		}
	}
}

// A checker that finds nothing proves nothing: each fault put into a good queue must be found.
func TestCheckQueue(t *testing.T) {
	t.Parallel()
	for _, spoil := range []struct {
		name string
		do   func(ctx context.Context, rdb *redis.Client, id string)
	}{
		{"count", func(ctx context.Context, rdb *redis.Client, _ string) {
			rdb.HIncrBy(ctx, "offstage:{low}:counts", "pending", 1)
		}},
		{"live", func(ctx context.Context, rdb *redis.Client, id string) { rdb.ZRem(ctx, "offstage:{low}:live", id) }},
		{"expiry", func(ctx context.Context, rdb *redis.Client, id string) {
			rdb.ZAdd(ctx, "offstage:{low}:expiry", redis.Z{Member: id, Score: 1})
		}},
		{"index", func(ctx context.Context, rdb *redis.Client, id string) { rdb.ZRem(ctx, "offstage:{low}:index", id) }},
		{"owner", func(ctx context.Context, rdb *redis.Client, id string) { rdb.ZRem(ctx, "offstage:{low}:index:ann", id) }},
		{"place", func(ctx context.Context, rdb *redis.Client, id string) { rdb.LRem(ctx, "asynq:{low}:pending", 0, id) }},
		{"twice", func(ctx context.Context, rdb *redis.Client, id string) { rdb.LPush(ctx, "asynq:{low}:pending", id) }},
		{"state", func(ctx context.Context, rdb *redis.Client, id string) {
			rdb.HSet(ctx, "asynq:{low}:t:"+id, "state", "retry")
		}},
		{"message", func(ctx context.Context, rdb *redis.Client, id string) { rdb.Del(ctx, "asynq:{low}:t:"+id) }},
		{"record", func(ctx context.Context, rdb *redis.Client, id string) { rdb.Del(ctx, "offstage:{low}:t:"+id) }},
		{"lease", func(ctx context.Context, rdb *redis.Client, id string) {
			rdb.ZAdd(ctx, "asynq:{low}:lease", redis.Z{Member: id, Score: 1})
		}},
		{"event", func(ctx context.Context, rdb *redis.Client, id string) {
			rdb.HSet(ctx, "offstage:{low}:t:"+id, "seq", 2)
		}},
		{"life", func(ctx context.Context, rdb *redis.Client, id string) {
			rdb.Expire(ctx, "offstage:{low}:t:"+id, time.Hour)
		}},
		{"key", func(ctx context.Context, rdb *redis.Client, _ string) { rdb.Set(ctx, "offstage:{low}:other", 1, 0) }},
		{"idem", func(ctx context.Context, rdb *redis.Client, _ string) {
			rdb.Set(ctx, "offstage:{low}:idem:ann:k", 1, 0)
		}},
	} {
		t.Run(spoil.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, server.FreshDB(t))
			id := f.create()
			f.check()
			spoil.do(f.ctx(), f.rdb, id)
			s, err := loadQueue(f.ctx(), f.rdb, f.queue)
			if err != nil {
				t.Fatal(err)
			}
			if s.checkAll(f.ctx(), f.rdb, f.inspector); len(s.faults) == 0 {
				t.Error("not noticed")
			}
			f.rdb.FlushDB(f.ctx())
		})
	}
}
