package spool

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultMaxBytes is how much of the disk a spool takes unless Options say otherwise: 1 GiB.
	DefaultMaxBytes = 1 << 30
	// MaxKeyBytes bounds a key.
	MaxKeyBytes = 4096
	// MaxDataBytes bounds the data of one record: 64 MiB.
	MaxDataBytes = 64 << 20
)

var (
	// ErrLocked: another Spool, of this process or another, has the folder.
	ErrLocked = errors.New("in use by another offstage")
	// ErrFull: the records would take more than Options.MaxBytes.
	ErrFull = errors.New("spool full")
	// ErrTooLarge: the key is empty or larger than MaxKeyBytes, or the data larger than MaxDataBytes.
	ErrTooLarge = errors.New("key or data out of range")
)

// Options tunes a [Spool]. The zero value is usable.
type Options struct {
	// MaxBytes bounds the disk space of the records and of unfinished writes, each counted in blocks of 4 KiB. Zero
	// means DefaultMaxBytes. Files in the folder "torn" are not counted: what is left of a bad disk must not take the
	// room of outcomes. A spool that holds more already opens, and takes nothing until there is room.
	MaxBytes int64
	// Logger tells of files that were set aside. Nil means nowhere.
	Logger *slog.Logger
}

// Spool is a folder of records. Make one with [Open]. All methods may be called at the same time; Puts of different
// keys run in parallel. None can be interrupted: they take as long as the disk does. After Close they return
// os.ErrClosed, but for those that answer from memory.
type Spool struct {
	path     string
	root     *os.Root // of the folder, so that a folder put in its place is not mistaken for it
	dir      *os.File // the folder again, to sync it
	lock     *os.File
	maxBytes int64
	log      *slog.Logger
	sync     func(*os.File) error // (*os.File).Sync; tests look on and make it fail

	use    sync.RWMutex   // read: the files are in use; write: Close
	closed bool           // under use
	keys   [64]sync.Mutex // see keyLock
	seed   maphash.Seed   // spreads the keys over them
	torn   atomic.Int64
	aside  sync.Mutex // one file is set aside at a time

	probing sync.Mutex // one Check at a time
	probed  time.Time  // when a probe was last synced with success; under probing

	mu    sync.Mutex
	index map[string]entry
	bytes int64  // taken by records and unfinished writes
	seq   uint64 // of the latest Put
}

// entry is what memory knows of a record.
type entry struct {
	seq   uint64
	bytes int64 // on disk
}

// Open opens the spool in the folder dir, which it makes if it has to (mode 0700), and locks it: the error is ErrLocked
// while somebody else has it. It reads every record. Files that are torn, and files that are none of the spool's, are
// moved to the folder "torn" in it, at most 100; what comes after those stays where it is, unused. Folders are left
// alone. What unfinished writes left behind is deleted.
//
// A record that cannot be read for want of permission, or was written by another version, is an error: nothing is
// lost, and someone has to look.
func Open(dir string, opts Options) (*Spool, error) {
	if opts.MaxBytes < 0 {
		return nil, fmt.Errorf("spool %s: MaxBytes is %d, want 0 or more", dir, opts.MaxBytes)
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("spool %s: %w", dir, err)
	}
	s := &Spool{
		path: path, maxBytes: cmp.Or(opts.MaxBytes, DefaultMaxBytes), log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)),
		sync: (*os.File).Sync, index: map[string]entry{}, seed: maphash.MakeSeed(),
	}
	if err := s.open(); err != nil {
		_ = s.Close()
		return nil, s.fail("open", err)
	}
	return s, nil
}

func (s *Spool) open() (err error) {
	if err := makeDir(s.path); err != nil {
		return err
	}
	if s.root, err = os.OpenRoot(s.path); err != nil {
		return err
	}
	if s.dir, err = s.root.Open("."); err != nil {
		return err
	}
	if s.lock, err = takeLock(s.root); err != nil {
		return err
	}
	if err := s.scan(); err != nil {
		return err
	}
	return s.syncDir()
}

// Close waits for the calls that are under way and gives the folder up. Later calls do nothing.
func (s *Spool) Close() error {
	s.use.Lock()
	defer s.use.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	if s.lock != nil {
		errs = append(errs, releaseLock(s.lock))
	}
	if s.dir != nil {
		errs = append(errs, s.dir.Close())
	}
	if s.root != nil {
		errs = append(errs, s.root.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return s.fail("close", err)
	}
	return nil
}

// enter holds Close off until leave.
func (s *Spool) enter() error {
	s.use.RLock()
	if s.closed {
		s.use.RUnlock()
		return os.ErrClosed
	}
	return nil
}

func (s *Spool) leave() { s.use.RUnlock() }

// Has reports whether there is a record of the key. It answers from memory.
func (s *Spool) Has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.index[key]
	return ok
}

// Keys returns the keys of the records, the one that was put first at the front. A record that was replaced counts
// from then. The order survives a restart.
func (s *Spool) Keys() []string {
	type item struct {
		key string
		seq uint64
	}
	s.mu.Lock()
	items := make([]item, 0, len(s.index))
	for key, e := range s.index {
		items = append(items, item{key, e.seq})
	}
	s.mu.Unlock()
	slices.SortFunc(items, func(a, b item) int { return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.key, b.key)) })
	keys := make([]string, len(items))
	for i, it := range items {
		keys[i] = it.key
	}
	return keys
}

// Len returns the number of records.
func (s *Spool) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.index)
}

// Bytes returns the disk space of the records and of writes under way, which Options.MaxBytes bounds.
func (s *Spool) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Torn returns how many files this Spool has found that were torn or none of its own. It never goes down; a file that
// could not be moved aside is counted again when the folder is opened again.
func (s *Spool) Torn() int64 { return s.torn.Load() }
