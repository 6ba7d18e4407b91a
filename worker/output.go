package worker

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"offstage/queue/bridge"
)

// The pace and the bounds of output.
const (
	flushAfter = 100 * time.Millisecond
	flushAgain = time.Second // when Redis did not take it
	flushSize  = 16 << 10
	keepSize   = 256 << 10 // what waits for a Redis that is away
	tailSize   = 64 << 10  // what the terminal event's tail is cut from
)

// outputWriter collects what a body writes and stores it in the background. There is no goroutine while nothing waits.
type outputWriter struct {
	w *Worker
	a *bridge.Attempt

	flushing sync.Mutex // one write to Redis at a time, in order

	mu      sync.Mutex
	rest    []byte // bytes of a rune that is not complete yet
	pending []byte // not stored yet
	at      int64  // where pending begins in everything the task wrote
	tail    []byte
	before  int64 // characters in front of tail
	timer   *time.Timer
	closed  bool
}

func newOutputWriter(w *Worker, a *bridge.Attempt) *outputWriter {
	return &outputWriter{w: w, a: a, at: a.Written}
}

// Write takes p, always.
func (o *outputWriter) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return len(p), nil
	}
	o.append(p)
	wait := flushAfter
	if len(o.pending) >= flushSize {
		wait = 0
	}
	o.arm(wait)
	return len(p), nil
}

// arm has what is pending flushed after wait, unless it will be already.
func (o *outputWriter) arm(wait time.Duration) {
	if o.timer != nil || o.closed || len(o.pending) == 0 {
		return
	}
	o.w.bodies.wg.Add(1) // the flush is waited for at shutdown
	o.timer = time.AfterFunc(wait, func() { defer o.w.bodies.wg.Done(); o.flush() })
}

// append keeps whole runes and makes them valid.
func (o *outputWriter) append(p []byte) {
	p = append(o.rest, p...)
	cut := len(p) - incomplete(p)
	o.rest = append([]byte(nil), p[cut:]...)
	text := strings.ToValidUTF8(string(p[:cut]), "\uFFFD")
	o.pending = append(o.pending, text...)
	if over := len(o.pending) - keepSize; over > 0 {
		for over < len(o.pending) && !utf8.RuneStart(o.pending[over]) {
			over++
		}
		o.pending, o.at = o.pending[over:], o.at+int64(over)
	}
	o.tail = append(o.tail, text...)
	if over := len(o.tail) - tailSize; over > tailSize {
		for !utf8.RuneStart(o.tail[over]) {
			over++
		}
		o.before += int64(utf8.RuneCount(o.tail[:over]))
		o.tail = append([]byte(nil), o.tail[over:]...)
	}
}

// incomplete says how many bytes at the end of p may begin a rune that goes on in the next write.
func incomplete(p []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(p)); n++ {
		if b := p[len(p)-n]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(p[len(p)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// flush stores what is pending; what Redis did not take stays and is tried again.
func (o *outputWriter) flush() {
	o.flushing.Lock()
	defer o.flushing.Unlock()
	o.mu.Lock()
	text, at := string(o.pending), o.at
	o.timer = nil
	o.mu.Unlock()
	if text == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	err := o.w.store.WriteOutput(ctx, o.a, text, at)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil { // counted by the store
		o.arm(flushAgain)
		return
	}
	done := at + int64(len(text)) - o.at
	if done > 0 {
		o.pending, o.at = o.pending[done:], o.at+done
	}
}

// finish gives what is not stored yet, for the end to carry, and the tail of everything. Later writes are dropped.
func (o *outputWriter) finish() (text string, at int64, tail string, before int64) {
	o.mu.Lock()
	o.closed = true
	if o.timer != nil && o.timer.Stop() {
		o.w.bodies.wg.Done()
	}
	o.mu.Unlock()
	o.flushing.Lock() // a flush under way settles first
	defer o.flushing.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.rest) > 0 {
		o.pending, o.tail = append(o.pending, "\uFFFD"...), append(o.tail, "\uFFFD"...)
		o.rest = nil
	}
	return string(o.pending), o.at, string(o.tail), o.before
}
