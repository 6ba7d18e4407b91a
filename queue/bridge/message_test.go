package bridge_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hibiken/asynq"

	"offstage/queue/bridge"
)

// messages holds tasks of asynq's own client, and what the bridge must read of them.
func messages() map[string]struct {
	task *asynq.Task
	opts []asynq.Option
	want bridge.Message
} {
	type message = struct {
		task *asynq.Task
		opts []asynq.Option
		want bridge.Message
	}
	deadline := time.Unix(2_000_000_000, 0)
	longest := time.Duration(math.MaxInt64).Truncate(time.Second)
	all := map[string]string{"offstage-owner": "Ünïcode 😀", "": "no name", "empty": "", "long": strings.Repeat("x", 5000)}
	return map[string]message{
		"defaults": {asynq.NewTask("t", nil), nil, bridge.Message{Type: "t", Retry: 25, Timeout: 30 * time.Minute}},
		"all": {
			asynq.NewTaskWithHeaders("typ:é…😀", []byte{0, 0xff, '\n'}, all),
			[]asynq.Option{
				asynq.MaxRetry(3), asynq.Timeout(90 * time.Second), asynq.Deadline(deadline), asynq.Retention(2 * time.Hour),
				asynq.Unique(time.Hour),
			},
			bridge.Message{
				Type: "typ:é…😀", Payload: []byte{0, 0xff, '\n'}, Headers: all, Retry: 3, Timeout: 90 * time.Second,
				Deadline: deadline, Retention: 2 * time.Hour,
			},
		},
		"zeros": {
			asynq.NewTaskWithHeaders("t", []byte{}, map[string]string{}), []asynq.Option{asynq.MaxRetry(0), asynq.Timeout(0), asynq.Retention(0)},
			bridge.Message{Type: "t", Timeout: 30 * time.Minute},
		},
		"deadline only": {
			asynq.NewTask("t", nil), []asynq.Option{asynq.Deadline(deadline)},
			bridge.Message{Type: "t", Retry: 25, Deadline: deadline},
		},
		"negative": {
			asynq.NewTask("t", nil), []asynq.Option{asynq.MaxRetry(-1), asynq.Deadline(time.Unix(-1, 0)), asynq.Retention(-time.Hour)},
			bridge.Message{Type: "t", Retention: -time.Hour},
		},
		"huge": {
			asynq.NewTask("t", []byte(strings.Repeat("p", 20_000))),
			[]asynq.Option{asynq.MaxRetry(math.MaxInt32), asynq.Timeout(math.MaxInt64), asynq.Retention(math.MaxInt64)},
			bridge.Message{
				Type: "t", Payload: []byte(strings.Repeat("p", 20_000)), Retry: math.MaxInt32,
				Timeout: longest, Retention: longest,
			},
		},
	}
}

