package tasks

import "encoding/json"

// Task is the record of one piece of work, as every reader sees it. Optional fields that are empty are omitted from
// its JSON.
type Task struct {
	// ID is "<queue>.<ulid>": unguessable, sortable by creation, and it says where the record lives.
	ID string `json:"id"`
	// Handle is the short form people type: "bg_0", "bg_1", ... in queue default, "<queue>_0" elsewhere. It counts
	// per owner and queue, is never reused, and is accepted wherever an id is, together with the owner.
	Handle string `json:"handle,omitempty"`
	// Owner is who the task belongs to: a conversation, session, tenant or service.
	Owner string `json:"owner"`
	Type  string `json:"type"`
	Queue string `json:"queue"`

	Name        string            `json:"name,omitempty"`
	Description string            `json:"description,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`

	Status Status `json:"status"`
	// Progress runs from 0 to 1. It is what the handler reported last, and 1 once the task is completed.
	Progress float64 `json:"progress"`
	// Attempt counts the bodies that were started.
	Attempt int `json:"attempt"`
	// MaxRetries bounds how often a failed attempt is tried again.
	MaxRetries int `json:"max_retries"`
	// Interruptions counts attempts cut short by a crash or a drain. They never spend a retry.
	Interruptions int `json:"interruptions,omitempty"`

	Payload json.RawMessage `json:"payload,omitempty"`
	// Result is what the handler returned. A failed attempt may leave one too (an exec task's exit code).
	Result json.RawMessage `json:"result,omitempty"`
	// Output is the tail of the text the handler wrote so far; OutputCut counts the bytes dropped in front of it.
	Output    string `json:"output,omitempty"`
	OutputCut int64  `json:"output_cut,omitempty"`

	Error *Error `json:"error,omitempty"`
	// Errors holds the last 10 failed attempts, oldest first.
	Errors []Failure `json:"errors,omitempty"`

	Parent *Parent `json:"parent,omitempty"`
	Cancel *Cancel `json:"cancel,omitempty"`
	Notify *Notify `json:"notify,omitempty"`

	Backoff *Backoff `json:"backoff,omitempty"`
	// Timeout bounds one attempt; zero means none.
	Timeout Duration `json:"timeout,omitempty"`
	// Deadline is the moment after which the task fails with kind "expired", whatever its retries.
	Deadline Time `json:"deadline,omitzero"`
	// Retention is how long the record stays readable after the end.
	Retention Duration `json:"retention,omitempty"`

	// Worker names the process that runs the task, or ran it last.
	Worker string `json:"worker,omitempty"`
	// Version grows with every change of the record; it is the ETag.
	Version int64 `json:"version"`

	CreatedAt   Time `json:"created_at"`
	ScheduledAt Time `json:"scheduled_at,omitzero"` // when it becomes (or became) eligible to run, if delayed or retried
	StartedAt   Time `json:"started_at,omitzero"`   // start of the latest attempt
	CompletedAt Time `json:"completed_at,omitzero"`
	ExpiresAt   Time `json:"expires_at,omitzero"` // retention counts from completion
}

// Parent says what a task was started from. All fields are optional.
type Parent struct {
	TaskID  string `json:"task_id,omitempty"`
	RunID   string `json:"run_id,omitempty"`
	CallID  string `json:"call_id,omitempty"`
	AgentID string `json:"agent_id,omitempty"`
}

// Cancel records a request to cancel. It stays on the task after the end.
type Cancel struct {
	RequestedAt Time   `json:"requested_at"`
	By          string `json:"by,omitempty"`
	Reason      string `json:"reason,omitempty"`
	// Abandoned is set when the handler ignored its cancelled context for longer than cancel_grace: the task has
	// ended, its goroutine may still hold a slot.
	Abandoned bool `json:"abandoned,omitempty"`
}

// Notify says who wants to hear the end.
type Notify struct {
	// OnComplete records a completion for the owner to claim.
	OnComplete bool `json:"on_complete,omitempty"`
	// Outcomes limits it to these terminal statuses; empty means all three.
	Outcomes []Status `json:"outcomes,omitempty"`
	Webhook  *Webhook `json:"webhook,omitempty"`
}

// Webhook is where the end is posted to. SecretRef names an entry of webhooks.secrets, never the secret itself.
type Webhook struct {
	URL       string `json:"url"`
	SecretRef string `json:"secret_ref,omitempty"`
}

// Backoff is the retry schedule: exponential from Base to Max, with full jitter. A zero field means its default
// (1 s, 10 min).
type Backoff struct {
	Base Duration `json:"base,omitempty"`
	Max  Duration `json:"max,omitempty"`
}

// Ref names one task on behalf of somebody.
type Ref struct {
	// ID is a task's id or, together with Owner, its handle.
	ID string
	// Owner must be the task's owner; anybody else sees [ErrNotFound]. Empty means an operator, who sees every task.
	Owner string
}

// Change is what an operation did to one task.
type Change struct {
	ID   string `json:"id"`
	From Status `json:"from"`
	To   Status `json:"to"`
}
