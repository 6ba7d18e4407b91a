package worker

import (
	"encoding/json"
	"time"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// Spool keeps outcomes on disk that Redis does not take. Package spool has one.
type Spool interface {
	// Put keeps data under key, durably when it returns nil.
	Put(key string, data []byte) error
	// Get gives it back; false when there is nothing under key.
	Get(key string) ([]byte, bool, error)
	Has(key string) bool
	Remove(key string) error
	// Keys lists what is kept, oldest first.
	Keys() []string
	// Check reports why nothing could be kept now.
	Check() error
}

// spooled is an end on disk.
type spooled struct {
	Mark bridge.Mark `json:"mark"`
	Type string      `json:"type"`
	End  bridge.End  `json:"end"`
}

func encodeSpooled(a *bridge.Attempt, end bridge.End) []byte {
	b, _ := json.Marshal(spooled{a.Mark(), a.Task.Type, end}) // texts and numbers: cannot fail
	return b
}

// spooledEnd reads an end from disk. One that cannot be read is left where it is, for a person.
func (w *Worker) spooledEnd(key string) (s spooled, ok bool) {
	if w.cfg.Spool == nil || !w.cfg.Spool.Has(key) {
		return s, false
	}
	b, ok, err := w.cfg.Spool.Get(key)
	if err == nil && ok {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		w.quiet.note(w.log, "Read spool", err)
	}
	return s, ok && err == nil
}

// replay records what the spool keeps, of those queues whose Redis is there.
func (w *Worker) replay() {
	if w.cfg.Spool == nil {
		return
	}
	for _, key := range w.cfg.Spool.Keys() {
		s, ok := w.spooledEnd(key)
		if _, mine := w.cfg.Queues[s.Mark.Queue]; !ok || mine && !w.met(s.Mark.Queue) {
			continue
		}
		ended, err := w.tryCommit(s.Mark, s.End)
		if err != nil {
			w.quiet.note(w.log, "Replay", err)
			return
		}
		w.unspool(key)
		w.reportReplayed(key, s, ended)
	}
}

func (w *Worker) reportReplayed(id string, s spooled, ended bridge.Ended) {
	if ended.Stale {
		w.watch.AttemptEnded(s.Mark.Queue, s.Type, "stale")
		w.log.Warn("Spooled outcome dropped: another attempt has the task", "task_id", id, "status", ended.Status)
		return
	}
	w.watch.AttemptEnded(s.Mark.Queue, s.Type, string(s.End.Outcome))
	w.watch.Repaired("spooled")
	w.log.Info("Spooled outcome recorded", "task_id", id, "status", ended.Status)
	if ended.Status.Terminal() {
		kind := tasks.Kind("")
		if ended.Status == tasks.Failed && s.End.Error != nil {
			kind = s.End.Error.Kind
		}
		w.watch.TaskFinished(s.Mark.Queue, s.Type, ended.Status, kind, 0)
	}
}

func (w *Worker) unspool(key string) {
	if err := w.cfg.Spool.Remove(key); err != nil {
		w.quiet.note(w.log, "Spool", err) // replayed again, and recognised
	}
}

// settle ends an attempt whose outcome this process' spool has: an earlier attempt did the work, and Redis did not hear
// of it in time. It reports whether there was one.
func (w *Worker) settle(a *bridge.Attempt) bool {
	s, ok := w.spooledEnd(a.Task.ID)
	if !ok {
		return false
	}
	again := s.End.Outcome == bridge.Release || s.End.Outcome == bridge.Retry // say nothing but "run it again"
	if again || w.written(s) {
		w.unspool(a.Task.ID)
		return false
	}
	if ended, ok := w.commit(a, s.End); ok {
		w.unspool(a.Task.ID)
		w.reportReplayed(a.Task.ID, s, ended)
	}
	return true
}

// written reports whether Redis took a spooled end at the time and only the reply was lost. Then the attempt at hand was
// begun for a reason: somebody asked for the task to be run again.
func (w *Worker) written(s spooled) bool {
	ended, err := w.tryCommit(s.Mark, s.End)
	return err == nil && !ended.Stale
}

// spoolCheckEvery is how old the answer may be that the spool can be written.
const spoolCheckEvery = time.Second

// spoolState says why the spool could not keep an outcome now; nil when it could, or when there is none.
func (w *Worker) spoolState() error {
	if w.cfg.Spool == nil {
		return nil
	}
	w.facts.Lock()
	defer w.facts.Unlock()
	if time.Since(w.spoolChecked) >= spoolCheckEvery {
		w.spoolErr, w.spoolChecked = w.cfg.Spool.Check(), time.Now()
	}
	return w.spoolErr
}
