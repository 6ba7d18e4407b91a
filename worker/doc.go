// Package worker runs tasks. A [Worker] takes them from its queues, calls the handler of their type, and records how
// each attempt ended, whatever happened: a result, an error, a panic, runtime.Goexit, a timeout, a cancellation, a
// drain. asynq's server fetches and dispatches underneath; state, limits and recovery are ours.
//
// Register handlers with [Handle] or [Worker.HandleRaw] before [Worker.Run].
package worker
