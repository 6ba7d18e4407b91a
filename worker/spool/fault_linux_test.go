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
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"offstage/worker/spool"
)

// ownMounts starts a child that may mount: as root, or as root of a user namespace.
func ownMounts(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: gid, Size: 1}}
	}
}

func asIs(*exec.Cmd) {}

// smallDisk mounts 6 MB on dir.
func smallDisk(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("tmpfs", dir, "tmpfs", 0, "size=6m,mode=0755")
}

// limitFiles keeps this process from writing files longer than n bytes.
func limitFiles(t *testing.T, n uint64) {
	t.Helper()
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: unix.RLIM_INFINITY}); err != nil {
		t.Fatal(err)
	}
}

// fault breaks a disk and mends it again.
type fault struct {
	breaks, mends func(t *testing.T)
	want          syscall.Errno
}

// goesThrough checks that a spool in dir says that it cannot write while the fault is there, keeps what it has, and
// goes on at once afterwards.
func (f fault) goesThrough(t *testing.T, dir string) {
	t.Helper()
	s := open(t, dir)
	old := bytes.Repeat([]byte("old"), 40000)
	put(t, s, "kept", old)
	if err := s.Check(); err != nil {
		t.Fatalf("Check() before = %v, want nil", err)
	}
	f.breaks(t)
	if err := s.Check(); !errors.Is(err, f.want) {
		t.Fatalf("Check() = %v, want %v", err, f.want)
	}
	for _, key := range []string{"kept", "new"} {
		if err := s.Put(key, bytes.Repeat([]byte("new"), 40000)); !errors.Is(err, f.want) {
			t.Fatalf("Put(%q) = %v, want %v", key, err, f.want)
		}
	}
	hasKeys(t, s, "kept")
	f.mends(t)
	left := list(t, dir)
	start := time.Now()
	if err := s.Check(); err != nil || time.Since(start) > time.Second {
		t.Fatalf("Check() after = %v in %v, want nil in a second", err, time.Since(start))
	}
	if slices.ContainsFunc(left, func(name string) bool { return filepath.Ext(name) == ".tmp" }) {
		t.Errorf("left behind: %q", left)
	}
	holds(t, s, "kept", old)
	put(t, s, "new", []byte("stored"))
	closeSpool(t, s)
	s = open(t, dir)
	hasTorn(t, s, 0)
	hasKeys(t, s, "kept", "new")
	holds(t, s, "kept", old)
	closeSpool(t, s)
}

// TestSpool_FileSizeLimit is the fault that needs no right: no file may be longer than 0 bytes.
func TestSpool_FileSizeLimit(t *testing.T) {
	t.Parallel()
	inChild(t, asIs, func(t *testing.T) { limited().goesThrough(t, filepath.Join(t.TempDir(), "spool")) })
}

func limited() fault {
	return fault{
		breaks: func(t *testing.T) { limitFiles(t, 0) },
		mends:  func(t *testing.T) { limitFiles(t, unix.RLIM_INFINITY) },
		want:   syscall.EFBIG,
	}
}

// TestSpool_CutWrite: the system takes the first half of a record only.
func TestSpool_CutWrite(t *testing.T) {
	t.Parallel()
	inChild(t, asIs, func(t *testing.T) {
		s := open(t, t.TempDir())
		put(t, s, "a", []byte("old"))
		limitFiles(t, 4096)
		if err := s.Put("a", make([]byte, 8192)); !errors.Is(err, syscall.EFBIG) {
			t.Fatalf("Put = %v, want EFBIG", err)
		}
		holds(t, s, "a", []byte("old"))
		put(t, s, "b", make([]byte, 2000))
		hasKeys(t, s, "a", "b")
	})
}

