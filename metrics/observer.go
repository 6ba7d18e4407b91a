package metrics

import (
	"time"

	"offstage/tasks"
)

// TaskEnqueued counts a task that was accepted.
func (m *Metrics) TaskEnqueued(queue, typ string) {
	m.enqueued.WithLabelValues(m.queues.label(queue), m.typeLabel(typ)).Inc()
}

// TaskFinished counts a task that reached a terminal status. kind is empty unless it failed; duration is that of its
// last attempt, zero when it never ran, which is not a duration worth averaging.
func (m *Metrics) TaskFinished(queue, typ string, status tasks.Status, kind tasks.Kind, duration time.Duration) {
	queue, typ = m.queues.label(queue), m.typeLabel(typ)
	m.finished.WithLabelValues(queue, typ, string(status), string(kind)).Inc()
	if duration > 0 {
		m.duration.WithLabelValues(queue, typ).Observe(duration.Seconds())
	}
}

// AttemptEnded counts an attempt by its outcome: completed, failed, cancelled, retry, released or stale.
func (m *Metrics) AttemptEnded(queue, typ, outcome string) {
	m.attempts.WithLabelValues(m.queues.label(queue), m.typeLabel(typ), outcome).Inc()
}

// TaskStarted notes how long a task waited from being eligible to its start. Clocks that disagree can make wait
// negative; that counts as zero.
func (m *Metrics) TaskStarted(queue string, wait time.Duration) {
	m.wait.WithLabelValues(m.queues.label(queue)).Observe(max(wait, 0).Seconds())
}

// CommitFailed counts a write of a task's state that failed. See [Operations] and [Reasons].
func (m *Metrics) CommitFailed(operation, reason string) {
	m.commitFailures.WithLabelValues(operation, reasonLabel(reason)).Inc()
}

// CommitPending changes the number of ends that are not in Redis yet.
func (m *Metrics) CommitPending(delta int) { m.commitPending.Add(float64(delta)) }

// StaleWrite counts a write that an outdated attempt tried. See [Operations].
func (m *Metrics) StaleWrite(operation string) { m.staleWrites.WithLabelValues(operation).Inc() }

// Repaired counts a record that was brought back in line with asynq.
func (m *Metrics) Repaired(kind string) { m.repairs.WithLabelValues(kind).Inc() }

// Interrupted counts an attempt cut short by crash, drain or lease_lost.
func (m *Metrics) Interrupted(cause string) { m.interruptions.WithLabelValues(cause).Inc() }

// CancelRequested counts a request to cancel a task, a tree or all of an owner.
func (m *Metrics) CancelRequested(scope string) { m.cancelRequests.WithLabelValues(scope).Inc() }

// CancelLatency notes how long a cancelled task took from the request to its end.
func (m *Metrics) CancelLatency(d time.Duration) { m.cancelLatency.Observe(max(d, 0).Seconds()) }

// StuckHandlers changes the number of handlers that ignore the end of their context.
func (m *Metrics) StuckHandlers(delta int) { m.handlersStuck.Add(float64(delta)) }

// UnknownScript counts a script of asynq that went through unrecognised. The SHA is for a log, not for a label.
func (m *Metrics) UnknownScript(string) { m.unknownScripts.Inc() }
