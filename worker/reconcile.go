package worker

import (
	"context"
	"time"

	"offstage/queue/bridge"
)

// reconcile mends what tools without the bridge, edits by hand or a restore have left behind.
func (w *Worker) reconcile(ctx context.Context) {
	for name := range w.cfg.Queues {
		if !w.calm(name) {
			continue
		}
		if err := w.reconcileQueue(ctx, name); err != nil {
			w.quiet.note(w.log, "Reconcile", err)
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
	if err := w.freeStrays(ctx, name); err != nil {
		return err
	}
	return w.store.AddQueue(ctx, name) // asynq forgets a queue when Redis was emptied
}

// freeStrays frees tasks that Redis says this worker runs, and that it does not know of.
func (w *Worker) freeStrays(ctx context.Context, name string) error {
	known := w.bodies.known()
	if w.cfg.Spool != nil {
		known = append(known, w.cfg.Spool.Keys()...)
	}
	t, err := w.store.Strays(ctx, name, w.id, w.cfg.Lease, w.cfg.MaxInterruptions, known)
	if err != nil || t == (bridge.Takeover{}) {
		return err
	}
	w.freed(name, t)
	w.watch.Repaired("stray")
	w.log.Warn("Freed tasks that this worker should run and did not know of", "queue", name, "freed", t.Freed, "failed", t.Failed, "cancelled", t.Cancelled)
	return nil
}
