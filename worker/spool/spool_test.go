package spool_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"offstage/worker/spool"
)

func TestSpool_PutGetRemove(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data", "spool")
	s := open(t, dir)
	hasKeys(t, s)
	lacks(t, s, "a")

	keys := []string{"a", "../../etc/passwd", "\x00\xff/\n", strings.Repeat("k", spool.MaxKeyBytes)}
	for i, key := range keys {
		put(t, s, key, bytes.Repeat([]byte{byte(i)}, i*5000))
	}
	put(t, s, "a", []byte("again"))
	check := func(s *spool.Spool) {
		t.Helper()
		hasKeys(t, s, keys[1], keys[2], keys[3], "a")
		holds(t, s, "a", []byte("again"))
		holds(t, s, keys[1], bytes.Repeat([]byte{1}, 5000))
		holds(t, s, keys[3], bytes.Repeat([]byte{3}, 15000))
		hasTorn(t, s, 0)
		if got, want := s.Bytes(), int64(4096+2*4096+3*4096+5*4096); got != want {
			t.Fatalf("Bytes() = %d, want %d", got, want)
		}
	}
	check(s)
	closeSpool(t, s)
	s = open(t, dir)
	check(s)

	for range 2 {
		remove(t, s, keys[1])
		lacks(t, s, keys[1])
	}
	put(t, s, "b", nil)
	holds(t, s, "b", nil)
	closeSpool(t, s)
	s = open(t, dir)
	hasKeys(t, s, keys[2], keys[3], "a", "b")
	for _, key := range s.Keys() {
		remove(t, s, key)
	}
	if s.Bytes() != 0 {
		t.Fatalf("Bytes() = %d, want 0", s.Bytes())
	}
	if d := cmp.Diff([]string{"lock"}, list(t, dir)); d != "" {
		t.Fatalf("files left (-want +got):\n%s", d)
	}
}

func TestSpool_Modes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	for path, want := range map[string]os.FileMode{
		dir: 0o700 | os.ModeDir, putFile(t, dir, s, "a", nil): 0o600, filepath.Join(dir, "lock"): 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != want {
			t.Errorf("mode of %s = %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

func TestSpool_OutOfRange(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	for key, data := range map[string][]byte{
		"": nil, strings.Repeat("k", spool.MaxKeyBytes+1): nil, "large": make([]byte, spool.MaxDataBytes+1),
	} {
		if err := s.Put(key, data); !errors.Is(err, spool.ErrTooLarge) {
			t.Errorf("Put(key of %d, data of %d) = %v, want ErrTooLarge", len(key), len(data), err)
		}
	}
	if _, err := spool.Open(t.TempDir(), spool.Options{MaxBytes: -1}); err == nil {
		t.Error("Open with MaxBytes -1 = nil, want an error")
	}
}

func TestSpool_MaxBytes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const most = 64 << 10 // 16 blocks
	s := openWith(t, dir, spool.Options{MaxBytes: most})
	var n int
	var err error
	for ; err == nil; n++ {
		err = s.Put(fmt.Sprint("k", n), make([]byte, 100))
	}
	if n != 17 || !errors.Is(err, spool.ErrFull) || s.Bytes() != most {
		t.Fatalf("Put %d = %v with %d bytes, want ErrFull from the 17th at %d", n, err, s.Bytes(), most)
	}
	if err := s.Put("k3", []byte("new")); !errors.Is(err, spool.ErrFull) {
		t.Fatalf("replacing = %v, want ErrFull: both exist for a moment", err)
	}
	holds(t, s, "k3", make([]byte, 100))
	if err := s.Check(); !errors.Is(err, spool.ErrFull) {
		t.Fatalf("Check() = %v, want ErrFull", err)
	}
	remove(t, s, "k3")
	if err := s.Check(); err != nil {
		t.Fatalf("Check() with room = %v, want nil", err)
	}
	put(t, s, "k3", nil)

	closeSpool(t, s)
	s = openWith(t, dir, spool.Options{MaxBytes: most / 2})
	if s.Len() != 16 {
		t.Fatalf("Len() with a lower MaxBytes = %d, want 16", s.Len())
	}
	if err := s.Put("more", nil); !errors.Is(err, spool.ErrFull) {
		t.Fatalf("Put above a lower MaxBytes = %v, want ErrFull", err)
	}
}

func TestSpool_Thousand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	var want []string
	data := func(i int) []byte { return fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", i)) }
	for i := range 1000 {
		want = append(want, fmt.Sprint("task-", i))
		put(t, s, want[i], data(i))
	}
	closeSpool(t, s)
	s = open(t, dir)
	hasKeys(t, s, want...)
	for i, key := range want {
		holds(t, s, key, data(i))
		if i%2 == 0 {
			remove(t, s, key)
		}
	}
	closeSpool(t, s)
	s = open(t, dir)
	if s.Len() != 500 || s.Keys()[0] != "task-1" {
		t.Fatalf("after removing the even ones: %d records, the first %q; want 500 from task-1", s.Len(), s.Keys()[0])
	}
}

func TestSpool_Parallel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 40 {
				key := fmt.Sprint("k", (g+i)%5) // shared
				own := fmt.Sprint("own", g)
				err := errors.Join(s.Put(key, []byte(key)), s.Put(own, fmt.Append(nil, i)), s.Check())
				if got, ok, e := s.Get(key); ok && string(got) != key {
					err = errors.Join(err, e, fmt.Errorf("Get(%q) = %q", key, got))
				}
				if i%3 == 0 {
					err = errors.Join(err, s.Remove(key))
				}
				if err != nil {
					t.Error(err)
				}
				_, _, _ = s.Keys(), s.Len(), s.Bytes()
			}
		})
	}
	wg.Wait()
	keys, bytes := s.Keys(), s.Bytes()
	closeSpool(t, s)
	s = open(t, dir)
	hasKeys(t, s, keys...)
	hasTorn(t, s, 0)
	if s.Bytes() != bytes {
		t.Errorf("Bytes() after opening again = %d, want %d", s.Bytes(), bytes)
	}
	for g := range 8 {
		holds(t, s, fmt.Sprint("own", g), []byte("39"))
	}
}

