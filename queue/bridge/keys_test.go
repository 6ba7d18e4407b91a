package bridge_test

import (
	"strings"
	"testing"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// Every id that asynq may have for a task has a public one, which leads back to it and to no other.
func TestPublicID(t *testing.T) {
	t.Parallel()
	const ulid = "01hf7yat00zzzzzzzzzzzzzzzz"
	seen := map[string]string{}
	for _, tc := range []struct{ queue, id, want string }{
		{"low", "low." + ulid, "low." + ulid},
		{"default", "default." + ulid, "default." + ulid},
		{"low", "9b2e4a4e-0d49-4a3c-9d1f-0a6d1c1f3c11", "low.9b2e4a4e-0d49-4a3c-9d1f-0a6d1c1f3c11"},
		{"low", "default." + ulid, "low.default." + ulid},
		{"low", "x", "low.x"},
		{"low", "a.b.c", "low.a.b.c"},
		{"low", ".x", "low..x"},
		{"low", "low.x", "low.low.x"},
		{"low", "low.low." + ulid, "low.low.low." + ulid},
		{"low", strings.ToUpper(ulid), "low." + strings.ToUpper(ulid)},
		{"low", "low." + strings.ToUpper(ulid), "low.low." + strings.ToUpper(ulid)},
		{"low", ulid, "low.~" + ulid}, // as ours it would be low.<ulid>
		{"low", "~" + ulid, "low.~~" + ulid},
		{"low", "~", "low.~~"},
		{"low", "~x", "low.~~x"},
		{"low", "\x00\xff {}:%/?#\n", "low.\x00\xff {}:%/?#\n"},
		{"low", strings.Repeat("x", 10_000), "low." + strings.Repeat("x", 10_000)},
	} {
		got := bridge.PublicID(tc.queue, tc.id)
		if got != tc.want {
			t.Errorf("PublicID(%q, %.60q) = %.60q, want %.60q", tc.queue, tc.id, got, tc.want)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%.60q and %.60q are both %.60q", tc.id, other, got)
		}
		seen[got] = tc.id
		if queue, id, ok := bridge.Locate(got); !ok || queue != tc.queue || id != tc.id {
			t.Errorf("Locate(%.60q) = %q, %.60q, %v, want %q, %.60q", got, queue, id, ok, tc.queue, tc.id)
		}
	}
	for _, id := range []string{"", ".", "low", "low.", ".x", "{low}.x", "l}ow.x", "bg_3", "low.~", "low.~x", "low.~" + "default." + ulid} {
		if queue, bare, ok := bridge.Locate(id); ok {
			t.Errorf("Locate(%q) = %q, %q, want it refused", id, queue, bare)
		}
	}
}

func FuzzPublicID(f *testing.F) {
	f.Add("low", "low.01hf7yat00zzzzzzzzzzzzzzzz")
	f.Add("default", "01hf7yat00zzzzzzzzzzzzzzzz")
	f.Add("a", "~b.c")
	f.Add("a.b", "c")
	f.Fuzz(func(t *testing.T, queue, id string) {
		public := bridge.PublicID(queue, id)
		_, _, _ = bridge.Locate(id)
		if tasks.ValidateQueue(queue) != nil || id == "" {
			return // no queue of ours
		}
		if q, i, ok := bridge.Locate(public); !ok || q != queue || i != id {
			t.Errorf("Locate(PublicID(%q, %q) = %q) = %q, %q, %v", queue, id, public, q, i, ok)
		}
	})
}

// FuzzLocate: an id leads to one task, and that task has this id and no other.
func FuzzLocate(f *testing.F) {
	f.Add("low.01hf7yat00zzzzzzzzzzzzzzzz")
	f.Add("low.~01hf7yat00zzzzzzzzzzzzzzzz")
	f.Add("low.low.x")
	f.Fuzz(func(t *testing.T, public string) {
		queue, id, ok := bridge.Locate(public)
		if ok && bridge.PublicID(queue, id) != public {
			t.Errorf("Locate(%q) = %q, %q, whose id is %q", public, queue, id, bridge.PublicID(queue, id))
		}
	})
}

func TestHandle(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		queue string
		n     int64
		want  string
	}{
		{"default", 0, "bg_0"}, {"default", 17, "bg_17"}, {"low", 3, "low_3"}, {"a_b", 3, "a_b_3"}, {"a_7", 3, "a_7_3"}, {"a_", 1, "a__1"},
		{"low", 1<<63 - 1, "low_9223372036854775807"},
	} {
		got := bridge.Handle(tc.queue, tc.n)
		if got != tc.want {
			t.Errorf("Handle(%q, %d) = %q, want %q", tc.queue, tc.n, got, tc.want)
		}
		if queue, n, ok := bridge.ParseHandle(got); !ok || queue != tc.queue || n != tc.n {
			t.Errorf("ParseHandle(%q) = %q, %d, %v", got, queue, n, ok)
		}
	}
	for _, s := range []string{"", "_", "bg", "bg_", "_3", "bg_-1", "bg_+1", "bg_01", "bg_1.0", "bg_1 ", "bg_9223372036854775808", "default_3"} {
		if queue, n, ok := bridge.ParseHandle(s); ok {
			t.Errorf("ParseHandle(%q) = %q, %d, want it refused", s, queue, n)
		}
	}
}

func FuzzParseHandle(f *testing.F) {
	f.Add("bg_3")
	f.Add("a_b_3")
	f.Add("default_3")
	f.Fuzz(func(t *testing.T, s string) {
		queue, n, ok := bridge.ParseHandle(s)
		if ok && bridge.Handle(queue, n) != s {
			t.Errorf("ParseHandle(%q) = %q, %d, whose handle is %q", s, queue, n, bridge.Handle(queue, n))
		}
	})
}

func TestQueueOf(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"asynq:{low}:pending": "low", "asynq:{low}:t:a}b": "low", "asynq:{a.b c}:scheduled": "a.b c", "": "", "asynq:{": "", "other": "other",
	} {
		if got := bridge.QueueOf(key); got != want {
			t.Errorf("QueueOf(%q) = %q, want %q", key, got, want)
		}
	}
}
