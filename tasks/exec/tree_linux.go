package exec

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes give a command a session, and so a process group, of its own, and end it when this process is killed. The
// kernel ties the latter to the thread that started the command; see [child.live].
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when p has ended, without reaping it: its id stays taken, so that signals to its group cannot hit a
// stranger. The state is nil for that reason.
func awaitExit(p *os.Process) *os.ProcessState {
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return nil
		}
	}
}

// newMarker makes the marker of one command. It names this process, so that Sweep can tell whether anybody still looks
// after the command.
func newMarker() string {
	self, _ := readProcess(os.Getpid())
	return fmt.Sprintf("%s%d.%d.%s", markerPrefix(), self.pid, self.start, rand.Text())
}

// markerPrefix is how the markers made in this process' pid namespace begin: the ids in others mean other processes.
func markerPrefix() string {
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return MarkerVariable + "=" + strings.Trim(namespace, "pid:[]") + "."
}

// tree is a command's processes: those of its session, those with its marker, all their descendants, and whatever was
// found to be one of them before.
type tree struct {
	root   identity // the first process; zero when only the marker is known
	marker string   // NAME=value
	exited <-chan struct{}
	known  map[identity]bool
}

func newTree(pid int, marker string, exited <-chan struct{}) *tree {
	root, _ := readProcess(pid)
	root.pid = pid
	return &tree{root: root.identity, marker: marker, exited: exited, known: map[identity]bool{}}
}

// gone reports whether nothing of the tree lives.
func (t *tree) gone() bool {
	select {
	case <-t.exited:
		return len(t.living()) == 0
	default:
		return false
	}
}

// living lists the processes of the tree that are not dead. It also reaps the dead ones this process has inherited,
// which happens when it is the init of a container.
func (t *tree) living() []process {
	var alive []process
	for _, p := range t.members(processes(t.root.start)) {
		t.known[p.identity] = true
		switch {
		case !p.dead:
			alive = append(alive, p)
		case p.ppid == os.Getpid() && p.pid != t.root.pid:
			_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
		}
	}
	return alive
}

// members picks the tree's processes from all. Sessions and parents are followed only through processes that exist in
// this very list, so that an id that was used again never draws in a stranger.
func (t *tree) members(all []process) []process {
	own, _ := unix.Getsid(0)
	pids, sessions := map[int]bool{}, map[int]bool{}
	if t.root.pid != 0 {
		pids[t.root.pid], sessions[t.root.pid] = true, true // not reaped yet, so still taken
	}
	var found, rest []process
	add := func(p process) {
		found = append(found, p)
		pids[p.pid] = true
		sessions[p.sid] = p.sid != 0 && p.sid != own
	}
	for _, p := range all {
		if pids[p.pid] || sessions[p.sid] || t.known[p.identity] || hasMarker(p, t.marker) {
			add(p)
		} else {
			rest = append(rest, p)
		}
	}
	for grown := true; grown; {
		grown = false
		candidates := rest
		rest = nil
		for _, p := range candidates {
			if pids[p.ppid] || sessions[p.sid] {
				add(p)
				grown = true
			} else {
				rest = append(rest, p)
			}
		}
	}
	return found
}

// signal sends each of signals to the whole tree, to the group first, because that is one step for all its processes.
func (t *tree) signal(signals ...syscall.Signal) {
	members := t.living()
	for _, sig := range signals {
		if t.root.pid != 0 {
			_ = unix.Kill(-t.root.pid, sig)
		}
		for _, p := range members {
			if t.root.pid == 0 || p.pgid != t.root.pid {
				p.signal(sig)
			}
		}
	}
}
