package worker

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"offstage/queue"
	"offstage/queue/bridge"
	"offstage/tasks"
)

// beats tells every queue that this worker lives, until ctx ends, and acts on what it learns: bodies whose task was
// cancelled or taken over have their context cancelled. A hint that somebody cancelled makes it look at once. Nothing
// else happens here, lest a beat comes late.
func (w *Worker) beats(ctx context.Context) {
	tick := time.NewTicker(w.cfg.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.hints:
		}
		w.beatAll(ctx)
	}
}

// hint is called with the id of a task that was asked to cancel.
func (w *Worker) hint(string) {
	select {
	case w.hints <- struct{}{}:
	default: // a look is due already
	}
}

// beatAll beats on every queue; it reports whether Redis took all of it.
func (w *Worker) beatAll(ctx context.Context) bool {
	ok := true
	for name := range w.cfg.Queues {
		if err := w.beat(ctx, name); err != nil {
			ok = false
			w.quiet.note(w.log, "Heartbeat", err)
		}
	}
	if !ok {
		return false
	}
	w.quiet.clear(w.log, "Heartbeat")
	w.facts.Lock()
	defer w.facts.Unlock()
	if since := time.Since(w.lastBeat); since > w.cfg.Lease/2 {
		// Redis was away, or has just been met: other workers may look dead that only had no chance to beat.
		w.patience = time.Now().Add(w.cfg.Lease)
	}
	w.lastBeat = time.Now()
	return true
}

func (w *Worker) beat(ctx context.Context, name string) error {
	bodies := w.bodies.held(name)
	held := make([]bridge.Held, len(bodies))
	for i, x := range bodies {
		held[i] = x.attempt.Held()
	}
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Heartbeat)
	defer cancel()
	b, err := w.store.Beat(ctx, name, w.id, w.info(), w.cfg.Lease, held)
	if err != nil {
		return err
	}
	for _, x := range bodies {
		w.learn(x, b)
	}
	w.keyspace(name, b.Keyspace)
	return nil
}

// keyspace notices that a queue's data are not those it had: Redis was emptied, or replaced by one without them.
func (w *Worker) keyspace(queue, name string) {
	w.facts.Lock()
	defer w.facts.Unlock()
	if old := w.keyspaces[queue]; old != "" && old != name {
		w.watch.Repaired("keyspace_lost")
		w.log.Error("Redis was emptied or replaced: tasks accepted before are gone", "queue", queue)
		w.emptied = time.Now()
	}
	w.keyspaces[queue] = name
}

// learn acts on what a beat says about one body.
func (w *Worker) learn(x *body, b bridge.Beat) {
	id := x.attempt.Held().ID
	for _, c := range b.Cancel {
		if c == id {
			x.cancel(tasks.ErrCancelled)
		}
	}
	for _, l := range b.Lost {
		if l == id && w.bodies.live(x) {
			x.cancel(tasks.ErrLeaseLost)
			w.watch.Interrupted("lease_lost")
		}
	}
}

// info is what this worker says of itself.
func (w *Worker) info() json.RawMessage {
	host, _ := os.Hostname()
	b, _ := json.Marshal(queue.WorkerInfo{ // strings, numbers and a map of them: cannot fail
		ID: w.id, Host: host, PID: os.Getpid(), Version: w.cfg.Version, Queues: w.cfg.Queues,
		Concurrency: w.cfg.Concurrency, Running: w.bodies.inUse(), Draining: w.draining.Load(), StartedAt: tasks.At(w.startedAt),
	})
	return b
}
