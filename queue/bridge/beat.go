package bridge

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"offstage/tasks"
)

// Held is a task that a worker believes to run.
type Held struct {
	ID    string
	Epoch int64
}

// Held names the attempt to [Store.Beat].
func (a *Attempt) Held() Held { return Held{a.at.id, a.Epoch} }

// Beat is what a heartbeat learned, by asynq's ids.
type Beat struct {
	Now    time.Time // Redis' clock
	Cancel []string  // asked to cancel
	Lost   []string  // not this worker's any more
	// Keyspace is a name that stays as long as the queue's data does: another one means that Redis was emptied, or
	// replaced by one that never had them.
	Keyspace string
}

// Beat tells a queue that worker lives, for life, and what it says of itself, and asks about the tasks it holds there.
func (s *Store) Beat(ctx context.Context, queue, worker string, info json.RawMessage, life time.Duration, held []Held) (Beat, error) {
	args := []any{worker, string(info), life.Milliseconds(), rand.Text()}
	for _, h := range held {
		args = append(args, h.ID, h.Epoch)
	}
	v, err := s.run(ctx, OpBegin, beatScript, queue, []string{ourPrefix(queue) + "workers"}, args...)
	if err != nil {
		return Beat{}, err
	}
	reply := list(v)
	if len(reply) != 4 {
		return Beat{}, nil
	}
	return Beat{time.UnixMilli(integer(reply[0])), stringList(reply[1]), stringList(reply[2]), text(reply[3])}, nil
}

// Leave tells a queue that worker has stopped and holds no task.
func (s *Store) Leave(ctx context.Context, queue, worker string) error {
	_, err := s.runAgain(ctx, OpRestore, leaveScript, queue, []string{ourPrefix(queue) + "workers"}, worker)
	return err
}

// Silent reports whether a worker of the queue has not beaten for life and did not leave.
func (s *Store) Silent(ctx context.Context, queue string, life time.Duration) (bool, error) {
	pipe := s.rdb.Pipeline()
	clock := pipe.Time(ctx)
	first := pipe.ZRangeWithScores(ctx, ourPrefix(queue)+"workers", 0, 0)
	if _, err := pipe.Exec(ctx); err != nil {
		return false, readError("list workers", err)
	}
	seen := first.Val()
	return len(seen) > 0 && clock.Val().Sub(time.UnixMilli(int64(seen[0].Score))) >= life, nil
}

// Takeover is what became of the tasks of dead workers.
type Takeover struct{ Freed, Failed, Cancelled int64 }

// takeoverBatch bounds how many tasks one script frees.
const takeoverBatch = 200

// Takeover frees running tasks of a queue whose workers have not beaten for life; one that was interrupted more often
// than most fails as orphaned.
func (s *Store) Takeover(ctx context.Context, queue string, life time.Duration, most int) (Takeover, error) {
	return s.takeover(ctx, queue, life, most, "")
}

// strayAge is how long after its take a worker must know of a task: the reply of the take has come by then or is given
// up.
const strayAge = takeTimeout + 5*time.Second

// Strays frees, like Takeover, running tasks of a queue that worker should run and does not know of. known are the
// public ids of those it does.
func (s *Store) Strays(ctx context.Context, queue, worker string, life time.Duration, most int, known []string) (Takeover, error) {
	ids := []any{strayAge.Milliseconds()}
	for _, id := range known {
		if at, ok := locate(id); ok && at.queue == queue {
			ids = append(ids, at.id)
		}
	}
	return s.takeover(ctx, queue, life, most, worker, ids...)
}

func (s *Store) takeover(ctx context.Context, queue string, life time.Duration, most int, worker string, extra ...any) (Takeover, error) {
	orphaned := jsonOrEmpty(&tasks.Error{Kind: tasks.KindOrphaned, Message: "its workers died too often while it ran"})
	v, err := s.run(ctx, OpRestore, takeoverScript, queue, []string{ourPrefix(queue) + "workers"},
		append([]any{life.Milliseconds(), most, orphaned, takeoverBatch, time.Now().UTC().Format(time.DateOnly), worker}, extra...)...)
	if err != nil {
		return Takeover{}, err
	}
	reply := list(v)
	if len(reply) != 3 {
		return Takeover{}, nil
	}
	return Takeover{integer(reply[0]), integer(reply[1]), integer(reply[2])}, nil
}
