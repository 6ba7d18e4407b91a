package tasks

import "encoding/json"

// EventKind says what happened. The zero value is not a kind.
type EventKind string

// The kinds of event. A task's last event is EventCompleted, EventFailed or EventCancelled.
const (
	EventCreated   EventKind = "created"
	EventRunning   EventKind = "running"
	EventRetrying  EventKind = "retrying"
	EventProgress  EventKind = "progress"
	EventCustom    EventKind = "custom"
	EventMessage   EventKind = "message"
	EventOutput    EventKind = "output"
	EventCompleted EventKind = "completed"
	EventFailed    EventKind = "failed"
	EventCancelled EventKind = "cancelled"
)

// Terminal reports whether k ends a task's events.
func (k EventKind) Terminal() bool { return Status(k).Terminal() }

// Event is one thing that happened to a task.
type Event struct {
	// Seq counts up by one per task, from 1, across attempts and workers.
	Seq    int64     `json:"seq"`
	TaskID string    `json:"task_id"`
	Owner  string    `json:"owner"`
	Kind   EventKind `json:"kind"`
	// Type names a custom event; empty for the others.
	Type    string          `json:"type,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	At      Time            `json:"at"`

	// A terminal event carries the outcome.
	Result json.RawMessage `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`
	Notice
}

// Notice is what the end of a task says beside its result or error: how a command ended and the end of what it
// wrote. Output is at most [NoticeOutputChars] characters, without terminal escapes; OutputCut counts the characters
// dropped in front of it.
type Notice struct {
	ExitCode  *int   `json:"exit_code,omitempty"`
	Command   string `json:"command,omitempty"`
	Output    string `json:"output,omitempty"`
	OutputCut int64  `json:"output_cut,omitempty"`
}

// NoticeOutputChars bounds the output in a [Notice], in characters.
const NoticeOutputChars = 2000
