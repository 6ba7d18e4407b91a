package exec

import (
	"syscall"
	"time"
)

const (
	killTime = 2 * time.Second // for a tree to be dead after SIGKILL
	pollMin  = time.Millisecond
	pollMax  = 50 * time.Millisecond
)

// stop ends the tree: SIGTERM, at most grace of waiting, SIGKILL until nothing lives or killTime is over. It returns
// the survivors.
func (t *tree) stop(grace time.Duration) []process {
	if t.gone() {
		return nil
	}
	if grace > 0 {
		t.signal(syscall.SIGTERM, syscall.SIGCONT) // a stopped process takes SIGTERM when it goes on
		if t.wait(grace, func() {}) {
			return nil
		}
	}
	return t.kill(killTime)
}

// kill sends SIGKILL again and again, since a process may start others until it is dead.
func (t *tree) kill(within time.Duration) []process {
	t.signal(syscall.SIGKILL)
	if t.wait(within, func() { t.signal(syscall.SIGKILL) }) {
		return nil
	}
	return t.living()
}

// wait polls until the tree is gone or the time is over. It calls again after each look that found something alive.
func (t *tree) wait(within time.Duration, again func()) bool {
	over := time.NewTimer(within)
	defer over.Stop()
	for pause := pollMin; ; pause = min(2*pause, pollMax) {
		next := time.NewTimer(pause)
		select {
		case <-over.C:
			next.Stop()
			return t.gone()
		case <-next.C:
		}
		if t.gone() {
			return true
		}
		again()
	}
}