func TestSpool_Close(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	put(t, s, "a", nil)
	for range 2 {
		closeSpool(t, s)
	}
	_, _, get := s.Get("a")
	for name, err := range map[string]error{"Put": s.Put("a", nil), "Get": get, "Remove": s.Remove("a"), "Check": s.Check()} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s after Close = %v, want os.ErrClosed", name, err)
		}
	}
	hasKeys(t, s, "a")
}

func TestOpen_Locked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	locked := func(when string) {
		t.Helper()
		_, err := spool.Open(dir, spool.Options{})
		if !errors.Is(err, spool.ErrLocked) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "data_dir") {
			t.Fatalf("Open %s = %v, want ErrLocked that names %s and data_dir", when, err, dir)
		}
	}
	s := open(t, dir)
	locked("in the same process")
	closeSpool(t, s)

	child := startCrasher(t, dir)
	child.acks(t, 1)
	locked("while another process has it")
	child.kill(t)
	s = open(t, dir)
	if s.Len() == 0 {
		t.Fatal("no record of the other process")
	}
	// A child that a task started must not keep the lock.
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	closeSpool(t, s)
	_ = open(t, dir)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func TestOpen_NotAFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if _, err := spool.Open(dir, spool.Options{}); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("Open(%q) = %v, want an error that names it", dir, err)
		}
	}
}

func TestSpool_CheckPlace(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	checkIs := func(want bool, when string) {
		t.Helper()
		if err := s.Check(); (err == nil) != want {
			t.Fatalf("Check() %s = %v, want nil %v", when, err, want)
		}
	}
	checkIs(true, "at first")
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	checkIs(false, "without the folder")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	checkIs(false, "with another in its place")
	if err := errors.Join(os.Remove(dir), os.Rename(dir+"2", dir)); err != nil {
		t.Fatal(err)
	}
	checkIs(true, "with the folder back")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	checkIs(false, "with the folder deleted")
	if err := s.Put("a", nil); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("Put without the folder = %v, want ErrNotExist", err)
	}
	if slices.Contains(s.Keys(), "a") {
		t.Fatal("Keys has what was not put")
	}
}
