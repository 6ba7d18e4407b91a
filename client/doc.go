// Package client speaks the HTTP API of an offstage daemon: it hands in tasks, reads and steers them, and follows
// their output.
//
// It imports the standard library and package tasks only. Every refusal of the server comes back as an *[Error] that
// unwraps to the same sentinel of package tasks that the server started from, so a caller tests for
// tasks.ErrNotFound whether it speaks HTTP or holds the queue itself. A server that cannot be reached is
// [ErrUnreachable].
//
// Losing the connection never cancels a task. [Client.Enqueue] repeats itself without making a second task,
// [Client.Wait] and [Client.Follow] live through a restart of the daemon.
package client
