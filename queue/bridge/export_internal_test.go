package bridge

import (
	"context"
	"maps"
	"time"
)

// What the tests of this package need of its inside. They are black-box otherwise.

// Take is how a Server takes tasks.
func (s *Store) Take(ctx context.Context, queue, worker string, n int) ([]*Attempt, [][]byte, error) {
	return s.take(ctx, queue, worker, n)
}

// Forward is how a Server forwards delayed tasks.
func (s *Store) Forward(ctx context.Context, queue string) (int64, error) {
	return s.forward(ctx, queue)
}

// AsynqScripts gives the known scripts of asynq, SHA-1 to name.
func AsynqScripts() map[string]string {
	m := map[string]string{}
	for sha, name := range maps.All(asynqScripts) {
		m[sha] = string(name)
	}
	return m
}

// Scripts gives our scripts by name, with the SHA-1 under which they are sent.
func Scripts() map[string]string {
	return map[string]string{
		"create": createScript.Hash(), "take": takeScript.Hash(), "adopt": adoptScript.Hash(), "end": endScript.Hash(),
		"cancel": cancelScript.Hash(), "rerun": rerunScript.Hash(), "delete": deleteScript.Hash(),
		"purge": purgeScript.Hash(), "forward": forwardScript.Hash(), "write": writeScript.Hash(),
		"beat": beatScript.Hash(), "leave": leaveScript.Hash(), "takeover": takeoverScript.Hash(),
	}
}

// ReasonOf sorts an error for the commit-failure counter.
func ReasonOf(err error) string { return reasonOf(err) }

// PublicID is the id that offstage shows for a task of asynq.
func PublicID(queue, id string) string { return address{queue, id}.public() }

// Locate is the inverse of PublicID.
func Locate(public string) (queue, id string, ok bool) {
	a, ok := locate(public)
	return a.queue, a.id, ok
}

// QueueOf takes the queue's name out of one of asynq's keys.
func QueueOf(key string) string { return queueOf(key) }

// Message is what the bridge reads of asynq's message.
type Message struct {
	Type      string
	Payload   []byte
	Headers   map[string]string
	Retry     int
	Timeout   time.Duration
	Deadline  time.Time
	Retention time.Duration
}

// ParseMessage reads asynq's encoding.
func ParseMessage(b []byte) (Message, error) {
	m, err := parseMessage(b)
	return Message{m.typ, m.payload, m.headers, m.retry, m.timeout, m.deadline, m.retention}, err
}

// FailedOverlay, CompletedOverlay and Unhurried change what asynq's tools show of a message.
func FailedOverlay(retried int, msg string, at time.Time) []byte {
	return failedOverlay(retried, msg, at)
}

// CompletedOverlay see FailedOverlay.
func CompletedOverlay(retried int, at time.Time) []byte { return completedOverlay(retried, at) }

// Unhurried see FailedOverlay.
func Unhurried(msg []byte, shown time.Duration) []byte { return unhurried(msg, shown) }
