package bridge

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
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

// take moves up to n waiting tasks of a queue to worker and opens their attempts. messages are asynq's, one for each
// attempt. After an error, the next take of the worker gives what this one may have moved.
func (s *Store) take(ctx context.Context, queue, worker string, n int) (attempts []*Attempt, messages [][]byte, err error) {
	for more := true; more && len(attempts) == 0 && err == nil; {
		attempts, messages, more, err = s.takeSome(ctx, queue, worker, n)
	}
	return attempts, messages, err
}

// takeSome is take with one script, which looks at a bounded number of entries. more says that there are others.
func (s *Store) takeSome(ctx context.Context, queue, worker string, n int) (attempts []*Attempt, messages [][]byte, more bool, err error) {
	name, again := s.owed.LoadAndDelete(address{queue, worker})
	if !again {
		name = worker + " " + rand.Text()[:10]
	}
	defer func() {
		if err != nil {
			s.owed.Store(address{queue, worker}, name)
		}
	}()
	keys := []string{asynqPrefix(queue) + "pending", ourPrefix(queue) + "counts"}
	v, err := s.run(ctx, OpBegin, takeScript, queue, keys, worker, n, name, flag(again))
	if err != nil {
		return nil, nil, false, err
	}
	reply := list(v)
	if len(reply) < 3 {
		return nil, nil, false, nil
	}
	for kinds := stringList(reply[2]); len(kinds) > 1; kinds = kinds[2:] {
		if kinds[0] == "ghost" {
			s.watch.Repaired(kinds[0])
			continue
		}
		s.watch.TaskFinished(queue, kinds[1], tasks.Failed, tasks.Kind(kinds[0]), 0)
	}
	for _, item := range reply[3:] {
		taken := list(item)
		if len(taken) != 3 {
			continue
		}
		raw := []byte(text(taken[1]))
		at := address{queue, text(taken[0])}
		attempt, aerr := s.open(ctx, at, worker, raw, flatRecord(taken[2]), code(reply))
		if aerr != nil {
			return nil, nil, false, aerr // the others are given with it, next time
		}
		if attempt != nil {
			attempts, messages = append(attempts, attempt), append(messages, raw)
		}
	}
	return attempts, messages, integer(reply[1]) == 1, nil
}

// open makes the Attempt of a taken task; one without a record is adopted first. A task whose message cannot be read
// fails here, and there is no Attempt.
func (s *Store) open(ctx context.Context, at address, worker string, raw []byte, rec record, now int64) (*Attempt, error) {
	msg, bad := parseMessage(raw)
	if len(rec) == 0 {
		var err error
		if rec, err = s.adopt(ctx, at, worker, msg, len(raw)); err != nil {
			return nil, err
		}
	}
	a := &Attempt{
		Task: rec.task(at), Payload: msg.payload, Headers: msg.headers, Epoch: rec.int("epoch"), Tries: int(rec.int("tries")),
		Began: time.UnixMilli(now), Waited: time.Duration(max(now-rec.int("due"), 0)) * time.Millisecond, Written: rec.int("olen"), at: at,
	}
	a.Task.Payload = rawJSON(msg.payload)
	if bad != nil {
		_, err := s.End(ctx, a, End{Outcome: Failed, Error: &tasks.Error{Kind: tasks.KindLost, Message: bad.Error()}})
		return nil, err
	}
	return a, nil
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
		at.id, worker, owner, m.typ, text, keep.Milliseconds(), size, spec.DeadlineMS)
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
	// Release puts the task back to the front of the queue, as an interruption; with a Delay it takes back an attempt
	// whose body never began. Neither spends a retry.
	Release Outcome = "release"
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

// Mark is what of an attempt its end needs. It can be stored, and ended in another process.
type Mark struct {
	Queue string `json:"queue"`
	ID    string `json:"id"` // asynq's
	Epoch int64  `json:"epoch"`
	Tries int    `json:"tries"`
}

// Mark gives the attempt's.
func (a *Attempt) Mark() Mark { return Mark{a.at.queue, a.at.id, a.Epoch, a.Tries} }

// End writes the end of an attempt, together with asynq's move. It may be called again until it returns nil: the
// script recognises an end it has written. Errors: *OpError.
func (s *Store) End(ctx context.Context, a *Attempt, e End) (Ended, error) {
	return s.EndMarked(ctx, a.Mark(), e)
}

// EndMarked is End for an attempt of which only the mark is left.
func (s *Store) EndMarked(ctx context.Context, m Mark, e End) (Ended, error) {
	v, err := s.end(ctx, m, e, false)
	if failed, ok := errors.AsType[*OpError](err); ok && failed.Reason == ReasonOOM {
		// What has ended must not wait for memory: nothing would ever be freed.
		v, err = s.end(ctx, m, e, true)
	}
	if err != nil {
		return Ended{}, err
	}
	return s.ended(e, list(v)), nil
}

// end runs the script, although Redis is out of memory if regardless is set.
func (s *Store) end(ctx context.Context, m Mark, e End, regardless bool) (any, error) {
	now, at := time.Now().UTC(), address{m.Queue, m.ID}
	return s.runAgain(ctx, e.op(), endScript, at.queue, []string{at.record(), at.message()},
		at.id, m.Epoch, string(e.Outcome), string(e.Result), jsonOrEmpty(e.Error), jsonOrEmpty(&e.Failures),
		e.overlay(m, now), e.Delay.Milliseconds(), jsonOrEmpty(e.Notice), now.Format(time.DateOnly), e.Output,
		flag(e.Abandoned), e.OutputAt, (&End{Outcome: Cancelled}).overlay(m, now), flag(regardless))
}

// ended reads end.lua's reply.
func (s *Store) ended(e End, reply []any) Ended {
	switch code(reply) {
	case 1:
		ended := Ended{Status: tasks.Status(text(reply[1]))}
		if asked := integer(reply[3]); asked > 0 {
			ended.CancelLatency = time.Duration(integer(reply[2])-asked) * time.Millisecond
		}
		return ended
	case 2:
		return Ended{Status: tasks.Status(text(reply[1]))}
	}
	s.watch.StaleWrite(e.op())
	ended := Ended{Stale: true}
	if len(reply) > 1 {
		ended.Status = tasks.Status(text(reply[1]))
	}
	return ended
}

// overlay is what asynq's tools shall show of the end.
func (e *End) overlay(m Mark, now time.Time) []byte {
	switch e.Outcome {
	case Completed:
		return completedOverlay(m.Tries, now)
	case Cancelled:
		return failedOverlay(m.Tries, "cancelled", now)
	case Retry, Failed:
		msg := ""
		if e.Error != nil {
			msg = string(e.Error.Kind) + ": " + e.Error.Message
		}
		tries := m.Tries
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
