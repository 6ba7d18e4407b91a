package spool

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"sync"
)

// blockBytes is what a file takes of the disk at least, and in steps of.
const blockBytes = 4096

// diskBytes is the space of a file of n bytes.
func diskBytes(n int64) int64 { return (n + blockBytes - 1) / blockBytes * blockBytes }

// Put keeps data under key, in place of an earlier record of the key. When it returns nil the record is on the disk.
// After an error the key has what it had before or, when only the last sync of the folder went wrong, the new record,
// perhaps not for good; it never has anything else. Errors are ErrFull, ErrTooLarge and those of the system, like
// ENOSPC. While a record is replaced both count towards Options.MaxBytes.
func (s *Spool) Put(key string, data []byte) error {
	if err := s.enter(); err != nil {
		return s.failKey("put", key, err)
	}
	defer s.leave()
	if err := s.put(key, data); err != nil {
		return s.failKey("put", key, err)
	}
	return nil
}

func (s *Spool) put(key string, data []byte) error {
	if key == "" || len(key) > MaxKeyBytes || len(data) > MaxDataBytes {
		return fmt.Errorf("%w: key of %d bytes (1 to %d), data of %d (at most %d)",
			ErrTooLarge, len(key), MaxKeyBytes, len(data), MaxDataBytes)
	}
	mu := s.keyLock(key)
	mu.Lock()
	defer mu.Unlock()
	e, err := s.reserve(diskBytes(fileBytes(key, data)))
	if err != nil {
		return err
	}
	if err := s.place(record{seq: e.seq, key: key, data: data}); err != nil {
		s.release(e)
		return err
	}
	s.enlist(key, e)
	return s.syncDir()
}

// place writes the file of r beside its place, syncs it and renames it.
func (s *Spool) place(r record) error {
	temp := tempName(r.seq)
	err := s.write(temp, r.encode(), true)
	if err == nil {
		err = s.root.Rename(temp, fileName(r.key))
	}
	if err != nil {
		_ = s.root.Remove(temp) // the next Open tries again
	}
	return err
}

// Get returns the data of the record of key; ok is false when there is none. A record that was damaged since it was
// put, or deleted by someone, is an error once and is gone after that; a damaged one is moved aside like in [Open].
func (s *Spool) Get(key string) (data []byte, ok bool, err error) {
	if err := s.enter(); err != nil {
		return nil, false, s.failKey("get", key, err)
	}
	defer s.leave()
	mu := s.keyLock(key)
	mu.Lock()
	defer mu.Unlock()
	if !s.Has(key) {
		return nil, false, nil
	}
	r, err := s.read(fileName(key))
	if err == nil && r.key != key {
		err = fmt.Errorf("%w: the record of %.64q", errTorn, r.key)
	}
	if err == nil {
		return r.data, true, nil
	}
	switch {
	case errors.Is(err, errTorn):
		s.strike(key)
		s.setAside(fileName(key), err)
	case errors.Is(err, fs.ErrNotExist):
		s.strike(key)
	}
	return nil, false, s.failKey("get", key, err)
}

// Remove deletes the record of key, if there is one. When it returns nil the record does not come back.
func (s *Spool) Remove(key string) error {
	if err := s.enter(); err != nil {
		return s.failKey("remove", key, err)
	}
	defer s.leave()
	mu := s.keyLock(key)
	mu.Lock()
	defer mu.Unlock()
	if !s.Has(key) {
		return nil
	}
	if err := s.root.Remove(fileName(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.failKey("remove", key, err)
	}
	if err := s.syncDir(); err != nil { // still listed, so that a second Remove syncs again
		return s.failKey("remove", key, err)
	}
	s.strike(key)
	return nil
}

// keyLock returns the lock under which the file and the entry of a key change together. Some keys share one.
func (s *Spool) keyLock(key string) *sync.Mutex {
	return &s.keys[maphash.String(s.seed, key)%uint64(len(s.keys))]
}

// reserve takes room for a record and gives it its place in the order.
func (s *Spool) reserve(n int64) (entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes+n > s.maxBytes {
		return entry{}, fmt.Errorf("%w: %d bytes of %d taken, %d more wanted", ErrFull, s.bytes, s.maxBytes, n)
	}
	s.bytes += n
	s.seq++
	return entry{seq: s.seq, bytes: n}, nil
}

func (s *Spool) release(e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= e.bytes
}

// enlist puts e, whose room is reserved, in the place of what the index has of key.
func (s *Spool) enlist(key string, e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= s.index[key].bytes
	s.index[key] = e
}

// strike takes key off the index.
func (s *Spool) strike(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= s.index[key].bytes
	delete(s.index, key)
}
