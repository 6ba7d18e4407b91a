package spool_test

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"

	"offstage/worker/spool"
)

// The child of the crash tests: crashWriters goroutines, each with crashKeys keys of its own, make the changes 0, 1, 2
// ... and print each one when it is acknowledged.
const (
	crashWriters = 4
	crashKeys    = 5
)

// change says what writer w does at step i.
func change(w, i int) (key string, data []byte, remove bool) {
	key = fmt.Sprintf("w%d-k%d", w, i%crashKeys)
	return key, bytes.Repeat(fmt.Appendf(nil, "%s@%d ", key, i), i*31%1500), i%7 == 6
}

// state is what writer w's keys hold after n steps.
func state(w, n int) map[string][]byte {
	held := map[string][]byte{}
	for i := range n {
		if key, data, remove := change(w, i); remove {
			delete(held, key)
		} else {
			held[key] = data
		}
	}
	return held
}

func putForEver(dir string) error {
	s, err := spool.Open(dir, spool.Options{})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for w := range crashWriters {
		wg.Go(func() {
			for i := 0; ; i++ {
				key, data, remove := change(w, i)
				err := s.Put(key, data)
				if remove {
					err = s.Remove(key)
				}
				mu.Lock()
				if err != nil {
					panic(err)
				}
				fmt.Printf("%d %d\n", w, i) // without a reader this ends the process
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return nil
}

type crasher struct {
	cmd   *exec.Cmd
	out   *bufio.Scanner
	steps [crashWriters]int // acknowledged
}

func startCrasher(t *testing.T, dir string) *crasher {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envCrash+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &crasher{cmd: cmd, out: bufio.NewScanner(out)}
}

// acks reads n acknowledgements, or all when n is negative.
func (c *crasher) acks(t *testing.T, n int) {
	t.Helper()
	for ; n != 0 && c.out.Scan(); n-- {
		var w, i int
		if _, err := fmt.Sscanf(c.out.Text(), "%d %d", &w, &i); err != nil || i != c.steps[w] {
			t.Fatalf("child says %q (%v), want step %d", c.out.Text(), err, c.steps[w])
		}
		c.steps[w] = i + 1
	}
	if n > 0 {
		t.Fatalf("child ended: %v", c.cmd.Wait())
	}
}

// kill sends SIGKILL and reads what was acknowledged before it.
func (c *crasher) kill(t *testing.T) {
	t.Helper()
	_ = c.cmd.Process.Kill()
	c.acks(t, -1)
	_ = c.cmd.Wait()
}

// TestSpool_Crash kills a process that puts, replaces and removes records. Every acknowledged change is there, and the
// one that was under way is there or not.
func TestSpool_Crash(t *testing.T) {
	t.Parallel()
	for range 12 {
		dir := t.TempDir()
		child := startCrasher(t, dir)
		child.acks(t, 1+rand.IntN(300))
		child.kill(t)
		s := open(t, dir)
		hasTorn(t, s, 0)
		for w, n := range child.steps {
			matches(t, s, w, n)
		}
		closeSpool(t, s)
	}
}

// matches checks the keys of writer w, which was told of n steps and may have made one more.
func matches(t *testing.T, s *spool.Spool, w, n int) {
	t.Helper()
	told, more := state(w, n), state(w, n+1)
	next, replaced, _ := change(w, n) // a step that removes puts first
	for k := range crashKeys {
		key := fmt.Sprintf("w%d-k%d", w, k)
		got, ok, err := s.Get(key)
		if err != nil {
			t.Fatal(err)
		}
		is := func(want []byte, there bool) bool { return ok == there && bytes.Equal(got, want) }
		before, was := told[key]
		after, will := more[key]
		if !is(before, was) && !is(after, will) && (key != next || !is(replaced, true)) {
			t.Fatalf("after %d steps %s has %d bytes (%v), want %d (%v) or, one step on, %d (%v)",
				n, key, len(got), ok, len(before), was, len(after), will)
		}
	}
}
