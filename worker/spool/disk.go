package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const lockName = "lock"

// makeDir makes the folder and those above it, for good.
func makeDir(path string) error {
	var parents []string // of what is made, the deepest first
	for p := path; ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) || p == filepath.Dir(p) {
			break
		}
		parents = append(parents, filepath.Dir(p))
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	for _, p := range parents {
		if err := syncPath(p); err != nil {
			return err
		}
	}
	return nil
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// takeLock locks the folder for this process until releaseLock, or until the process is gone.
func takeLock(root *os.Root) (*os.File, error) {
	f, err := root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w (give each its own data_dir)", ErrLocked)
	}
	return nil, os.NewSyscallError("flock", err)
}

// releaseLock unlocks before it closes: a child between fork and exec may have the file for a moment longer.
func releaseLock(f *os.File) error {
	return errors.Join(os.NewSyscallError("flock", unix.Flock(int(f.Fd()), unix.LOCK_UN)), f.Close())
}

// write writes a file of the folder, in place of one that is there.
func (s *Spool) write(name string, b []byte, sync bool) error {
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil && sync {
		err = s.sync(f)
	}
	if closed := f.Close(); err == nil {
		err = closed // some file systems tell only here that the disk is full
	}
	return err
}

// syncDir makes the names in the folder last.
func (s *Spool) syncDir() error { return s.sync(s.dir) }

func (s *Spool) fail(op string, err error) error {
	if way := wayOut(err); way != "" {
		return fmt.Errorf("spool %s: %s: %w (%s)", s.path, op, err, way)
	}
	return fmt.Errorf("spool %s: %s: %w", s.path, op, err)
}

func (s *Spool) failKey(op, key string, err error) error {
	return s.fail(fmt.Sprintf("%s %.64q", op, key), err)
}

// wayOut says what to do about err, or nothing.
func wayOut(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "make room on the disk of data_dir"
	case errors.Is(err, syscall.EROFS):
		return "data_dir is on a disk mounted read-only"
	case errors.Is(err, fs.ErrPermission):
		return "data_dir must belong to the user that offstage runs as"
	}
	return ""
}
