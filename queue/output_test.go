package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"offstage/queue"
	"offstage/queue/bridge"
	"offstage/tasks"
)

// running gives the attempt of a task that runs until the test ends.
func running(t *testing.T, q *queue.Queue) *bridge.Attempt {
	t.Helper()
	begun, hold := make(chan *bridge.Attempt, 1), make(chan struct{})
	serve(t, q, func(a *bridge.Attempt) bridge.End {
		begun <- a
		<-hold
		return bridge.End{Outcome: bridge.Completed}
	})
	t.Cleanup(func() { close(hold) })
	enqueue(t, q, noop())
	return <-begun
}

func write(t *testing.T, q *queue.Queue, a *bridge.Attempt, text string, at int64) {
	t.Helper()
	if err := q.Store().WriteOutput(t.Context(), a, text, at); err != nil {
		t.Fatalf("WriteOutput at %d: %v", at, err)
	}
}

func TestQueue_Output(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	a := running(t, q)
	ref := tasks.Ref{ID: a.Task.ID, Owner: "ada"}
	const text = "aé€😀z" // 1, 2, 3, 4 and 1 bytes, at 0, 1, 3, 6 and 10
	write(t, q, a, text, 0)
	tests := []struct {
		offset int64
		limit  int
		want   queue.Output
	}{
		{0, 0, queue.Output{Text: text, Next: 11}},
		{-5, 0, queue.Output{Text: text, Next: 11}},
		{0, 1 << 20, queue.Output{Text: text, Next: 11}},
		{1, 0, queue.Output{Text: "é€😀z", Offset: 1, Next: 11}},
		{10, 0, queue.Output{Text: "z", Offset: 10, Next: 11}},
		{11, 0, queue.Output{Offset: 11, Next: 11}},
		{0, 5, queue.Output{Text: "aé", Next: 3}},
		{0, 6, queue.Output{Text: "aé€", Next: 6}},
		{3, 6, queue.Output{Text: "€", Offset: 3, Next: 6}},
		{6, 1, queue.Output{Text: "😀", Offset: 6, Next: 10}}, // one rune at least, or a reader would stand still
		{6, 4, queue.Output{Text: "😀", Offset: 6, Next: 10}},
		{2, 0, queue.Output{Text: "€😀z", Offset: 3, Next: 11}}, // in the middle of é
		{7, 4, queue.Output{Text: "z", Offset: 10, Next: 11}},  // in the middle of the last but one
		{4, 5, queue.Output{Text: "😀z", Offset: 6, Next: 11}},
	}
	for _, tt := range tests {
		got, err := q.Output(t.Context(), ref, tt.offset, tt.limit, 0)
		tt.want.Total, tt.want.Status = 11, tasks.Running
		if err != nil || *got != tt.want {
			t.Errorf("Output(offset %d, limit %d) = %+v, %v, want %+v", tt.offset, tt.limit, got, err, tt.want)
		}
	}
	// An offset from the future, of a reader who knows another run.
	if got, err := q.Output(t.Context(), ref, 500, 0, 0); err != nil || got.Text != "" || got.Offset != 11 || got.Next != 11 {
		t.Errorf("Output(500) = %+v, %v, want nothing, at the end", got, err)
	}
	if got := get(t, q, ref.ID); got.Output != text || got.OutputCut != 0 {
		t.Errorf("Get: output %q, cut %d", got.Output, got.OutputCut)
	}
}

// TestQueue_OutputReader: a reader that goes on at Next, with any limit, reads all of it in whole runes.
func TestQueue_OutputReader(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	a := running(t, q)
	text := strings.Repeat("aé€😀", 40)
	write(t, q, a, text, 0)
	for _, limit := range []int{1, 2, 3, 4, 5, 7, 64, 1000} {
		var read strings.Builder
		for next := int64(0); next < int64(len(text)); {
			got, err := q.Output(t.Context(), tasks.Ref{ID: a.Task.ID}, next, limit, 0)
			if err != nil || got.Offset != next || got.Next <= next || !utf8.ValidString(got.Text) {
				t.Fatalf("limit %d: Output(%d) = %+v, %v", limit, next, got, err)
			}
			read.WriteString(got.Text)
			next = got.Next
		}
		if read.String() != text {
			t.Errorf("limit %d: read %d bytes, want %d", limit, read.Len(), len(text))
		}
	}
}

