package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/tasks"
)

// queues examines each queue and its workers.
func (d *doctor) queues(ctx context.Context) error {
	infos, err := d.q.Queues(ctx)
	if err != nil {
		return err
	}
	if len(infos) == 0 {
		d.add(OK, "queues", "none yet: no task and no worker ever came", "")
		return nil
	}
	for _, info := range infos {
		if err := d.queue(ctx, info); err != nil {
			return err
		}
	}
	return nil
}

func (d *doctor) queue(ctx context.Context, info Info) error {
	if err := d.workers(ctx, info); err != nil {
		return err
	}
	if info.Paused {
		if err := d.paused(ctx, info); err != nil {
			return err
		}
	}
	return d.orphans(ctx, info.Name)
}

// workers says who serves a queue, and who stopped doing so without a word.
func (d *doctor) workers(ctx context.Context, info Info) error {
	alive, err := d.q.store.Workers(ctx, info.Name)
	if err != nil {
		return err
	}
	known, err := d.q.rdb.ZRangeWithScores(ctx, "offstage:{"+info.Name+"}:workers", 0, -1).Result()
	if err != nil {
		return err
	}
	now, err := d.q.rdb.Time(ctx).Result()
	if err != nil {
		return err
	}
	var silent []string
	for _, z := range known {
		id, _ := z.Member.(string)
		if _, ok := alive[id]; !ok {
			silent = append(silent, fmt.Sprintf("%s (%v)", id, now.Sub(time.UnixMilli(int64(z.Score))).Round(time.Second)))
		}
	}
	if len(silent) > 0 {
		d.add(Warn, "workers", fmt.Sprintf("queue %s: silent since they died or were cut off: %s; %d tasks are marked running",
			info.Name, shorten(silent), info.Counts[tasks.Running]), "a live worker takes their tasks over within 15 s: start one (offstage serve)")
	}
	d.found = append(d.found, served(info, len(alive)))
	return nil
}

// served says whether a queue's tasks are going to run.
func served(info Info, workers int) Finding {
	const check = "queues"
	var open int64
	for status, n := range info.Counts {
		if !status.Terminal() {
			open += n
		}
	}
	open = max(open, info.Backlog) // a plain asynq producer's tasks have no record yet
	switch {
	case workers == 0 && open > 0:
		return Finding{Warn, check, fmt.Sprintf("queue %s: %d tasks are not done, and no live worker serves it", info.Name, open),
			"start a daemon with it in worker.queues, or cancel the tasks"}
	case workers == 0:
		return Finding{OK, check, fmt.Sprintf("queue %s: no live worker, and nothing to do", info.Name), ""}
	}
	return Finding{OK, check, fmt.Sprintf("queue %s: live workers %d, open tasks %d", info.Name, workers, open), ""}
}

// paused says since when; asynq's key holds the second.
func (d *doctor) paused(ctx context.Context, info Info) error {
	since, err := d.q.rdb.Get(ctx, "asynq:{"+info.Name+"}:paused").Result()
	if err != nil && !isRedisError(err) {
		return err
	}
	text := "queue " + info.Name + ": paused"
	if n, err := strconv.ParseInt(since, 10, 64); err == nil {
		text += " since " + time.Unix(n, 0).UTC().Format(time.RFC3339)
	}
	d.add(Warn, "paused", text, "offstage queue resume "+info.Name)
	return nil
}

// The bounds of the search for orphans, in each list of each queue.
const (
	orphanScan  = 10_000 // entries looked at, the oldest
	orphanBatch = 500    // in one exchange; also how many suspects get a second look
)

// orphanage is a list whose entries must have something to go with it.
type orphanage struct {
	what    string // the entries that have not
	level   Level
	length  func(redis.Pipeliner) *redis.IntCmd
	entries func(redis.Pipeliner) *redis.StringSliceCmd
	absent  func(redis.Pipeliner, string) func() bool // asks for one entry; the answer is there after Exec
}

