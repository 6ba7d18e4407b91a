package tasks

import "slices"

// Status says where a task stands. The zero value is not a status.
type Status string

// The seven statuses. Completed, Failed and Cancelled are terminal: a task reaches exactly one of them and leaves it
// only when somebody asks for a new run.
const (
	Scheduled Status = "scheduled" // its run_at lies in the future
	Pending   Status = "pending"   // waits for a worker
	Running   Status = "running"   // a worker holds it
	Retrying  Status = "retrying"  // an attempt failed; waits for the next one
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Statuses lists every status, in the order of a task's life.
func Statuses() []Status {
	return []Status{Scheduled, Pending, Running, Retrying, Completed, Failed, Cancelled}
}

// Terminal reports whether s is one of Completed, Failed and Cancelled.
func (s Status) Terminal() bool { return s == Completed || s == Failed || s == Cancelled }

// Valid reports whether s is one of the seven statuses.
func (s Status) Valid() bool { return slices.Contains(Statuses(), s) }
