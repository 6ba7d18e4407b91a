package exec

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"offstage/tasks"
)

const (
	// settleTime is what the rest of a command gets to write its last lines after the first process has ended by itself
	// (a shell's process substitution, say).
	settleTime = 250 * time.Millisecond
	// drainTime bounds the reading once the tree is dead: a process that got away may still hold a pipe.
	drainTime = time.Second
)

// child is a command that was started.
type child struct {
	tree   *tree
	pipes  *pipes
	stderr *stream
	pumps  sync.WaitGroup // between the pipes and the outside

	drained chan struct{} // stdout and stderr have been read to their end
	exited  chan struct{} // the first process has ended; ended is set
	release chan struct{} // it may be reaped
	reaped  chan struct{} // it was; state is set

	ended time.Time
	state *os.ProcessState
}

// launch is what start needs to know of a command.
type launch struct {
	file  string
	argv  []string
	env   map[string]string
	cwd   string
	stdin string
}

// start starts the command and the copying of its streams. An error means that nothing runs.
func start(l launch, out io.Writer) (*child, error) {
	pipes, err := openPipes(l.stdin != "")
	if err != nil {
		return nil, err
	}
	sink := &sink{out: out}
	k := &child{
		pipes: pipes, stderr: &stream{sink: sink},
		drained: make(chan struct{}), exited: make(chan struct{}), release: make(chan struct{}), reaped: make(chan struct{}),
	}
	marker := newMarker()
	started := make(chan error)
	var wg sync.WaitGroup // live signals its end with reaped, which supervise waits for
	wg.Go(func() { k.live(l, marker, started) })
	err = <-started
	pipes.closeTheirs()
	if err != nil {
		wg.Wait()
		pipes.closeOurs()
		return nil, err
	}
	k.pump(&stream{sink: sink}, l.stdin)
	return k, nil
}

// live starts the process and stays with it until it is reaped. It keeps its thread to itself: the kernel kills the
// process when the thread that started it ends, and Go ends a thread whenever a goroutine dies that is locked to it.
func (k *child) live(l launch, marker string, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	env := []string{marker}
	for name, v := range l.env {
		env = append(env, name+"="+v)
	}
	slices.Sort(env[1:])
	p, err := os.StartProcess(l.file, l.argv, &os.ProcAttr{
		Dir: l.cwd, Env: env, Files: k.pipes.theirs[:], Sys: attributes(),
	})
	if err == nil {
		k.tree = newTree(p.Pid, marker, k.exited)
	}
	started <- err
	if err != nil {
		return
	}
	k.state = awaitExit(p)
	k.ended = time.Now()
	close(k.exited)
	<-k.release
	if k.state == nil {
		k.state, _ = p.Wait()
	}
	close(k.reaped)
}

// pump copies stdin in, and stdout and stderr out.
func (k *child) pump(stdout *stream, stdin string) {
	var readers sync.WaitGroup
	readers.Go(func() { stdout.copy(k.pipes.ours[1]) })
	readers.Go(func() { k.stderr.copy(k.pipes.ours[2]) })
	k.pumps.Go(func() {
		readers.Wait()
		close(k.drained)
	})
	if in := k.pipes.ours[0]; in != nil {
		k.pumps.Go(func() {
			_, _ = io.WriteString(in, stdin) // a command need not read its input
			_ = in.Close()
		})
	}
}

// supervise returns when the command and all it started are dead, or cannot be killed: those are the survivors. stopped
// says that ctx ended before the command did.
func (k *child) supervise(ctx context.Context, grace time.Duration) (stopped bool, survivors []process) {
	select {
	case <-k.exited:
	case <-ctx.Done():
		select {
		case <-k.exited: // both at once: it ended by itself
		default:
			stopped = true
		}
	}
	if !stopped {
		k.settle(ctx)
	}
	if stopped && errors.Is(context.Cause(ctx), tasks.ErrLeaseLost) {
		grace = 0 // another worker may run the task already
	}
	survivors = k.tree.stop(grace)
	k.drain()
	close(k.release)
	select {
	case <-k.exited:
		<-k.reaped
	default: // a survivor; live reaps it when it ends
	}
	return stopped, survivors
}

// settle waits a moment for the end of the output.
func (k *child) settle(ctx context.Context) {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-k.drained:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// drain waits for the end of the output, at most drainTime, and for the copying to be over.
func (k *child) drain() {
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-k.drained:
	case <-timer.C:
	}
	k.pipes.closeOurs()
	k.pumps.Wait()
}

// pipes are the standard streams: ours[0] is nil when there is no input.
type pipes struct{ ours, theirs [3]*os.File }

func openPipes(input bool) (*pipes, error) {
	p := &pipes{}
	var err error
	if input {
		p.theirs[0], p.ours[0], err = os.Pipe()
	} else {
		p.theirs[0], err = os.Open(os.DevNull)
	}
	for fd := 1; fd <= 2 && err == nil; fd++ {
		p.ours[fd], p.theirs[fd], err = os.Pipe()
	}
	if err != nil {
		p.closeTheirs()
		p.closeOurs()
		return nil, err
	}
	return p, nil
}

func (p *pipes) closeTheirs() { closeAll(p.theirs[:]) }

// closeOurs may be called while the pipes are read and written: that ends it.
func (p *pipes) closeOurs() { closeAll(p.ours[:]) }

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
