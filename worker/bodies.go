package worker

import (
	"bytes"
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// body is one running handler.
type body struct {
	attempt *bridge.Attempt
	cancel  context.CancelCauseFunc
	began   time.Time
	ended   bool // its end is being recorded, or has been; guarded by bodies.mu
}

// bodies counts slots and knows what runs. A slot is taken before a task is, and given back when its handler has
// returned, so there are never more bodies than slots, whatever asynq thinks.
type bodies struct {
	mu      sync.Mutex
	slots   int
	used    int
	closed  bool  // no new slot
	ended   error // the cause with which every body's context ends, also of those yet to begin; nil before cancelAll
	running map[string]*body
	wg      sync.WaitGroup
}

func newBodies(slots int) *bodies { return &bodies{slots: slots, running: map[string]*body{}} }

// acquire takes a slot.
func (b *bodies) acquire() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.used >= b.slots {
		return false
	}
	b.used++
	return true
}

func (b *bodies) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used--
}

// close refuses new slots.
func (b *bodies) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// add notes a body; it reports false when one of the same task runs still.
func (b *bodies) add(x *body) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := x.attempt.Task.ID
	if _, dup := b.running[id]; dup {
		return false
	}
	b.running[id] = x
	if b.ended != nil {
		x.cancel(b.ended)
	}
	return true
}

func (b *bodies) remove(x *body) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, x.attempt.Task.ID)
}

// inUse counts the slots that are taken.
func (b *bodies) inUse() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// end marks that a body's end is about to be recorded, so that heartbeats do not take it for lost.
func (b *bodies) end(x *body) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x.ended = true
}

// live reports whether the body's end is still open.
func (b *bodies) live(x *body) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !x.ended
}

// held lists the bodies of a queue whose end is open.
func (b *bodies) held(queue string) []*body {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []*body
	for _, x := range b.running {
		if x.attempt.Task.Queue == queue && !x.ended {
			list = append(list, x)
		}
	}
	return list
}

// known lists the tasks that have a slot.
func (b *bodies) known() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.running))
}

// cancelAll ends the context of every body, also of one whose task has been taken and that is about to begin.
func (b *bodies) cancelAll(cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = cause
	for _, x := range b.running {
		x.cancel(cause)
	}
}

// idle waits until no slot is taken; it reports false when d was over first or stop closed.
func (b *bodies) idle(d time.Duration, stop <-chan struct{}) bool {
	return await(d, stop, func() bool { return b.inUse() == 0 })
}

// returned waits until every body has returned or been given up; the ends of some may not be recorded yet. It reports
// as idle does.
func (b *bodies) returned(d time.Duration, stop <-chan struct{}) bool {
	return await(d, stop, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, x := range b.running {
			if !x.ended {
				return false
			}
		}
		return true
	})
}

func await(d time.Duration, stop <-chan struct{}, ok func() bool) bool {
	deadline := time.NewTimer(max(d, 0))
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return false
		case <-stop:
			return false
		}
	}
	return true
}

// result is what a handler left.
type result struct {
	value any
	err   error
}

// call runs a handler to its end in a goroutine of its own. The goroutine's number, by which a stuck one is found in a
// dump, comes first; the result comes when the handler has returned, panicked or ended its goroutine.
func (b *bodies) call(ctx context.Context, h Handler, job *Job) (id <-chan []byte, done <-chan result) {
	ids, out := make(chan []byte, 1), make(chan result, 1)
	b.wg.Go(func() {
		r := result{err: errGoexit}
		defer func() {
			if p := recover(); p != nil {
				r = result{err: newPanicError(p)}
			}
			out <- r
		}()
		ids <- goroutine()
		r.value, r.err = h(ctx, job)
	})
	return ids, out
}

// goroutine is "goroutine N " of the caller.
func goroutine() []byte {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	return append([]byte(nil), buf[:bytes.IndexByte(buf, '[')]...)
}

// stackOf finds a goroutine in a dump of all.
func stackOf(id []byte) string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	i := bytes.Index(buf, id)
	if i < 0 {
		return ""
	}
	stack, _, _ := bytes.Cut(buf[i:], []byte("\n\n"))
	return tasks.CleanMessage(string(stack))
}
