package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// watched opens a spool whose syncs go through watch first.
func watched(t *testing.T, watch func(name string) error) (s *Spool, dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.sync = func(f *os.File) error {
		if err := watch(filepath.Base(f.Name())); err != nil {
			return err
		}
		return f.Sync()
	}
	return s, dir
}

// TestSpool_Sync: what is synced, and what is on the disk at that moment.
func TestSpool_Sync(t *testing.T) {
	t.Parallel()
	var s *Spool
	var dir string
	var seen []string
	s, dir = watched(t, func(name string) error {
		if strings.HasSuffix(name, ".tmp") {
			b, err := os.ReadFile(filepath.Join(dir, name))
			r, e := decode(b)
			name = "temp " + r.key + errString(errors.Join(err, e))
		} else {
			name = "dir"
		}
		placed, err := os.ReadFile(filepath.Join(dir, fileName("a")))
		if err == nil {
			r, _ := decode(placed)
			name += " with " + string(r.data)
		}
		seen = append(seen, name)
		return nil
	})
	if err := errors.Join(s.Put("a", []byte("1")), s.Put("a", []byte("2")), s.Remove("a"), s.Remove("a")); err != nil {
		t.Fatal(err)
	}
	want := []string{"temp a", "dir with 1", "temp a with 1", "dir with 2", "dir"}
	if d := cmp.Diff(want, seen); d != "" {
		t.Errorf("syncs (-want +got):\n%s", d)
	}
}

func errString(err error) string {
	if err == nil {
		return ""
	}
	return " " + err.Error()
}

func TestSpool_SyncFails(t *testing.T) {
	t.Parallel()
	broken := "" // the end of the name of what cannot be synced
	s, dir := watched(t, func(name string) error {
		if broken == "" || strings.HasSuffix(name, ".tmp") != (broken == ".tmp") {
			return nil
		}
		return &os.PathError{Op: "sync", Path: name, Err: syscall.EIO}
	})
	if err := s.Put("a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	get := func(want string) {
		t.Helper()
		if got, ok, err := s.Get("a"); string(got) != want || ok != (want != "") || err != nil {
			t.Fatalf("Get = %q, %v, %v; want %q", got, ok, err, want)
		}
	}
	fails := func(name string, err error) {
		t.Helper()
		if !errors.Is(err, syscall.EIO) {
			t.Fatalf("%s with a broken %q = %v, want EIO", name, broken, err)
		}
	}

	broken = ".tmp"
	fails("Put", s.Put("a", []byte("2")))
	fails("Check", s.Check())
	get("1")
	if temps, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(temps) != 0 || s.Bytes() != blockBytes {
		t.Fatalf("left behind: %q and %d bytes, want none and %d", temps, s.Bytes(), blockBytes)
	}

	broken = "dir"
	fails("Put", s.Put("a", []byte("3")))
	get("3") // there, perhaps not for good
	fails("Remove", s.Remove("a"))
	fails("Remove again", s.Remove("a"))

	broken = ""
	if err := errors.Join(s.Remove("a"), s.Check()); err != nil {
		t.Fatal(err)
	}
	get("")
}
