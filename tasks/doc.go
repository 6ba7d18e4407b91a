// Package tasks is offstage's vocabulary: what a producer asks for ([Spec]), what everyone sees of it ([Task]),
// what happens to it ([Event]) and every way an operation can be refused (the Err sentinels).
//
// It imports the standard library only, so that a producer, a handler or an HTTP client can speak of tasks without
// pulling in Redis. All types are plain values: safe to copy, and safe to share between goroutines as long as nobody
// writes to them.
package tasks
