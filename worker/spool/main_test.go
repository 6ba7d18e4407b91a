package spool_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"offstage/worker/spool"
)

// What a re-executed child does, by environment variable.
const (
	envCrash = "SPOOL_TEST_CRASH" // the folder that it puts records in until it is killed
	envChild = "SPOOL_TEST_CHILD" // the test whose body it runs
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(envCrash); dir != "" {
		fmt.Println(putForEver(dir))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// inChild runs body in a process of its own, where it may change limits, users and mounts. prepare may change how the
// child is started.
func inChild(t *testing.T, prepare func(*exec.Cmd), body func(t *testing.T)) {
	t.Helper()
	if os.Getenv(envChild) == t.Name() {
		body(t)
		return
	}
	run := func(prepare func(*exec.Cmd)) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), envChild+"="+t.Name())
		prepare(cmd)
		return cmd.CombinedOutput()
	}
	out, err := run(prepare)
	if len(out) == 0 && err != nil { // it was not started: namespaces need a right
		t.Logf("child as wanted: %v; starting a plain one", err)
		out, err = run(func(*exec.Cmd) {})
	}
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("child: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "_test.go:") {
			t.Log("child: ", strings.TrimSpace(line))
		}
	}
}

func open(tb testing.TB, dir string) *spool.Spool {
	tb.Helper()
	return openWith(tb, dir, spool.Options{})
}

func openWith(tb testing.TB, dir string, opts spool.Options) *spool.Spool {
	tb.Helper()
	s, err := spool.Open(dir, opts)
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	tb.Cleanup(func() { closeSpool(tb, s) })
	return s
}

func closeSpool(tb testing.TB, s *spool.Spool) {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Errorf("Close: %v", err)
	}
}

func put(tb testing.TB, s *spool.Spool, key string, data []byte) {
	tb.Helper()
	if err := s.Put(key, data); err != nil {
		tb.Fatalf("Put(%q): %v", key, err)
	}
}

func remove(t *testing.T, s *spool.Spool, key string) {
	t.Helper()
	if err := s.Remove(key); err != nil {
		t.Fatalf("Remove(%q): %v", key, err)
	}
}

// holds checks that s has the record.
func holds(t *testing.T, s *spool.Spool, key string, want []byte) {
	t.Helper()
	got, ok, err := s.Get(key)
	if err != nil || !ok || !bytes.Equal(got, want) {
		t.Fatalf("Get(%q) = %d bytes, %v, %v; want the %d put", key, len(got), ok, err, len(want))
	}
	if !s.Has(key) {
		t.Fatalf("Has(%q) = false, want true", key)
	}
}

func lacks(t *testing.T, s *spool.Spool, key string) {
	t.Helper()
	if got, ok, err := s.Get(key); got != nil || ok || err != nil || s.Has(key) {
		t.Fatalf("Get(%q) = %q, %v, %v and Has = %v; want nothing", key, got, ok, err, s.Has(key))
	}
}

func hasKeys(t *testing.T, s *spool.Spool, want ...string) {
	t.Helper()
	if d := cmp.Diff(append([]string{}, want...), s.Keys()); d != "" {
		t.Fatalf("Keys (-want +got):\n%s", d)
	}
	if s.Len() != len(want) {
		t.Fatalf("Len() = %d, want %d", s.Len(), len(want))
	}
}

func hasTorn(t *testing.T, s *spool.Spool, want int64) {
	t.Helper()
	if got := s.Torn(); got != want {
		t.Fatalf("Torn() = %d, want %d", got, want)
	}
}

// list returns the files of a folder, sorted; none when it is not there.
func list(t *testing.T, dir ...string) []string {
	t.Helper()
	names := []string{}
	entries, err := os.ReadDir(filepath.Join(dir...))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// putFile puts a record and returns the path of its file.
func putFile(t *testing.T, dir string, s *spool.Spool, key string, data []byte) string {
	t.Helper()
	before := list(t, dir)
	put(t, s, key, data)
	for _, name := range list(t, dir) {
		if !slices.Contains(before, name) {
			return filepath.Join(dir, name)
		}
	}
	t.Fatalf("Put(%q) made no file", key)
	return ""
}
