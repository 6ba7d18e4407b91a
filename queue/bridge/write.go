package bridge

import (
	"context"
	"encoding/json"
	"strconv"

	"offstage/tasks"
)

// WriteProgress stores a running attempt's progress, 0 to 1. Errors: tasks.ErrLeaseLost when the attempt is not the
// task's current one, *OpError.
func (s *Store) WriteProgress(ctx context.Context, a *Attempt, progress float64) error {
	return s.write(ctx, a, tasks.EventProgress, "", strconv.FormatFloat(progress, 'g', 6, 64))
}

// WriteEvent appends a custom event. Errors as WriteProgress.
func (s *Store) WriteEvent(ctx context.Context, a *Attempt, typ string, payload json.RawMessage) error {
	return s.write(ctx, a, tasks.EventCustom, typ, string(payload))
}

// WriteOutput stores text that begins at byte offset of everything the task writes. Errors as WriteProgress. Storing
// the same again changes nothing.
func (s *Store) WriteOutput(ctx context.Context, a *Attempt, text string, offset int64) error {
	return s.write(ctx, a, tasks.EventOutput, "", text, offset)
}

func (s *Store) write(ctx context.Context, a *Attempt, kind tasks.EventKind, typ, value string, extra ...any) error {
	v, err := s.run(ctx, OpEvent, writeScript, a.at.queue, []string{a.at.record()},
		append([]any{a.at.id, a.Epoch, string(kind), typ, value}, extra...)...)
	if err != nil {
		return err
	}
	if integer(v) != 1 {
		s.watch.StaleWrite(OpEvent)
		return tasks.ErrLeaseLost
	}
	return nil
}
