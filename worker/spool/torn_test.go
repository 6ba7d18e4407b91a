package spool_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"offstage/worker/spool"
)

// damage opens a copy of a spool of three records with the file of the last one changed by each of the changes, and
// checks that this record is dropped, set aside and counted, and the others are whole.
func damage(t *testing.T, changes func(file []byte) [][]byte) {
	t.Helper()
	src := t.TempDir()
	s := open(t, src)
	put(t, s, "first", []byte("one"))
	put(t, s, "second", bytes.Repeat([]byte("two"), 3000))
	last := filepath.Base(putFile(t, src, s, "last", []byte("outcome: completed")))
	closeSpool(t, s)
	whole := readFile(t, src, last)
	for i, changed := range changes(whole) {
		dir := filepath.Join(t.TempDir(), "spool")
		if err := os.CopyFS(dir, os.DirFS(src)); err != nil {
			t.Fatal(err)
		}
		writeFile(t, changed, dir, last)
		s := open(t, dir)
		hasTorn(t, s, 1)
		hasKeys(t, s, "first", "second")
		holds(t, s, "first", []byte("one"))
		holds(t, s, "second", bytes.Repeat([]byte("two"), 3000))
		lacks(t, s, "last")
		if got := readFile(t, dir, "torn", last); !bytes.Equal(got, changed) {
			t.Fatalf("change %d: set aside %d bytes, want the %d found", i, len(got), len(changed))
		}
		put(t, s, "last", []byte("run again"))
		closeSpool(t, s)
		s = open(t, dir)
		hasTorn(t, s, 0)
		hasKeys(t, s, "first", "second", "last")
		closeSpool(t, s)
	}
}

func TestSpool_Torn(t *testing.T) {
	t.Parallel()
	t.Run("Cut", func(t *testing.T) {
		t.Parallel()
		damage(t, func(file []byte) (all [][]byte) {
			for n := range file {
				all = append(all, file[:n])
			}
			return all
		})
	})
	t.Run("Zeroed", func(t *testing.T) { // the length made it to the disk, the bytes did not
		t.Parallel()
		damage(t, func(file []byte) (all [][]byte) {
			for n := range file {
				all = append(all, append(bytes.Clone(file[:n]), make([]byte, len(file)-n)...))
			}
			return all
		})
	})
	t.Run("Longer", func(t *testing.T) {
		t.Parallel()
		damage(t, func(file []byte) [][]byte {
			return [][]byte{append(bytes.Clone(file), 0), append(bytes.Clone(file), file...), make([]byte, 4096)}
		})
	})
}

// TestSpool_BitFlip flips a bit of every byte; all bits are TestDecode_BitFlips'.
func TestSpool_BitFlip(t *testing.T) {
	t.Parallel()
	damage(t, func(file []byte) (all [][]byte) {
		for i := range file {
			flipped := bytes.Clone(file)
			flipped[i] ^= 1 << (i % 8)
			all = append(all, flipped)
		}
		return all
	})
}

func TestSpool_DamagedWhileOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	cut, gone := putFile(t, dir, s, "cut", []byte("1")), putFile(t, dir, s, "gone", []byte("2"))
	other := putFile(t, dir, s, "other", []byte("3"))
	put(t, s, "whole", []byte("4"))
	writeFile(t, nil, cut)
	writeFile(t, readFile(t, cut, "..", filepath.Base(gone)), other)
	pipe := putFile(t, dir, s, "pipe", nil)
	if err := errors.Join(os.Remove(gone), os.Remove(pipe), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"cut", "gone", "other", "pipe"} {
		if _, ok, err := s.Get(key); ok || err == nil {
			t.Fatalf("Get(%q) of a damaged record = %v, %v; want an error", key, ok, err)
		}
		lacks(t, s, key)
	}
	hasTorn(t, s, 3)
	hasKeys(t, s, "whole")
	if s.Bytes() != 4096 {
		t.Fatalf("Bytes() = %d, want 4096", s.Bytes())
	}
}

func TestOpen_Foreign(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	record := filepath.Base(putFile(t, dir, s, "a", []byte("1")))
	closeSpool(t, s)

	renamed := "0" + record[1:]
	if renamed == record {
		renamed = "1" + record[1:]
	}
	fifo := strings.Repeat("f", 64) + ".rec"
	writeFile(t, readFile(t, dir, record), dir, renamed) // a record under the name of another key
	writeFile(t, []byte("mine"), dir, "notes.txt")
	writeFile(t, []byte("half"), dir, "0000000000000007.tmp")
	writeFile(t, []byte("OFFS"), dir, "probe.tmp")
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "lost+found"), 0o700),
		os.Symlink("/etc/passwd", filepath.Join(dir, "link")),
		syscall.Mkfifo(filepath.Join(dir, fifo), 0o600), // opening it would wait for ever
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	s = openWith(t, dir, spool.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	hasKeys(t, s, "a")
	hasTorn(t, s, 4)
	if d := cmp.Diff([]string{record, "lock", "lost+found", "torn"}, list(t, dir)); d != "" {
		t.Errorf("folder (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{renamed, fifo, "link", "notes.txt"}, list(t, dir, "torn")); d != "" {
		t.Errorf("torn (-want +got):\n%s", d)
	}
	if got := string(readFile(t, dir, "torn", "notes.txt")); got != "mine" {
		t.Errorf("notes.txt = %q, want it untouched", got)
	}
	if !strings.Contains(log.String(), "notes.txt") {
		t.Errorf("log does not name notes.txt:\n%s", &log)
	}
}

func TestOpen_TornBound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	closeSpool(t, open(t, dir))
	names := func(round int) {
		for i := range 60 {
			writeFile(t, fmt.Append(nil, round), dir, fmt.Sprint("file", i))
		}
	}
	names(1)
	closeSpool(t, open(t, dir))
	names(2) // the same names: nothing is overwritten
	s := open(t, dir)
	hasTorn(t, s, 60)
	if aside, left := len(list(t, dir, "torn")), len(list(t, dir))-2; aside != 100 || left != 20 {
		t.Fatalf("%d set aside and %d left, want 100 and 20", aside, left)
	}
	if got := string(readFile(t, dir, "torn", "file7")); got != "1" {
		t.Fatalf("torn/file7 = %q, want the first", got)
	}
	put(t, s, "a", nil)
}

// TestOpen_TornInTheWay: what cannot be set aside does not keep the others from being replayed.
func TestOpen_TornInTheWay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	torn := putFile(t, dir, s, "torn", nil)
	put(t, s, "whole", nil)
	closeSpool(t, s)
	writeFile(t, []byte("half"), torn)
	writeFile(t, nil, dir, "torn")
	s = open(t, dir)
	hasTorn(t, s, 1)
	hasKeys(t, s, "whole")
	put(t, s, "torn", []byte("new"))
	closeSpool(t, s)
	s = open(t, dir)
	hasKeys(t, s, "whole", "torn")
}

func readFile(t *testing.T, elem ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, b []byte, elem ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(elem...), b, fs.FileMode(0o600)); err != nil {
		t.Fatal(err)
	}
}
