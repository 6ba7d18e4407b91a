package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Ledger is a file to which every body appends. Lines are whole, whatever kills the writer: each is one write to a file
// opened with O_APPEND.
type Ledger struct{ Path string }

// NewLedger makes an empty ledger that goes with the test.
func NewLedger(tb testing.TB) *Ledger {
	tb.Helper()
	return &Ledger{filepath.Join(tb.TempDir(), "ledger")}
}

// The kinds of line.
const (
	lineStart = "start"
	lineAlive = "alive" // now and then
	lineEnd   = "end"   // the body is done
	lineTerm  = "term"  // the body was asked to stop
)

// line is one line of a ledger.
type line struct {
	Key    string `json:"key"`
	Run    string `json:"run"` // the attempt: what the daemon marks its process with
	PID    int    `json:"pid"`
	Daemon int    `json:"daemon"` // the parent process
	Kind   string `json:"kind"`
	At     int64  `json:"at"` // Unix nanoseconds
	Code   int    `json:"code"`
}

func (l *Ledger) append(e line) error {
	f, err := os.OpenFile(l.Path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	e.At = time.Now().UnixNano()
	b, _ := json.Marshal(e) // texts and numbers: cannot fail
	_, err = f.Write(append(b, '\n'))
	if e.Kind != lineAlive {
		err = errors.Join(err, f.Sync())
	}
	return errors.Join(err, f.Close())
}

// Run is one body's life as the ledger knows it.
type Run struct {
	Key    string
	PID    int
	Daemon int // pid of the daemon that started it
	Start  time.Time
	Last   time.Time // the last sign of life
	Done   bool      // it came to its end
	Asked  bool      // it was asked to stop before; whatever it did then, its task may start again
	Code   int       // with which it came to its end
}

// Runs lists the runs by key, each key's in the order of their start. A ledger that nobody wrote to has none.
func (l *Ledger) Runs() (map[string][]*Run, error) {
	b, err := os.ReadFile(l.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	byRun, byKey := map[string]*Run{}, map[string][]*Run{}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		var e line
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		r := byRun[e.Run]
		if r == nil {
			r = &Run{Key: e.Key, PID: e.PID, Daemon: e.Daemon, Start: time.Unix(0, e.At)}
			byRun[e.Run] = r
			byKey[e.Key] = append(byKey[e.Key], r)
		}
		r.Last = time.Unix(0, e.At)
		switch e.Kind {
		case lineEnd:
			r.Done, r.Code = true, e.Code
		case lineTerm:
			r.Asked = true
		}
	}
	for _, runs := range byKey {
		slices.SortFunc(runs, func(a, b *Run) int { return a.Start.Compare(b.Start) })
	}
	return byKey, lines.Err()
}

// Of lists the runs of one key; none when the ledger cannot be read.
func (l *Ledger) Of(key string) []*Run {
	all, _ := l.Runs()
	return all[key]
}
