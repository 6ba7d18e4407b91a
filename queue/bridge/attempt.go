package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"offstage/tasks"
)

// Attempt is one run of one task's body by one worker. Its epoch fences its writes: once another attempt has begun,
// they change nothing.
type Attempt struct {
	Task    *tasks.Task // as it was when the attempt began; Payload holds JSON
	Payload []byte      // the bytes the producer sent
	Headers map[string]string
	Epoch   int64
	Tries   int       // failed attempts of this run so far
	Began   time.Time // by Redis' clock
	Waited  time.Duration
	Written int64 // bytes of output that earlier attempts left

	at address
}

// errUndecodable: a task's message cannot be read, so no record was made for it.
var errUndecodable = fmt.Errorf("adopt: %w", errMessage)

// take moves up to n waiting tasks of a queue to worker and opens their attempts. messages are asynq's, one for each
// attempt.
func (s *Store) take(ctx context.Context, queue, worker string, n int) (attempts []*Attempt, messages [][]byte, err error) {
	keys := []string{asynqPrefix(queue) + "pending", ourPrefix(queue) + "counts"}
	v, err := s.run(ctx, OpBegin, takeScript, queue, keys, worker, n)
	if err != nil {
		return nil, nil, err
	}
	reply := list(v)
	now := code(reply)
	for _, item := range reply[min(1, len(reply)):] {
		taken := list(item)
		if len(taken) != 3 {
			continue
		}
		raw := []byte(text(taken[1]))
		at := address{queue, text(taken[0])}
		attempt, aerr := s.open(ctx, at, worker, raw, flatRecord(taken[2]), now)
		if aerr != nil {
			err = aerr
			continue
		}
		attempts, messages = append(attempts, attempt), append(messages, raw)
	}
	return attempts, messages, err
}

// open makes the Attempt of a taken task; one without a record is adopted first.
func (s *Store) open(ctx context.Context, at address, worker string, raw []byte, rec record, now int64) (*Attempt, error) {
	msg, err := parseMessage(raw)
	if err != nil {
		return nil, errUndecodable
	}
	if len(rec) == 0 {
		if rec, err = s.adopt(ctx, at, worker, msg, len(raw)); err != nil {
			return nil, err
		}
	}
	task := rec.task(at)
	task.Payload = rawJSON(msg.payload)
	return &Attempt{
		Task: task, Payload: msg.payload, Headers: msg.headers, Epoch: rec.int("epoch"), Tries: int(rec.int("tries")),
		Began: time.UnixMilli(now), Waited: time.Duration(max(now-rec.int("due"), 0)) * time.Millisecond, Written: rec.int("olen"), at: at,
	}, nil
}

// ownerHeader is the header by which a plain asynq producer names the owner of a task.
const ownerHeader = "offstage-owner"

// adopt makes the record of a task that a plain asynq producer enqueued.
func (s *Store) adopt(ctx context.Context, at address, worker string, m message, size int) (record, error) {
	owner := m.headers[ownerHeader]
	if owner == "" || len(owner) > tasks.MaxOwnerBytes {
		owner = "asynq"
	}
	spec := Spec{MaxRetries: m.retry, TimeoutMS: m.timeout.Milliseconds()}
	if !m.deadline.IsZero() {
		spec.DeadlineMS = m.deadline.UnixMilli()
	}
	keep := m.retention
	if keep <= 0 {
		keep = tasks.DefaultLimits().Retention
	}
	text, _ := json.Marshal(spec) // numbers: cannot fail
	v, err := s.runAgain(ctx, OpBegin, adoptScript, at.queue, []string{at.record(), at.message()},
		at.id, worker, owner, m.typ, text, keep.Milliseconds(), size)
	if err != nil {
		return nil, err
	}
	reply := list(v)
	if len(reply) != 2 {
		return nil, fmt.Errorf("adopt %s: redis answered %v", at.public(), reply)
	}
	return flatRecord(reply[1]), nil
}

// Outcome is how an attempt ended.
type Outcome string

// The outcomes of an attempt.
const (
	Completed Outcome = "completed"
	Failed    Outcome = "failed"
	Cancelled Outcome = "cancelled"
	Retry     Outcome = "retry"
	Release   Outcome = "release" // back to the front of the queue; spends no retry
)

// End is what is written when an attempt ends. Only Outcome is required.
type End struct {
	Outcome Outcome
	Result  json.RawMessage
	Error   *tasks.Error // for Failed and Retry
	// Failures replaces the record's list of failed attempts; nil leaves it.
	Failures  []tasks.Failure
	Delay     time.Duration // before the next attempt, for Retry and Release
	Notice    *tasks.Notice
	Output    string // written since the last [Store.WriteOutput]
	OutputAt  int64  // the byte where it begins
	Abandoned bool   // the body still runs
}

func (e *End) op() string {
	switch e.Outcome {
	case Retry:
		return OpRetry
	case Release:
		return OpRelease
	}
	return OpComplete
}

// Ended is what became of an [End].
type Ended struct {
	// Status is the task's status now. A task that was asked to cancel is cancelled, whatever the outcome was.
	Status tasks.Status
	// Stale: another attempt has the task, or it is gone; nothing was written.
	Stale bool
	// CancelLatency is the time from the request to cancel to this end; zero when none was made.
	CancelLatency time.Duration
}

// End writes the end of an attempt, together with asynq's move. It may be called again until it returns nil: the
// script recognises an end it has written. Errors: *OpError.
func (s *Store) End(ctx context.Context, a *Attempt, e End) (Ended, error) {
	now := time.Now().UTC()
	v, err := s.runAgain(ctx, e.op(), endScript, a.at.queue, []string{a.at.record(), a.at.message()},
		a.at.id, a.Epoch, string(e.Outcome), string(e.Result), jsonOrEmpty(e.Error), jsonOrEmpty(&e.Failures),
		e.overlay(a, now), e.Delay.Milliseconds(), jsonOrEmpty(e.Notice), now.Format(time.DateOnly), e.Output,
		flag(e.Abandoned), e.OutputAt)
	if err != nil {
		return Ended{}, err
	}
	reply := list(v)
	switch code(reply) {
	case 1:
		ended := Ended{Status: tasks.Status(text(reply[1]))}
		if asked := integer(reply[3]); asked > 0 {
			ended.CancelLatency = time.Duration(integer(reply[2])-asked) * time.Millisecond
		}
		return ended, nil
	case 2:
		return Ended{Status: tasks.Status(text(reply[1]))}, nil
	}
	s.watch.StaleWrite(e.op())
	ended := Ended{Stale: true}
	if len(reply) > 1 {
		ended.Status = tasks.Status(text(reply[1]))
	}
	return ended, nil
}

// overlay is what asynq's tools shall show of the end.
func (e *End) overlay(a *Attempt, now time.Time) []byte {
	switch e.Outcome {
	case Completed:
		return completedOverlay(a.Tries, now)
	case Cancelled:
		return failedOverlay(a.Tries, "cancelled", now)
	case Retry, Failed:
		msg := ""
		if e.Error != nil {
			msg = string(e.Error.Kind) + ": " + e.Error.Message
		}
		tries := a.Tries
		if e.Outcome == Retry {
			tries++
		}
		return failedOverlay(tries, msg, now)
	}
	return nil
}

func jsonOrEmpty[T any](v *T) string {
	if v == nil {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil || string(b) == "null" || string(b) == "[]" || string(b) == "{}" {
		return ""
	}
	return string(b)
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return ""
}
