package spool

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const (
	probeName = "probe" + tempSuffix
	// roomBytes is what Check wants to see free, for a record of usual size.
	roomBytes = 1 << 20
	// syncEvery is how often Check syncs its probe: only then some disks tell that they are full or broken, and a
	// sync costs too much for every call.
	syncEvery = time.Second
)

// Check returns nil when a record can be written now: the folder is there and the one that was opened, a few bytes
// can be written to it, and there is room for 1 MiB, in Options.MaxBytes (a sixteenth of that if it is less) and on
// the disk as far as the system tells. Each call looks again, so it sees room come back at once; it is cheap, but for
// one sync of a few bytes in a second. A larger record may still be refused.
func (s *Spool) Check() error {
	if err := s.enter(); err != nil {
		return s.fail("check", err)
	}
	defer s.leave()
	s.probing.Lock()
	defer s.probing.Unlock()
	for _, check := range []func() error{s.checkPlace, s.checkRoom, s.probe} {
		if err := check(); err != nil {
			s.probed = time.Time{}
			return s.fail("check", err)
		}
	}
	return nil
}

// checkPlace finds a folder that was deleted, moved or mounted over: what is written to it now, no later run finds.
func (s *Spool) checkPlace() error {
	there, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	ours, err := s.dir.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(there, ours) {
		return errors.New("the folder is not the one that was opened (restart offstage)")
	}
	return nil
}

func (s *Spool) checkRoom() error {
	room := min(roomBytes, s.maxBytes/16)
	if taken := s.Bytes(); taken+room > s.maxBytes {
		return fmt.Errorf("%w: %d bytes of %d taken", ErrFull, taken, s.maxBytes)
	}
	if free, ok := freeBytes(s.dir); ok && free < uint64(room) {
		return fmt.Errorf("%d bytes free: %w", free, syscall.ENOSPC)
	}
	return nil
}

// probe writes a few bytes and deletes them.
func (s *Spool) probe() error {
	sync := time.Since(s.probed) >= syncEvery
	err := s.write(probeName, []byte(magic), sync)
	if gone := s.root.Remove(probeName); err == nil {
		err = gone
	}
	if err == nil && sync {
		s.probed = time.Now()
	}
	return err
}
