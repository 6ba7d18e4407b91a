package queue

import (
	"time"

	"offstage/tasks"
)

// Filter narrows [Queue.List]. Zero fields do not narrow.
type Filter struct {
	// Owner limits the list to one owner's tasks; empty lists everybody's.
	Owner    string
	Statuses []tasks.Status
	Type     string
	Queue    string
	Parent   string // task id of the parent
	// PageSize is 1-200; zero means 50.
	PageSize int
	// PageToken is NextPageToken of the page before; empty starts at the newest task.
	PageToken string
}

// Page is one page of a list, newest first. It may be shorter than asked for, or empty, and still have a
// NextPageToken: a call looks at a bounded number of records. The list is at its end when NextPageToken is empty.
type Page struct {
	Tasks         []*tasks.Task `json:"tasks"`
	NextPageToken string        `json:"next_page_token,omitempty"`
}

// BatchResult is what became of one spec of [Queue.EnqueueBatch]: exactly one of its fields is set.
type BatchResult struct {
	Task *tasks.Task
	Err  error
}

// CancelRequest says who cancels and why. Both may be empty.
type CancelRequest struct {
	By     string
	Reason string
}

// Output is a piece of what a task wrote.
type Output struct {
	// Text begins at byte Offset of everything the task wrote: at the offset asked for, or later when the front was
	// dropped already.
	Text   string
	Offset int64
	Next   int64 // where to go on
	Total  int64 // bytes written so far
	Status tasks.Status
}

// Info describes a queue.
type Info struct {
	Name   string                 `json:"name"`
	Paused bool                   `json:"paused"`
	Counts map[tasks.Status]int64 `json:"counts"` // every status is present
	// Backlog is the number of entries waiting for a worker, as asynq sees it.
	Backlog          int64          `json:"backlog"`
	OldestPendingAge tasks.Duration `json:"oldest_pending_age"`
}

// WorkerInfo describes a live worker process.
type WorkerInfo struct {
	ID          string         `json:"id"`
	Host        string         `json:"host"`
	PID         int            `json:"pid"`
	Version     string         `json:"version"`
	Queues      map[string]int `json:"queues"` // name to weight
	Concurrency int            `json:"concurrency"`
	Running     int            `json:"running"`
	Draining    bool           `json:"draining"`
	StartedAt   tasks.Time     `json:"started_at"`
	SeenAt      tasks.Time     `json:"seen_at"` // last heartbeat, by Redis' clock
}

// Health says whether the queue can do its work.
type Health struct {
	Ready bool `json:"ready"`
	// Redis is "ok" or what is wrong.
	Redis string `json:"redis"`
	// Durability is what is in force now; of a cluster's nodes the weakest counts.
	Durability Durability `json:"durability"`
	Embedded   bool       `json:"embedded"`
	// Problems are sentences for an operator, each with the way out. There may be some while Ready.
	Problems []string `json:"problems,omitempty"`
}

// Observer hears what happens, for metrics. Methods are called from many goroutines and must not block.
type Observer interface {
	TaskEnqueued(queue, typ string)
	// TaskStarted tells how long the task waited since it was eligible to run.
	TaskStarted(queue string, wait time.Duration)
	// AttemptEnded: outcome is completed, failed, cancelled, retry, released or stale.
	AttemptEnded(queue, typ, outcome string)
	// TaskFinished tells of a terminal status; kind is empty unless it is failed; d is the last attempt's duration.
	TaskFinished(queue, typ string, status tasks.Status, kind tasks.Kind, d time.Duration)
	CommitFailed(operation, reason string)
	CommitPending(delta int)
	StaleWrite(operation string)
	Repaired(kind string)
	Interrupted(cause string)
	CancelRequested(scope string)
	CancelLatency(d time.Duration)
	StuckHandlers(delta int)
	UnknownScript(sha string)
}
