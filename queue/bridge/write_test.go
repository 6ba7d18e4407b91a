package bridge_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"offstage/queue/bridge"
	"offstage/tasks"
)

func TestStore_WriteProgress(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		for i, p := range []float64{0, 0.5, 1.0 / 3, 1e-9, 1} {
			if err := f.store.WriteProgress(f.ctx(), a, p); err != nil {
				t.Fatal(err)
			}
			task := f.want(a.Task.ID, tasks.Running)
			if d := task.Progress - p; d > 1e-6 || d < -1e-6 || task.Version != a.Task.Version+int64(i)+1 {
				t.Errorf("progress %v reads as %v, version %d", p, task.Progress, task.Version)
			}
		}
		events, err := f.store.Events(f.ctx(), a.Task.ID, 2, 100)
		if err != nil || len(events) != 5 || events[1].Kind != tasks.EventProgress || string(events[1].Payload) != `{"progress":0.5}` {
			t.Errorf("events = %+v, %v", events, err)
		}
		for _, e := range events {
			if !json.Valid(e.Payload) {
				t.Errorf("payload %s", e.Payload)
			}
		}
	})
}

func TestStore_WriteEvent(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		for _, p := range []string{`{"a":1}`, ``, `"é"`} {
			if err := f.store.WriteEvent(f.ctx(), a, "step", json.RawMessage(p)); err != nil {
				t.Fatal(err)
			}
		}
		events, err := f.store.Events(f.ctx(), a.Task.ID, 2, 100)
		if err != nil || len(events) != 3 {
			t.Fatalf("events = %+v, %v", events, err)
		}
		for i, want := range []string{`{"a":1}`, ``, `"é"`} {
			if e := events[i]; e.Kind != tasks.EventCustom || e.Type != "step" || string(e.Payload) != want || e.Seq != int64(3+i) || e.TaskID != a.Task.ID || e.Owner != "ann" {
				t.Errorf("event %d = %+v, want payload %s", i, e, want)
			}
		}
		if got := f.get(a.Task.ID).Version; got != a.Task.Version+3 {
			t.Errorf("version = %d", got)
		}
	})
}

// 0: another attempt has the task, or it has ended, or it is gone.
func TestStore_Write_Stale(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		if err := f.store.WriteOutput(f.ctx(), a, "mine", 0); err != nil {
			t.Fatal(err)
		}
		stale := func(name string) {
			t.Helper()
			var errs []error
			errs = append(errs, f.store.WriteProgress(f.ctx(), a, 0.9), f.store.WriteEvent(f.ctx(), a, "x", nil),
				f.store.WriteOutput(f.ctx(), a, "stale", 4))
			for _, err := range errs {
				if !errors.Is(err, tasks.ErrLeaseLost) {
					t.Errorf("%s: %v, want %v", name, err, tasks.ErrLeaseLost)
				}
			}
		}
		f.takeover(1)
		stale("taken over")
		b := f.take()
		stale("next attempt")
		f.end(b, bridge.End{Outcome: bridge.Completed})
		stale("ended")
		if task := f.want(a.Task.ID, tasks.Completed); task.Output != "mine" || task.Progress != 1 {
			t.Errorf("task = %+v", task)
		}
		if err := f.store.Delete(f.ctx(), a.Task.ID, ""); err != nil {
			t.Fatal(err)
		}
		stale("deleted")
		if d := cmp.Diff(map[string]int{"stale task_event": 12}, f.seen.counts()); d != "" {
			t.Errorf("counted (-want +got):\n%s", d)
		}
	})
}

// Text is placed by its offset: what is stored already is passed over, so a write may be repeated.
func TestStore_WriteOutput(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		for _, w := range []struct {
			text   string
			offset int64
			want   string
		}{
			{"", 0, ""},
			{"hello ", 0, "hello "},
			{"hello ", 0, "hello "},
			{"hello wor", 0, "hello wor"},
			{"lo", 3, "hello wor"},
			{"world", 6, "hello world"},
			{"", 11, "hello world"},
			{"\x00\xff!", 11, "hello world\x00\xff!"},
		} {
			if err := f.store.WriteOutput(f.ctx(), a, w.text, w.offset); err != nil {
				t.Fatal(err)
			}
			task := f.want(a.Task.ID, tasks.Running)
			if task.Output != w.want || task.OutputCut != 0 || task.Version != a.Task.Version {
				t.Errorf("after %q at %d: output %q, cut %d", w.text, w.offset, task.Output, task.OutputCut)
			}
		}
	})
}

// The writer dropped a part while Redis was away: what is kept is without a hole, and the count goes on.
func TestStore_WriteOutput_Gap(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		for _, w := range []struct {
			text   string
			offset int64
		}{{"before", 0}, {"after", 100}, {" more", 105}} {
			if err := f.store.WriteOutput(f.ctx(), a, w.text, w.offset); err != nil {
				t.Fatal(err)
			}
		}
		if task := f.get(a.Task.ID); task.Output != "after more" || task.OutputCut != 100 {
			t.Errorf("output %q, cut %d", task.Output, task.OutputCut)
		}
		out, begin, written, err := f.store.Output(f.ctx(), a.Task.ID, 0, 1000)
		if err != nil || out != "after more" || begin != 100 || written != 110 {
			t.Errorf("Output = %q, %d, %d, %v", out, begin, written, err)
		}
	})
}

