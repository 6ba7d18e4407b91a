package worker

import (
	"context"
	"time"
)

// reconcile mends what tools without the bridge, edits by hand or a restore have left behind.
func (w *Worker) reconcile(ctx context.Context) {
	for name := range w.cfg.Queues {
		if err := w.reconcileQueue(ctx, name); err != nil {
			w.quiet.note(w.log, "Reconcile", err)
			return
		}
	}
}

func (w *Worker) reconcileQueue(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, takeoverTimeout)
	defer cancel()
	next, repairs, err := w.store.Reconcile(ctx, name, w.id, reconcileEvery-time.Second, w.ranks[name])
	w.ranks[name] = next
	if repairs > 0 {
		w.log.Warn("Repaired records and queue entries that disagreed", "queue", name, "repairs", repairs)
	}
	if err != nil {
		return err
	}
	return w.store.AddQueue(ctx, name) // asynq forgets a queue when Redis was emptied
}
