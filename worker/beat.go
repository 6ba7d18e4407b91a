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
// cancelled or taken over have their context cancelled. A hint that somebody cancelled makes it look at once.
func (w *Worker) beats(ctx context.Context) {
	tick := time.NewTicker(w.cfg.Heartbeat)
	defer tick.Stop()
	repair := time.NewTicker(reconcileEvery)
	defer repair.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if w.beatAll(ctx) {
				w.replay()
			}
			w.takeOver(ctx)
		case <-repair.C:
			w.reconcile(ctx)
		case <-w.hints:
			w.beatAll(ctx)
		}
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
	return nil
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

// takeOver frees the tasks of workers that have gone silent.
func (w *Worker) takeOver(ctx context.Context) {
	if time.Now().Before(w.patience) || time.Since(w.lastBeat) > w.cfg.Lease/2 || w.draining.Load() {
		return
	}
	for name := range w.cfg.Queues {
		if err := w.takeOverQueue(ctx, name); err != nil {
			w.quiet.note(w.log, "Takeover", err)
			return
		}
	}
}

func (w *Worker) takeOverQueue(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, takeoverTimeout)
	defer cancel()
	silent, err := w.store.Silent(ctx, name, w.cfg.Lease)
	if err != nil || !silent {
		return err
	}
	if w.cfg.BeforeTakeover != nil {
		w.cfg.BeforeTakeover()
	}
	t, err := w.store.Takeover(ctx, name, w.cfg.Lease, w.cfg.MaxInterruptions)
	if err != nil {
		return err
	}
	for range t.Freed + t.Failed + t.Cancelled {
		w.watch.Interrupted("crash")
	}
	for range t.Failed {
		w.watch.TaskFinished(name, "", tasks.Failed, tasks.KindOrphaned, 0)
	}
	for range t.Cancelled {
		w.watch.TaskFinished(name, "", tasks.Cancelled, "", 0)
	}
	w.log.Warn("Took over from a worker that went silent", "queue", name, "freed", t.Freed, "failed", t.Failed, "cancelled", t.Cancelled)
	return nil
}

const takeoverTimeout = 10 * time.Second