// The tail is kept: at most 96 KiB are stored, 64 KiB shown, and no rune is cut in half.
func TestStore_WriteOutput_Tail(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		for _, tc := range []struct {
			name  string
			piece string
			times int
		}{
			{"at the limit", strings.Repeat("x", 1024), 96},
			{"over it", strings.Repeat("x", 1024), 97},
			{"two bytes", "a" + strings.Repeat("é", 5000), 30},
			{"three bytes", "ab" + strings.Repeat("…", 3000), 40},
			{"four bytes", "abc" + strings.Repeat("😀", 2500), 31},
			{"in one write", "abc" + strings.Repeat("😀", 50_000), 1},
			{"no text", strings.Repeat("\x80", 10_000), 12},
		} {
			a := f.running()
			var all strings.Builder
			for i := range tc.times {
				at := int64(all.Len())
				all.WriteString(tc.piece)
				if err := f.store.WriteOutput(f.ctx(), a, tc.piece, at); err != nil {
					t.Fatal(err)
				}
				if i%10 == 0 { // once more: the reply was lost
					if err := f.store.WriteOutput(f.ctx(), a, tc.piece, at); err != nil {
						t.Fatal(err)
					}
				}
				if size := f.rdb.StrLen(f.ctx(), "offstage:{low}:o:"+a.Task.ID).Val(); size > 96<<10 {
					t.Errorf("%s: %d bytes are stored", tc.name, size)
				}
			}
			task := f.get(a.Task.ID)
			if !strings.HasSuffix(all.String(), task.Output) || int64(all.Len()) != task.OutputCut+int64(len(task.Output)) {
				t.Errorf("%s: %d bytes of output, %d cut, of %d", tc.name, len(task.Output), task.OutputCut, all.Len())
			}
			if len(task.Output) < 64<<10-4 || len(task.Output) > 64<<10 || utf8.ValidString(tc.piece) != utf8.ValidString(task.Output) {
				t.Errorf("%s: %d bytes of output, valid %v", tc.name, len(task.Output), utf8.ValidString(task.Output))
			}
			stored := f.rdb.Get(f.ctx(), "offstage:{low}:o:"+a.Task.ID).Val()
			if utf8.ValidString(tc.piece) && !utf8.ValidString(stored) {
				t.Errorf("%s: what is stored begins within a rune: % x", tc.name, stored[:8])
			}
			f.end(a, bridge.End{Outcome: bridge.Completed})
		}
	})
}

// End brings the last output along, by the same rules.
func TestStore_End_Output(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		if err := f.store.WriteOutput(f.ctx(), a, "one ", 0); err != nil {
			t.Fatal(err)
		}
		f.end(a, bridge.End{Outcome: bridge.Retry, Error: boom(), Output: "one two ", OutputAt: 0})
		f.forward(1)
		b := f.take()
		if b.Written != 8 {
			t.Errorf("Written = %d, want 8", b.Written)
		}
		f.end(b, bridge.End{Outcome: bridge.Completed, Output: "three", OutputAt: b.Written})
		if task := f.want(a.Task.ID, tasks.Completed); task.Output != "one two three" {
			t.Errorf("output = %q", task.Output)
		}
	})
}

// Readers page through the output by offset.
func TestStore_Output(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		const text = "aé…😀z"
		if err := f.store.WriteOutput(f.ctx(), a, text, 0); err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			offset int64
			limit  int
			want   string
			begin  int64
		}{
			{-1, 100, text, 0},
			{0, 100, text, 0},
			{1, 100, "é…😀z", 1},
			{0, 1, "a", 0},
			{0, 2, "a", 0},
			{0, 3, "aé", 0},
			{3, 4, "…", 3},
			{6, 4, "😀", 6},
			{int64(len(text)), 100, "", int64(len(text))},
			{1 << 40, 100, "", int64(len(text))},
		} {
			out, begin, written, err := f.store.Output(f.ctx(), a.Task.ID, tc.offset, tc.limit)
			if err != nil || out != tc.want || begin != tc.begin || written != int64(len(text)) {
				t.Errorf("Output(%d, %d) = %q, %d, %d, %v, want %q, %d", tc.offset, tc.limit, out, begin, written, err, tc.want, tc.begin)
			}
		}
		for offset := range int64(len(text)) { // also within a rune
			out, begin, _, err := f.store.Output(f.ctx(), a.Task.ID, offset, 100)
			if err != nil || !utf8.ValidString(out) || begin < offset || text[begin:] != out {
				t.Errorf("Output(%d) = %q, %d, %v", offset, out, begin, err)
			}
		}
		got, next := "", int64(0)
		for range 100 { // whatever the limit, a reader gets on
			out, begin, written, err := f.store.Output(f.ctx(), a.Task.ID, next, 1)
			if err != nil || begin != next {
				t.Fatalf("Output(%d, 1) = %q, %d, %v", next, out, begin, err)
			}
			if got, next = got+out, begin+int64(len(out)); next == written {
				break
			}
		}
		if got != text {
			t.Errorf("read %q with limit 1, want %q", got, text)
		}
	})
}

// Events are paged by number.
func TestStore_Events(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, f *fixture) {
		a := f.running()
		for i := range 8 {
			if err := f.store.WriteEvent(f.ctx(), a, fmt.Sprint(i), nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, tc := range []struct {
			after int64
			limit int
			want  []int64
		}{
			{-5, 3, []int64{1, 2, 3}}, {0, 1, []int64{1}}, {1, 2, []int64{2, 3}}, {8, 100, []int64{9, 10}}, {10, 5, nil}, {1 << 40, 5, nil},
		} {
			events, err := f.store.Events(f.ctx(), a.Task.ID, tc.after, tc.limit)
			var got []int64
			for _, e := range events {
				got = append(got, e.Seq)
			}
			if d := cmp.Diff(tc.want, got); d != "" || err != nil {
				t.Errorf("Events(after %d, limit %d): %v (-want +got):\n%s", tc.after, tc.limit, err, d)
			}
		}
	})
}