// TestQueue_OutputTail: 64 KiB at least are kept, cut at the start of a rune, and the cut is told.
func TestQueue_OutputTail(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	a := running(t, q)
	at := int64(0)
	for range 100 {
		chunk := "x" + strings.Repeat("€", 1000) // never in step with the cut
		write(t, q, a, chunk, at)
		at += int64(len(chunk))
	}
	got, err := q.Output(t.Context(), tasks.Ref{ID: a.Task.ID}, 0, 0, 0)
	if err != nil || got.Total != at || got.Offset == 0 || !utf8.ValidString(got.Text) || got.Next != got.Offset+int64(len(got.Text)) {
		t.Fatalf("Output = %d bytes at %d, next %d, of %d (%v)", len(got.Text), got.Offset, got.Next, got.Total, err)
	}
	whole := get(t, q, a.Task.ID)
	if !utf8.ValidString(whole.Output) || whole.OutputCut+int64(len(whole.Output)) != at || len(whole.Output) < 65000 {
		t.Errorf("Get: %d bytes of output after %d, of %d", len(whole.Output), whole.OutputCut, at)
	}
	// The same again changes nothing; a gap is told as one.
	write(t, q, a, "€", at-3)
	write(t, q, a, "end", at+1000)
	got, err = q.Output(t.Context(), tasks.Ref{ID: a.Task.ID}, at, 0, 0)
	if err != nil || got.Text != "end" || got.Offset != at+1000 || got.Total != at+1003 {
		t.Errorf("Output after a gap = %+v, %v", got, err)
	}
}

func TestQueue_OutputWait(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	a := running(t, q)
	ref := tasks.Ref{ID: a.Task.ID}
	for _, offset := range []int64{0, -1} {
		began := time.Now()
		got, err := q.Output(t.Context(), ref, offset, 0, 200*time.Millisecond)
		if took := time.Since(began); err != nil || got.Text != "" || took < 200*time.Millisecond || took > 2*time.Second {
			t.Errorf("Output(%d) with nothing to read = %+v, %v, after %v, want nothing after 200ms", offset, got, err, took)
		}
	}
	done := make(chan error, 1)
	go func() {
		time.Sleep(100 * time.Millisecond)
		done <- q.Store().WriteOutput(t.Context(), a, "hello", 0)
	}()
	began := time.Now()
	got, err := q.Output(t.Context(), ref, 0, 0, 10*time.Second)
	if took := time.Since(began); err != nil || got.Text != "hello" || got.Status != tasks.Running || took > 2*time.Second {
		t.Errorf("Output = %+v, %v, after %v", got, err, took)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	waiting := enqueue(t, q, tasks.Spec{Type: "x", Owner: "ada", Delay: time.Hour}).ID
	cancel(t, q, waiting)
	began = time.Now()
	got, err = q.Output(t.Context(), tasks.Ref{ID: waiting}, 0, 0, 10*time.Second)
	if took := time.Since(began); err != nil || got.Status != tasks.Cancelled || took > 2*time.Second {
		t.Errorf("Output of a task that has ended = %+v, %v, after %v", got, err, took)
	}
}

func TestQueue_Events(t *testing.T) {
	t.Parallel()
	q, _ := open(t, server.FreshDB(t))
	a := running(t, q)
	ref := tasks.Ref{ID: a.Task.ID, Owner: "ada"}
	for i := range 20 {
		if err := q.Store().WriteEvent(t.Context(), a, "tick", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	seqs := func(after int64, limit int) (first, n int64) {
		t.Helper()
		events, err := q.Events(t.Context(), ref, after, limit)
		if err != nil {
			t.Fatalf("Events(%d, %d): %v", after, limit, err)
		}
		for i, e := range events {
			if e.Seq != events[0].Seq+int64(i) || e.TaskID != ref.ID || e.Owner != "ada" || e.At.IsZero() {
				t.Fatalf("Events(%d, %d): event %d is %+v", after, limit, i, e)
			}
		}
		if len(events) == 0 {
			return 0, 0
		}
		return events[0].Seq, int64(len(events))
	}
	tests := []struct {
		after    int64
		limit    int
		first, n int64
	}{ // 1 created, 2 running, 3-22 tick
		{0, 0, 1, 22}, {0, 1, 1, 1}, {0, 2, 1, 2}, {1, 1, 2, 1}, {2, 5, 3, 5}, {21, 100, 22, 1}, {22, 100, 0, 0}, {99, 1, 0, 0},
		{-7, 3, 1, 3}, {0, 5000, 1, 22}, {0, -1, 1, 1},
	}
	for _, tt := range tests {
		if first, n := seqs(tt.after, tt.limit); first != tt.first || n != tt.n {
			t.Errorf("Events(after %d, limit %d) = %d from %d on, want %d from %d on", tt.after, tt.limit, n, first, tt.n, tt.first)
		}
	}
	events, err := q.Events(t.Context(), ref, 0, 3)
	if err != nil || events[0].Kind != tasks.EventCreated || events[1].Kind != tasks.EventRunning ||
		string(events[1].Payload) != `{"attempt":1,"worker":"runner"}` || events[2].Type != "tick" || string(events[2].Payload) != "0" {
		t.Errorf("Events = %+v, %v", events, err)
	}
}
