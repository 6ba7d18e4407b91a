// Package lifecycle starts the parts of a daemon in order, keeps them together and stops them in reverse order.
//
// It guarantees that a part runs only while everything it was started after runs too, that no part is forgotten when
// the daemon ends, and that none can hold the end up for longer than it was given. A part that fails, panics or ends
// on its own brings the others down in order, so that a daemon is either whole or gone.
package lifecycle