func orphanages(ctx context.Context, queue string) []orphanage {
	asynq, ours := "asynq:{"+queue+"}:", "offstage:{"+queue+"}:"
	noMessage := func(p redis.Pipeliner, id string) func() bool {
		cmd := p.Exists(ctx, asynq+"t:"+id)
		return func() bool { return cmd.Err() == nil && cmd.Val() == 0 }
	}
	all := []orphanage{
		zset(ctx, orphanage{what: "live records without a message", level: Fail, absent: noMessage}, ours+"live"),
		list(ctx, orphanage{what: "entries of active without a task", level: Fail, absent: noMessage}, asynq+"active"),
		list(ctx, orphanage{what: "active entries without a lease", level: Warn, absent: func(p redis.Pipeliner, id string) func() bool {
			cmd := p.ZScore(ctx, asynq+"lease", id)
			return func() bool { return errors.Is(cmd.Err(), redis.Nil) }
		}}, asynq+"active"),
		list(ctx, orphanage{what: "entries of pending without a task", level: Warn, absent: noMessage}, asynq+"pending"),
	}
	for _, state := range []string{"scheduled", "retry", "archived", "completed"} {
		all = append(all, zset(ctx, orphanage{what: "entries of " + state + " without a task", level: Warn, absent: noMessage}, asynq+state))
	}
	return all
}

func zset(ctx context.Context, o orphanage, key string) orphanage {
	o.length = func(p redis.Pipeliner) *redis.IntCmd { return p.ZCard(ctx, key) }
	o.entries = func(p redis.Pipeliner) *redis.StringSliceCmd { return p.ZRange(ctx, key, 0, orphanScan-1) }
	return o
}

// list reads from the end that is taken next.
func list(ctx context.Context, o orphanage, key string) orphanage {
	o.length = func(p redis.Pipeliner) *redis.IntCmd { return p.LLen(ctx, key) }
	o.entries = func(p redis.Pipeliner) *redis.StringSliceCmd { return p.LRange(ctx, key, -orphanScan, -1) }
	return o
}

// orphans looks for what the scripts never leave behind: it takes a crash of Redis that lost a part, or a hand in the
// data. It only reads, and not too much.
func (d *doctor) orphans(ctx context.Context, queue string) error {
	clean := true
	cut := ""
	for _, o := range orphanages(ctx, queue) {
		lost, length, err := d.lost(ctx, o)
		if err != nil {
			return err
		}
		if length > orphanScan {
			cut = fmt.Sprintf(" (the first %d of each list looked at; the longest has %d)", orphanScan, length)
		}
		if len(lost) > 0 {
			clean = false
			d.add(o.level, "orphans", fmt.Sprintf("queue %s: %s: %s", queue, o.what, examples(lost)),
				"a worker that serves the queue repairs them: start one, and look again after a minute")
		}
	}
	if clean {
		d.add(OK, "orphans", "queue "+queue+": none"+cut, "")
	}
	return nil
}

// examples is "2 (a, b)".
func examples(ids []string) string {
	count := strconv.Itoa(len(ids))
	if len(ids) == orphanBatch {
		count += " or more"
	}
	return fmt.Sprintf("%s (%s)", count, strings.Join(ids[:min(len(ids), 3)], ", "))
}

// lost finds the orphans of a list. Tasks move while it looks, so what it suspects gets a second look, all in one step.
func (d *doctor) lost(ctx context.Context, o orphanage) (lost []string, length int64, err error) {
	pipe := d.q.rdb.Pipeline()
	size, entries := o.length(pipe), o.entries(pipe)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, 0, err
	}
	var suspects []string
	for chunk := range slices.Chunk(entries.Val(), orphanBatch) {
		found, err := absent(ctx, d.q.rdb.Pipeline(), o, chunk)
		if err != nil {
			return nil, 0, err
		}
		suspects = append(suspects, found...)
	}
	if len(suspects) == 0 {
		return nil, size.Val(), nil
	}
	pipe = d.q.rdb.TxPipeline()
	again := o.entries(pipe)
	suspects, err = absent(ctx, pipe, o, suspects[:min(len(suspects), orphanBatch)])
	if err != nil {
		return nil, 0, err
	}
	there := map[string]bool{}
	for _, id := range again.Val() {
		there[id] = true
	}
	return slices.DeleteFunc(suspects, func(id string) bool { return !there[id] }), size.Val(), nil
}

func absent(ctx context.Context, pipe redis.Pipeliner, o orphanage, ids []string) ([]string, error) {
	answers := make([]func() bool, len(ids))
	for i, id := range ids {
		answers[i] = o.absent(pipe, id)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	var found []string
	for i, yes := range answers {
		if yes() {
			found = append(found, ids[i])
		}
	}
	return found, nil
}
