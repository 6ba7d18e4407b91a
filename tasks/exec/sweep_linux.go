package exec

import (
	"fmt"
	"strconv"
	"strings"
)

// Sweep kills what is left of commands whose daemon is gone: killed, it could not stop them itself. It looks at the
// processes of this pid namespace that carry a marker ([MarkerVariable]) and returns how many it killed, and an error
// when some live on. Call it at start, and again before the tasks of a worker that died on this host are run anew.
func Sweep() (int, error) {
	prefix := markerPrefix()
	orphaned := map[string]bool{}
	for _, p := range processes(0) {
		if m := marker(p, prefix); m != "" && !p.dead && !supervised(strings.TrimPrefix(m, prefix)) {
			orphaned[m] = true
		}
	}
	exited := make(chan struct{})
	close(exited)
	killed, left := 0, 0
	for m := range orphaned {
		t := newTree(0, m, exited)
		killed += len(t.living())
		left += len(t.kill(killTime))
	}
	if left > 0 {
		return killed - left, fmt.Errorf("%d processes of ended commands cannot be killed", left)
	}
	return killed, nil
}

// supervised reports whether the process lives that made the marker, given without its prefix.
func supervised(m string) bool {
	pid, rest, _ := strings.Cut(m, ".")
	start, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(pid)
	ticks, serr := strconv.ParseUint(start, 10, 64)
	if err != nil || serr != nil {
		return true // not one of ours: leave it alone
	}
	p, ok := readProcess(n)
	return ok && !p.dead && p.start == ticks
}
