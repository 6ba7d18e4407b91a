package bridge

import (
	"context"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"offstage/tasks"
)

// OutputKept is how much of a task's output a reader gets: the last 64 KiB.
const OutputKept = 64 << 10

// Get reads one task whole. Errors: tasks.ErrNotFound, *OpError.
func (s *Store) Get(ctx context.Context, id string) (*tasks.Task, error) {
	at, ok := locate(id)
	if !ok {
		return nil, tasks.ErrNotFound
	}
	pipe := s.rdb.Pipeline()
	fields := pipe.HGetAll(ctx, at.record())
	message := pipe.HMGet(ctx, at.message(), "msg", "result")
	output := pipe.GetRange(ctx, at.output(), -OutputKept, -1)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, readError("get", err)
	}
	rec := record(fields.Val())
	if len(rec) == 0 {
		return nil, tasks.ErrNotFound
	}
	t := rec.task(at)
	if v := message.Val(); len(v) == 2 {
		if m, err := parseMessage([]byte(text(v[0]))); err == nil {
			t.Payload = rawJSON(m.payload)
		}
		t.Result = rawJSON([]byte(text(v[1])))
	}
	t.Output = wholeRunes(output.Val())
	t.OutputCut = rec.int("olen") - int64(len(t.Output))
	return t, nil
}

// readError wraps an error of a read. Reads change nothing, so the commit-failure counter does not hear of them.
func readError(op string, err error) error { return opError(op, err) }

// wholeRunes drops the rest of a rune at the front of s.
func wholeRunes(s string) string {
	for i := 0; i < len(s) && i < 4; i++ {
		if s[i] < 0x80 || s[i] >= 0xC0 {
			return s[i:]
		}
	}
	return s
}

// GetAll reads the records of many tasks, without payload, result and output. A task that is gone is nil.
func (s *Store) GetAll(ctx context.Context, queue string, ids []string) ([]*tasks.Task, error) {
	pipe := s.rdb.Pipeline()
	cmds := make([]*redis.MapStringStringCmd, len(ids))
	for i, id := range ids {
		cmds[i] = pipe.HGetAll(ctx, address{queue, id}.record())
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, readError("list", err)
	}
	found := make([]*tasks.Task, len(ids))
	for i, cmd := range cmds {
		if rec := record(cmd.Val()); len(rec) > 0 {
			found[i] = rec.task(address{queue, ids[i]})
		}
	}
	return found, nil
}

// Entry is one entry of a queue's index.
type Entry struct {
	ID string // asynq's
	N  int64
}

// Index reads entries of a queue's index below number before, newest first; before < 0 starts at the newest. With an
// owner it is that owner's index.
func (s *Store) Index(ctx context.Context, queue, owner string, before int64, limit int) ([]Entry, error) {
	key, top := ourPrefix(queue)+"index", "+inf"
	if owner != "" {
		key += ":" + owner
	}
	if before >= 0 {
		top = "(" + strconv.FormatInt(before, 10)
	}
	zs, err := s.rdb.ZRevRangeByScoreWithScores(ctx, key, &redis.ZRangeBy{Min: "-inf", Max: top, Count: int64(limit)}).Result()
	if err != nil {
		return nil, readError("list", err)
	}
	entries := make([]Entry, len(zs))
	for i, z := range zs {
		entries[i] = Entry{z.Member.(string), int64(z.Score)}
	}
	return entries, nil
}

// ByHandle gives the public id of an owner's n-th task in a queue. Errors: tasks.ErrNotFound, *OpError.
func (s *Store) ByHandle(ctx context.Context, queue, owner string, n int64) (string, error) {
	at := strconv.FormatInt(n, 10)
	ids, err := s.rdb.ZRangeByScore(ctx, ourPrefix(queue)+"index:"+owner, &redis.ZRangeBy{Min: at, Max: at, Count: 1}).Result()
	if err != nil {
		return "", readError("get", err)
	}
	if len(ids) == 0 {
		return "", tasks.ErrNotFound
	}
	return address{queue, ids[0]}.public(), nil
}

// Peek is the little of a task that a poller wants to know.
type Peek struct {
	Owner   string
	Status  tasks.Status
	Version int64
	Written int64 // bytes of output
}

// Peek reads it. Errors: tasks.ErrNotFound, *OpError.
func (s *Store) Peek(ctx context.Context, id string) (Peek, error) {
	at, ok := locate(id)
	if !ok {
		return Peek{}, tasks.ErrNotFound
	}
	v, err := s.rdb.HMGet(ctx, at.record(), "owner", "status", "version", "olen").Result()
	if err != nil {
		return Peek{}, readError("get", err)
	}
	if v[0] == nil {
		return Peek{}, tasks.ErrNotFound
	}
	return Peek{text(v[0]), tasks.Status(text(v[1])), integer(v[2]), integer(v[3])}, nil
}

// WasCancelled reports whether a task was cancelled, or asked to while it runs. Errors: tasks.ErrNotFound, *OpError.
func (s *Store) WasCancelled(ctx context.Context, id string) (bool, error) {
	at, ok := locate(id)
	if !ok {
		return false, tasks.ErrNotFound
	}
	v, err := s.rdb.HMGet(ctx, at.record(), "status", "cancel_at").Result()
	if err != nil {
		return false, readError("get", err)
	}
	if v[0] == nil {
		return false, tasks.ErrNotFound
	}
	return v[1] != nil, nil
}

// Output reads what a task wrote from byte offset of everything on, at most limit bytes, on rune boundaries: it
// begins behind a rune that offset is in, and is longer than limit when the first rune is. It gives the text, where it
// begins and how much was written in all.
func (s *Store) Output(ctx context.Context, id string, offset int64, limit int) (out string, begin, written int64, err error) {
	at, ok := locate(id)
	if !ok {
		return "", 0, 0, tasks.ErrNotFound
	}
	pipe := s.rdb.TxPipeline()
	total := pipe.HGet(ctx, at.record(), "olen")
	kept := pipe.Get(ctx, at.output())
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return "", 0, 0, readError("get", err)
	}
	written, _ = total.Int64()
	tail := kept.Val()
	begin = max(written-int64(len(tail)), min(offset, written))
	tail = wholeRunes(tail[len(tail)-int(written-begin):])
	return cutRunes(tail, limit), written - int64(len(tail)), written, nil
}

// cutRunes cuts s to limit bytes, or a little less, lest a rune is cut in two; a first rune longer than that is kept.
func cutRunes(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && cut > limit-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	if cut == 0 {
		_, cut = utf8.DecodeRuneInString(s)
	}
	return s[:cut]
}

// Events reads events of a task with numbers above after, in order, at most limit. The creation and what the record
// knows of the outcome are filled in. Errors: tasks.ErrNotFound, *OpError.
func (s *Store) Events(ctx context.Context, id string, after int64, limit int) ([]tasks.Event, error) {
	t, err := s.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	at, _ := locate(id)
	var events []tasks.Event
	if after < 1 {
		events = append(events, tasks.Event{Seq: 1, TaskID: t.ID, Owner: t.Owner, Kind: tasks.EventCreated, At: t.CreatedAt})
	}
	first := strconv.FormatInt(max(after+1, 2), 10)
	entries, err := s.rdb.XRangeN(ctx, at.events(), first, "+", int64(limit)).Result()
	if err != nil {
		return nil, readError("events", err)
	}
	for _, e := range entries {
		events = append(events, event(t, e))
	}
	return events[:min(len(events), limit)], nil
}
