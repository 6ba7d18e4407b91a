package worker

import (
	"context"
	"time"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// reconcileEvery is how often a queue is looked through for records and queue entries that disagree, by one of its
// workers.
const reconcileEvery = 10 * time.Second

// upkeep does what the queues need beside running tasks, until ctx ends: it records what the spool keeps, takes over
// from workers that went silent, and mends what tools without the bridge, edits by hand or a restore left behind.
func (w *Worker) upkeep(ctx context.Context) {
	tick := time.NewTicker(w.cfg.Heartbeat)
	defer tick.Stop()
	reconciled := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.replay()
		if w.draining.Load() {
			continue
		}
		w.takeOver(ctx)
		if time.Since(reconciled) >= reconcileEvery {
			reconciled = time.Now()
			w.reconcile(ctx)
		}
	}
}

// takeOver frees the tasks of workers that have gone silent.
func (w *Worker) takeOver(ctx context.Context) {
	for name := range w.cfg.Queues {
		if !w.calm(name) {
			continue
		}
		if err := w.takeOverQueue(ctx, name); err != nil {
			w.quiet.note(w.log, "Takeover", err)
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
	w.freed(name, t)
	w.log.Warn("Took over from a worker that went silent", "queue", name, "freed", t.Freed, "failed", t.Failed, "cancelled", t.Cancelled)
	return nil
}

// freed counts what a takeover did.
func (w *Worker) freed(name string, t bridge.Takeover) {
	for range t.Freed + t.Failed + t.Cancelled {
		w.watch.Interrupted("crash")
	}
	for range t.Failed {
		w.watch.TaskFinished(name, "", tasks.Failed, tasks.KindOrphaned, 0)
	}
	for range t.Cancelled {
		w.watch.TaskFinished(name, "", tasks.Cancelled, "", 0)
	}
}

const takeoverTimeout = 10 * time.Second