// What asynq's client writes is read as it was meant; asynq does not export its encoding.
func TestMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, server.FreshDB(t))
	for name, tc := range messages() {
		info, err := f.plain.Enqueue(tc.task, append(tc.opts, asynq.Queue(f.queue))...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := bridge.ParseMessage([]byte(f.message(info.ID)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// message is asynq's message of a task, in its encoding.
func (f *fixture) message(id string) string {
	f.t.Helper()
	msg, err := f.rdb.HGet(f.ctx(), "asynq:{low}:t:"+id, "msg").Result()
	if err != nil {
		f.t.Fatal(err)
	}
	return msg
}

// Fields behind a message override it when asynq reads it, and only those.
func TestMessage_Overlays(t *testing.T) {
	t.Parallel()
	f := newFixture(t, server.FreshDB(t))
	at := time.Unix(1_900_000_000, 0)
	for _, tc := range []struct {
		name    string
		overlay func(msg []byte) []byte
		changed func(*asynq.TaskInfo)
	}{
		{
			"failed", func(m []byte) []byte { return append(m, bridge.FailedOverlay(2, "boom…", at)...) },
			func(i *asynq.TaskInfo) { i.Retried, i.LastErr, i.LastFailedAt = 2, "boom…", at },
		},
		{
			"failed again", func(m []byte) []byte {
				return append(append(m, bridge.FailedOverlay(2, "boom", at.Add(-time.Hour))...), bridge.FailedOverlay(0, "", at)...)
			},
			func(i *asynq.TaskInfo) { i.LastFailedAt = at },
		},
		{
			"failed with bytes", func(m []byte) []byte {
				return append(m, bridge.FailedOverlay(1, "\xff\x00"+strings.Repeat("é", 5000), at)...)
			},
			func(i *asynq.TaskInfo) {
				i.Retried, i.LastFailedAt = 1, at
				i.LastErr = "\ufffd\ufffd" + strings.Repeat("é", (4096-6-len(" …(cut)"))/2) + " …(cut)"
			},
		},
		{
			"completed", func(m []byte) []byte { return append(m, bridge.CompletedOverlay(3, at)...) },
			func(i *asynq.TaskInfo) { i.Retried, i.CompletedAt = 3, at },
		},
		{
			"unhurried", func(m []byte) []byte { return bridge.Unhurried(m, 1500*time.Millisecond) },
			func(i *asynq.TaskInfo) { i.Timeout, i.Deadline = 2*time.Second, time.Time{} },
		},
		{
			"unhurried without a limit", func(m []byte) []byte { return bridge.Unhurried(m, 0) },
			func(i *asynq.TaskInfo) { i.Timeout, i.Deadline = 10*365*24*time.Hour+time.Second, time.Time{} },
		},
	} {
		for name, task := range messages() {
			info, err := f.plain.Enqueue(task.task, append(task.opts, asynq.Queue(f.queue))...)
			if err != nil {
				t.Fatal(err)
			}
			want, err := f.inspector.GetTaskInfo(f.queue, info.ID)
			if err != nil {
				t.Fatal(err)
			}
			tc.changed(want)
			f.rdb.HSet(f.ctx(), "asynq:{low}:t:"+info.ID, "msg", tc.overlay([]byte(f.message(info.ID))))
			got, err := f.inspector.GetTaskInfo(f.queue, info.ID)
			if err != nil {
				t.Fatalf("%s %s: asynq cannot read it: %v", name, tc.name, err)
			}
			if d := cmp.Diff(want, got, cmpopts.IgnoreFields(asynq.TaskInfo{}, "NextProcessAt")); d != "" {
				t.Errorf("%s %s (-want +got):\n%s", name, tc.name, d)
			}
			if err := f.inspector.DeleteTask(f.queue, info.ID); err != nil { // with its uniqueness lock
				t.Fatal(err)
			}
		}
	}
}

// The bridge reads overlays as asynq does, and does not write into the message it was given.
func TestMessage_Unhurried(t *testing.T) {
	t.Parallel()
	msg := append(make([]byte, 0, 100), "\x0a\x01t"...)
	spare := msg[:20]
	m, err := bridge.ParseMessage(bridge.Unhurried(msg, 4*time.Second))
	if err != nil || m.Type != "t" || m.Timeout != 5*time.Second || !m.Deadline.IsZero() {
		t.Errorf("ParseMessage = %+v, %v", m, err)
	}
	if string(spare[3:]) != strings.Repeat("\x00", 17) {
		t.Errorf("the caller's array was written to: % x", spare)
	}
}

func TestMessage_Undecodable(t *testing.T) {
	t.Parallel()
	for _, msg := range []string{"\xff", "\x0a", "\x0a\x05t", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x00\x00", "\x28", "\x7a\x02\x0a\x05", "\x7a\x01\xff", "\x0b"} {
		if m, err := bridge.ParseMessage([]byte(msg)); err == nil {
			t.Errorf("ParseMessage(% x) = %+v, want an error", msg, m)
		}
	}
	if m, err := bridge.ParseMessage(nil); err != nil {
		t.Errorf("ParseMessage of nothing = %+v, %v", m, err)
	}
	for name, msg := range map[string]string{ // a later asynq may add fields
		"unknown field": "\x0a\x01t\xa2\x06\x01x", "unknown number": "\x0a\x01t\xa0\x06\x05", "fixed": "\x0a\x01t\xa5\x06\x01\x02\x03\x04",
	} {
		if m, err := bridge.ParseMessage([]byte(msg)); err != nil || m.Type != "t" {
			t.Errorf("%s: ParseMessage = %+v, %v", name, m, err)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	f.Add([]byte("\x0a\x01t\x12\x02{}\x28\x19\x40\x88\x0e"))
	f.Add([]byte("\x7a\x06\x0a\x01k\x12\x01v"))
	f.Add(bridge.Unhurried(bridge.FailedOverlay(1, "boom", time.Unix(1, 0)), time.Second))
	f.Add([]byte("\x7a\x01\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := bridge.ParseMessage(b)
		if err != nil {
			return
		}
		// What can be read can be read with an overlay, which counts.
		o, err := bridge.ParseMessage(bridge.Unhurried(b, 7*time.Second))
		if err != nil || o.Timeout != 8*time.Second || o.Type != m.Type || string(o.Payload) != string(m.Payload) {
			t.Errorf("with an overlay: %+v, %v, without: %+v", o, err, m)
		}
	})
}
