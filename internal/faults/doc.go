// Package faults breaks things on purpose, to see what offstage promises hold: real redis-server and offstage processes,
// known by their pid, and between them a proxy that cuts connections.
//
// A [Fault] is a value that is injected and healed: [Redis], [Proxy] and [Daemon] make them. Tasks run [Body], which
// writes down in a [Ledger] when it starts, lives and ends. [Checker] reads the ledger and the daemon's API and names
// every broken promise: a task that was accepted and lost, that ended twice or never, that ran beside itself, that lost
// a retry to a fault.
//
// The tests here are the checks of docs/guarantees.md, each by its number. Every one logs a line that begins with
// "measured:". They run a short form in "go test" and a long one in "make soak", which adds random schedules of
// faults from a printed seed: SOAK_SEED repeats one, SOAK_MINUTES says how long.
package faults
