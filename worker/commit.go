package worker

import (
	"context"
	"errors"
	"time"

	"offstage/queue/bridge"
)

// The pace of committing while Redis does not take it.
const (
	commitTimeout  = 5 * time.Second
	firstCommitGap = 100 * time.Millisecond
	lastCommitGap  = 2 * time.Second
)

// commit writes an end. While Redis does not take it, it tries again, with the slot kept and the worker beating; after
// CommitHold the end goes to the spool and the slot is free. Without a spool, or when the spool takes nothing either,
// it goes on until the worker is made to stop. ok is false when the end was not written to Redis.
func (w *Worker) commit(a *bridge.Attempt, end bridge.End) (ended bridge.Ended, ok bool) {
	began, gap := time.Now(), firstCommitGap
	for try := 1; ; try++ {
		ended, err := w.tryCommit(a.Mark(), end)
		if err == nil {
			if try > 1 {
				w.watch.CommitPending(-1)
				w.log.Info("Outcome recorded at last", "task_id", a.Task.ID, "outcome", end.Outcome, "tries", try)
			}
			return ended, true
		}
		if try == 1 {
			w.watch.CommitPending(1)
			w.log.Error("Outcome not recorded, trying on", "task_id", a.Task.ID, "outcome", end.Outcome, "err", err)
		}
		// Not before a try that failed: Redis may have come back during the pause.
		kept := time.Since(began) >= w.cfg.CommitHold && w.spoolEnd(a, end)
		if !kept && pauseFor(gap, w.giveUp) {
			gap = min(gap*2, lastCommitGap)
			continue
		}
		if !kept {
			w.spoolEnd(a, end)
		}
		w.watch.CommitPending(-1)
		return bridge.Ended{}, false
	}
}

func (w *Worker) tryCommit(m bridge.Mark, end bridge.End) (bridge.Ended, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	return w.store.EndMarked(ctx, m, end)
}

// pauseFor waits for d; it reports false when stop was closed before.
func pauseFor(d time.Duration, stop <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-stop:
		return false
	}
}

var errNoSpool = errors.New("there is no spool")

// spoolEnd keeps an end on disk until Redis takes it; it reports whether it is safe there.
func (w *Worker) spoolEnd(a *bridge.Attempt, end bridge.End) bool {
	err := errNoSpool
	if w.cfg.Spool != nil {
		err = w.cfg.Spool.Put(a.Task.ID, encodeSpooled(a, end))
	}
	if err != nil {
		w.quiet.note(w.log, "Spool", err)
		return false
	}
	w.log.Warn("Outcome spooled until Redis takes it", "task_id", a.Task.ID, "outcome", end.Outcome)
	return true
}
