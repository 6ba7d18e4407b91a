// Package exec is the built-in task type "exec": it runs a command of the host and leaves nothing of it behind.
//
// [Check] says whether a payload may run, [Run] runs it, [Sweep] clears up behind a daemon that was killed, and [Tail]
// cuts output down to what an end-of-task notice carries.
//
// A command runs in a session of its own with an environment that holds only what was declared. It is over when its
// first process is over; whatever it left behind is stopped then, as it is when the context ends: SIGTERM to the whole
// tree, a grace, SIGKILL to every survivor. Run returns after that, so that a slot is never free while the command
// still works. See [Caveat] for what cannot be promised.
package exec
