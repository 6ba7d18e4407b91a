// Package config reads the daemon's settings: flag over environment over file over default.
//
// It guarantees that nothing is silently ignored (an unknown key or OFFSTAGE_ variable is a fault), that all faults
// are reported at once, each with its key, where the value came from and the way out, and that no secret is printed,
// whatever way a Config is printed. Text from flags and the environment only ever becomes the value of the key it was
// given for; it is not expanded or merged into a file before parsing.
//
// The keys are those of [Config]'s fields, written like "worker.poll_interval"; the variable of a key is its name in
// upper case with underscores, "OFFSTAGE_WORKER_POLL_INTERVAL". A variable that is set to nothing counts as unset.
package config
