package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"syscall"
)

const (
	tornDir = "torn"
	// maxAside bounds the number of files in tornDir.
	maxAside = 100
)

var errAsideFull = fmt.Errorf("%s holds %d files already; look at them and remove them", tornDir, maxAside)

// scan reads what the folder has.
func (s *Spool) scan() error {
	files, err := s.dir.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := s.admit(f); err != nil {
			return err
		}
	}
	if s.Len() > 0 {
		s.log.Info("Spool holds records of an earlier run", "dir", s.path, "records", s.Len(), "bytes", s.Bytes())
	}
	return nil
}

// admit lists, deletes or sets aside one file of the folder.
func (s *Spool) admit(f fs.DirEntry) error {
	name, regular := f.Name(), f.Type().IsRegular()
	switch {
	case name == lockName, name == tornDir:
		return nil
	case isTempName(name) && regular:
		return s.root.Remove(name)
	case isRecordName(name) && regular:
		return s.load(name)
	case f.IsDir() && !isRecordName(name): // lost+found, for one
		return nil
	}
	s.setAside(name, errForeign)
	return nil
}

// load lists a record.
func (s *Spool) load(name string) error {
	r, err := s.read(name)
	if err == nil && fileName(r.key) != name {
		err = fmt.Errorf("%w: a record under the name of another", errTorn)
	}
	switch {
	case errors.Is(err, errTorn):
		s.setAside(name, err)
		return nil
	case errors.Is(err, errVersion):
		return fmt.Errorf("%s: %w (let that version run until its spool is empty)", name, err)
	case err != nil:
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := entry{seq: r.seq, bytes: diskBytes(fileBytes(r.key, r.data))}
	s.index[r.key] = e
	s.bytes += e.bytes
	s.seq = max(s.seq, r.seq)
	return nil
}

// read reads a record. The error is errTorn as well when the disk cannot give the file back.
func (s *Spool) read(name string) (record, error) {
	info, err := s.root.Lstat(name)
	if err != nil {
		return record{}, err
	}
	if most := int64(headerBytes + MaxKeyBytes + MaxDataBytes + sumBytes); !info.Mode().IsRegular() || info.Size() > most {
		return record{}, fmt.Errorf("%w: mode %s, %d bytes", errTorn, info.Mode(), info.Size())
	}
	b, err := s.root.ReadFile(name)
	if errors.Is(err, syscall.EIO) {
		return record{}, fmt.Errorf("%w: %w", errTorn, err)
	}
	if err != nil {
		return record{}, err
	}
	return decode(b)
}

// setAside moves a file to the folder "torn". If that cannot be done, on a full disk for one, the file stays where it
// is: it must not keep the others from being replayed.
func (s *Spool) setAside(name string, why error) {
	s.aside.Lock()
	defer s.aside.Unlock()
	s.torn.Add(1)
	to, err := s.moveAside(name)
	if err != nil {
		s.log.Error("Spool file is of no use and cannot be moved aside", "dir", s.path, "file", name, "err", errors.Join(why, err))
		return
	}
	s.log.Error("Spool file is of no use, moved aside", "dir", s.path, "file", name, "to", to, "err", why)
}

func (s *Spool) moveAside(name string) (to string, err error) {
	if err := s.root.Mkdir(tornDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	dir, err := s.root.Open(tornDir)
	if err != nil {
		return "", err
	}
	defer func() { _ = dir.Close() }()
	there, err := dir.Readdirnames(-1)
	if err != nil {
		return "", err
	}
	if len(there) >= maxAside {
		return "", errAsideFull
	}
	to = path.Join(tornDir, name)
	for i := 1; s.exists(to); i++ {
		to = path.Join(tornDir, name+"."+strconv.Itoa(i))
	}
	if err := s.root.Rename(name, to); err != nil {
		return "", err
	}
	return to, s.sync(dir)
}

func (s *Spool) exists(name string) bool {
	_, err := s.root.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
