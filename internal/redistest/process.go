package redistest

import (
	"os/exec"
	"runtime"
	"sync"
)

// process is a child that dies with this one.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed after the child is gone and reaped
	wg     sync.WaitGroup
}

// startProcess starts cmd and reaps it. The goroutine keeps its thread until the child is gone, because Linux kills
// a child with a death signal when the *thread* that started it ends.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, exited: make(chan struct{})}
	cmd.SysProcAttr = dieWithParent()
	started := make(chan error, 1)
	p.wg.Go(func() {
		defer close(p.exited)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // "signal: killed" is how these servers end
		}
	})
	if err := <-started; err != nil {
		p.wg.Wait()
		return nil, err
	}
	return p, nil
}

// kill ends the child at once and waits until it is gone. A child that is gone already is fine.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.wg.Wait()
}

// gone reports whether the child has ended.
func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}