// TestSpool_NoPermission: the folder belongs to somebody else.
func TestSpool_NoPermission(t *testing.T) {
	t.Parallel()
	inChild(t, asIs, func(t *testing.T) {
		dir := t.TempDir()
		uid := os.Geteuid()
		fault{
			breaks: func(t *testing.T) {
				if err := os.Chmod(dir, 0o500); err != nil {
					t.Fatal(err)
				}
				if uid == 0 { // whom modes do not stop
					if err := syscall.Setreuid(-1, 65534); err != nil {
						t.Log("Setreuid:", err)
					}
				}
			},
			mends: func(t *testing.T) {
				if err := errors.Join(syscall.Setreuid(-1, uid), os.Chmod(dir, 0o700)); err != nil {
					t.Fatal(err)
				}
			},
			want: syscall.EACCES,
		}.goesThrough(t, dir)
	})
}

// TestOpen_ReadOnlyDisk: without the right to mount it is TestSpool_FileSizeLimit once more.
func TestOpen_ReadOnlyDisk(t *testing.T) {
	t.Parallel()
	inChild(t, ownMounts, func(t *testing.T) {
		dir := t.TempDir()
		if err := smallDisk(dir); err != nil {
			t.Log("no right to mount, limiting file sizes:", err)
			limited().goesThrough(t, dir)
			return
		}
		defer func() { _ = unix.Unmount(dir, 0) }()
		remount := func(flags uintptr) {
			t.Helper()
			if err := unix.Mount("", dir, "", unix.MS_REMOUNT|flags, ""); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, dir)
		put(t, s, "a", nil)
		closeSpool(t, s) // while it is open the disk cannot be made read-only
		remount(unix.MS_RDONLY)
		if _, err := spool.Open(dir, spool.Options{}); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "data_dir") {
			t.Fatalf("Open = %v, want EROFS that names data_dir", err)
		}
		remount(0)
		s = open(t, dir)
		hasKeys(t, s, "a")
		closeSpool(t, s)
	})
}

// TestSpool_FullDisk fills a disk of 6 MB, first with a file of somebody else, then with records. Without the right to
// mount it is TestSpool_FileSizeLimit once more, and TestSpool_MaxBytes holds the rest.
func TestSpool_FullDisk(t *testing.T) {
	t.Parallel()
	inChild(t, ownMounts, func(t *testing.T) {
		disk := t.TempDir()
		dir := filepath.Join(disk, "spool")
		if err := smallDisk(disk); err != nil {
			t.Log("no right to mount, limiting file sizes:", err)
			limited().goesThrough(t, dir)
			return
		}
		defer func() { _ = unix.Unmount(disk, 0) }()
		filler := filepath.Join(disk, "filler")
		fault{
			breaks: func(t *testing.T) {
				if err := os.WriteFile(filler, make([]byte, 6<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("filling the disk = %v, want ENOSPC", err)
				}
			},
			mends: func(t *testing.T) { _ = os.Remove(filler) },
			want:  syscall.ENOSPC,
		}.goesThrough(t, dir)
		fillWithRecords(t, dir)
	})
}

func fillWithRecords(t *testing.T, dir string) {
	t.Helper()
	s := open(t, dir)
	data := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 50000+i) }
	var keys []string
	var err error
	for {
		key := fmt.Sprint("k", len(keys))
		if err = s.Put(key, data(len(keys))); err != nil {
			break
		}
		keys = append(keys, key)
	}
	if !errors.Is(err, syscall.ENOSPC) || len(keys) < 90 {
		t.Fatalf("Put %d = %v, want ENOSPC after more than 90", len(keys), err)
	}
	check := func(s *spool.Spool) {
		t.Helper()
		hasTorn(t, s, 0)
		hasKeys(t, s, slices.Concat([]string{"kept", "new"}, keys)...)
		for i, key := range keys {
			holds(t, s, key, data(i))
		}
		if err := s.Check(); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Check() on a full disk = %v, want ENOSPC", err)
		}
	}
	check(s)
	closeSpool(t, s)
	s = open(t, dir) // a full disk does not keep anybody from replaying
	check(s)
	for _, key := range keys[:30] {
		remove(t, s, key)
	}
	if err := s.Check(); err != nil {
		t.Fatalf("Check() with 30 records less = %v, want nil", err)
	}
	put(t, s, "k0", data(0))
	closeSpool(t, s)
}
