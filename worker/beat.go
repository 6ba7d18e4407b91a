package worker

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"sync/atomic"
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

// beatAll beats on every queue, on all at once: in a cluster one may hang and the others not. It gives the number of
// queues that took it.
func (w *Worker) beatAll(ctx context.Context) int {
	var wg sync.WaitGroup
	var served atomic.Int32
	for name := range w.cfg.Queues {
		wg.Go(func() {
			if err := w.beat(ctx, name); err != nil {
				w.quiet.note(w.log, "Heartbeat", err)
				return
			}
			w.meet(name)
			served.Add(1)
		})
	}
	wg.Wait()
	if int(served.Load()) == len(w.cfg.Queues) {
		w.quiet.clear(w.log, "Heartbeat")
	}
	return int(served.Load())
}

// contact is how a queue's Redis and this worker stand.
type contact struct {
	beat     time.Time // when it last took a heartbeat
	patience time.Time // no takeover before
	pause    time.Time // no take before
}

// meet notes that a queue's Redis took a heartbeat.
func (w *Worker) meet(queue string) {
	w.facts.Lock()
	defer w.facts.Unlock()
	c := w.contacts[queue]
	if since := time.Since(c.beat); since > w.cfg.Lease/2 {
		// Redis was away, or has just been met: other workers may look dead that only had no chance to beat.
		c.patience = time.Now().Add(w.cfg.Lease)
	}
	c.beat = time.Now()
	w.contacts[queue] = c
}

// met reports whether a queue's Redis took the last heartbeats and no take has failed just now.
func (w *Worker) met(queue string) bool {
	w.facts.Lock()
	defer w.facts.Unlock()
	c := w.contacts[queue]
	return time.Since(c.beat) <= w.cfg.Lease/2 && !time.Now().Before(c.pause)
}

// calm reports whether a queue's Redis has taken heartbeats for long enough that silence of other workers is their own.
func (w *Worker) calm(queue string) bool {
	w.facts.Lock()
	defer w.facts.Unlock()
	c := w.contacts[queue]
	return time.Since(c.beat) <= w.cfg.Lease/2 && !time.Now().Before(c.patience)
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
