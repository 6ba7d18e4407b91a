package exec

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// identity tells a process from a later one with the same id.
type identity struct {
	pid   int
	start uint64 // clock ticks since boot
}

type process struct {
	identity
	ppid, pgid, sid int
	dead            bool // a zombie
}

// signal sends sig to p and to no later process with its id.
func (p process) signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	pinned := err == nil
	if pinned {
		defer func() { _ = unix.Close(fd) }()
	}
	if now, ok := readProcess(p.pid); !ok || now.identity != p.identity {
		return
	}
	if pinned {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	} else if !errors.Is(err, unix.ESRCH) {
		_ = unix.Kill(p.pid, sig) // a kernel without pidfd
	}
}

// processes lists every process but this one that started at since (clock ticks since boot) or later.
func processes(since uint64) []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		if p, ok := readProcess(pid); ok && p.start >= since {
			all = append(all, p)
		}
	}
	return all
}

// readProcess reads /proc/<pid>/stat (proc(5)).
func readProcess(pid int) (process, bool) {
	var buf [1024]byte
	raw := readSmall("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	// The command's name may hold anything, a parenthesis too: fields are counted from the last one.
	f := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(f) < 20 {
		return process{}, false
	}
	number := func(i int) uint64 {
		n, _ := strconv.ParseUint(string(f[i]), 10, 64)
		return n
	}
	// A zombie with threads is a process whose first thread has ended.
	dead := (f[0][0] == 'Z' && number(17) <= 1) || f[0][0] == 'X'
	return process{
		identity: identity{pid: pid, start: number(19)},
		ppid:     int(number(1)), pgid: int(number(2)), sid: int(number(3)), dead: dead,
	}, true
}

// readSmall reads the start of a file without the bookkeeping of os.File: a look at all processes reads hundreds.
func readSmall(name string, buf []byte) []byte {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// marker returns the variable of p's environment that begins with prefix; empty when there is none, or p belongs to
// somebody else.
func marker(p process, prefix string) string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
	if err != nil {
		return ""
	}
	for v := range bytes.SplitSeq(raw, []byte{0}) {
		if bytes.HasPrefix(v, []byte(prefix)) {
			return string(v)
		}
	}
	return ""
}

func hasMarker(p process, m string) bool { return !p.dead && marker(p, m) == m }
