// Package tally counts what a queue and its workers report, for tests.
package tally

import (
	"maps"
	"strings"
	"sync"
	"time"

	"offstage/tasks"
)

// Counters is a queue.Observer that counts. The keys are what happened and, where there is one, its label: "started",
// "enqueued", "enqueued <queue> <type>", "attempt <outcome>", "finished <status>", "finished <status> <kind>",
// "commits" (that failed), "commit <operation>", "commit <operation> <reason>", "pending", "stale <operation>", "repaired <kind>",
// "interrupted <cause>", "cancel <scope>", "cancel latency", "stuck", "stuck ever" and "unknown script". The zero value
// is ready; all methods may be called from any goroutine.
type Counters struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *Counters) add(key string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[key] += n
}

// Get is the count of one key; 0 when it never came.
func (c *Counters) Get(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[key]
}

// Sum adds up the keys that begin with prefix.
func (c *Counters) Sum(prefix string) int {
	n := 0
	for k, v := range c.All() {
		if strings.HasPrefix(k, prefix) {
			n += v
		}
	}
	return n
}

// All is a copy of everything counted.
func (c *Counters) All() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

// TaskEnqueued implements queue.Observer, like the methods below.
func (c *Counters) TaskEnqueued(queue, typ string) {
	c.add("enqueued", 1)
	c.add("enqueued "+queue+" "+typ, 1)
}

// TaskStarted counts.
func (c *Counters) TaskStarted(string, time.Duration) { c.add("started", 1) }

// AttemptEnded counts.
func (c *Counters) AttemptEnded(_, _, outcome string) { c.add("attempt "+outcome, 1) }

// TaskFinished counts.
func (c *Counters) TaskFinished(_, _ string, s tasks.Status, k tasks.Kind, _ time.Duration) {
	c.add("finished "+string(s), 1)
	if k != "" {
		c.add("finished "+string(s)+" "+string(k), 1)
	}
}

// CommitFailed counts.
func (c *Counters) CommitFailed(operation, reason string) {
	c.add("commits", 1)
	c.add("commit "+operation, 1)
	c.add("commit "+operation+" "+reason, 1)
}

// CommitPending adds n to "pending".
func (c *Counters) CommitPending(n int) { c.add("pending", n) }

// StaleWrite counts.
func (c *Counters) StaleWrite(operation string) { c.add("stale "+operation, 1) }

// Repaired counts.
func (c *Counters) Repaired(kind string) { c.add("repaired "+kind, 1) }

// Interrupted counts.
func (c *Counters) Interrupted(cause string) { c.add("interrupted "+cause, 1) }

// CancelRequested counts.
func (c *Counters) CancelRequested(scope string) { c.add("cancel "+scope, 1) }

// CancelLatency counts.
func (c *Counters) CancelLatency(time.Duration) { c.add("cancel latency", 1) }

// StuckHandlers adds n to "stuck", and what is above 0 to "stuck ever".
func (c *Counters) StuckHandlers(n int) {
	c.add("stuck", n)
	c.add("stuck ever", max(n, 0))
}

// UnknownScript counts.
func (c *Counters) UnknownScript(string) { c.add("unknown script", 1) }
