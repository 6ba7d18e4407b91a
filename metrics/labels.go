package metrics

import (
	"slices"
	"strings"
	"sync"
)

// other stands for every label value that has no series of its own.
const other = "other"

// Operations lists the values of the operation label: the writes of a task's state.
func Operations() []string {
	return []string{
		"task_create", "task_begin", "task_completion", "task_retry", "task_release", "task_event", "task_restore",
		"notify",
	}
}

// Reasons lists the values of the reason label: why a write failed. Any other reason counts as "other".
func Reasons() []string {
	return []string{"unavailable", "timeout", "oom", "readonly", "script", other}
}

func (m *Metrics) typeLabel(typ string) string {
	if m.types[typ] {
		return typ
	}
	return other
}

func reasonLabel(reason string) string {
	if slices.Contains(Reasons(), reason) {
		return reason
	}
	return other
}

// queueNames holds the queues that have series of their own.
type queueNames struct {
	most int

	mu    sync.RWMutex
	names map[string]bool
}

func newQueueNames(most int) queueNames {
	return queueNames{most: most, names: map[string]bool{}}
}

// label is name for the first names it sees, and "other" for those beyond.
func (q *queueNames) label(name string) string {
	name = utf8Label(name)
	q.mu.RLock()
	known, full := q.names[name], len(q.names) >= q.most
	q.mu.RUnlock()
	if known {
		return name
	}
	if full {
		return other
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.names[name] && len(q.names) >= q.most {
		return other
	}
	q.names[name] = true
	return name
}

// utf8Label makes the name of a queue that a plain asynq producer chose fit for a label: the Prometheus library panics
// on invalid UTF-8.
func utf8Label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
