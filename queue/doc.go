// Package queue is offstage for producers and observers: it creates tasks, reads, lists, waits for, cancels, reruns and
// deletes them, and looks after queues. A nil error from [Queue.Enqueue] means that record and queue entry are in Redis.
//
// Tasks run in package worker, in this process or another.
package queue
