//go:build !linux

package exec

import (
	"crypto/rand"
	"os"
	"syscall"
)

// attributes give a command a session, and so a process group, of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// awaitExit returns when p has ended. It reaps it.
func awaitExit(p *os.Process) *os.ProcessState {
	state, _ := p.Wait()
	return state
}

func newMarker() string { return MarkerVariable + "=" + rand.Text() }

// tree is a command's process group: without /proc its other processes are not found.
type tree struct {
	group  int
	exited <-chan struct{}
}

// process stands for the group.
type process struct{ pid int }

func newTree(pid int, _ string, exited <-chan struct{}) *tree {
	return &tree{group: pid, exited: exited}
}

func (t *tree) gone() bool {
	select {
	case <-t.exited:
		return len(t.living()) == 0
	default:
		return false
	}
}

func (t *tree) living() []process {
	if syscall.Kill(-t.group, 0) != nil {
		return nil
	}
	return []process{{t.group}}
}

func (t *tree) signal(signals ...syscall.Signal) {
	for _, sig := range signals {
		_ = syscall.Kill(-t.group, sig)
	}
}

// Sweep does nothing: only Linux shows the environment of other processes.
func Sweep() (int, error) { return 0, nil }
