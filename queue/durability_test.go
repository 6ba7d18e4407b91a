package queue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"offstage/internal/embedded"
	"offstage/internal/redistest"
	"offstage/queue"
	"offstage/tasks"
)

// openWith opens a queue that requires a durability.
func openWith(t *testing.T, url string, o queue.Options) *queue.Queue {
	t.Helper()
	q, err := queue.Open(t.Context(), url, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

// aof are the three ways to keep what Redis accepted, and what each is worth.
func aof() map[queue.Durability][]redistest.Option {
	return map[queue.Durability][]redistest.Option{
		queue.DurabilityNone:     nil,
		queue.DurabilityEverySec: {redistest.AOF("everysec")},
		queue.DurabilityAlways:   {redistest.AOF("always")},
	}
}

// TestQueue_CheckDurability is check 2: each setting of Redis against each requirement.
func TestQueue_CheckDurability(t *testing.T) {
	t.Parallel()
	order := []queue.Durability{queue.DurabilityNone, queue.DurabilityEverySec, queue.DurabilityAlways}
	for now, opts := range aof() {
		t.Run(string(now), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, opts...)
			for i, required := range []queue.Durability{"", queue.DurabilityEverySec, queue.DurabilityAlways} {
				met := now == order[2] || now == order[1] && i < 2 || i == 0
				q := openWith(t, s.URL(), queue.Options{RequireDurability: required})
				got, err := q.CheckDurability(t.Context())
				if got != now || (err == nil) != met {
					t.Errorf("CheckDurability with %q required = %s, %v", required, got, err)
				}
				if h, _ := q.Health(t.Context()); h.Durability != now || h.Ready != met {
					t.Errorf("Health with %q required: %+v", required, h)
				}
				if !met {
					tellsWayOut(t, err, required, now)
				}
			}
		})
	}
}

// tellsWayOut wants an error that names the setting, what is in force, and the lines of redis.conf.
func tellsWayOut(t *testing.T, err error, required, now queue.Durability) {
	t.Helper()
	e, ok := errors.AsType[*queue.DurabilityError](err)
	if !ok || e.Required != required || e.InForce != now {
		t.Errorf("error %#v", err)
	}
	for _, want := range []string{"redis.require_durability is " + string(required), string(now) + " is in force",
		`"appendonly yes"`, fmt.Sprintf(`"appendfsync %s"`, required)} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want %q in it", err, want)
		}
	}
}

// TestHealth_Durability: what a running Redis changes is seen at once, and gone again when it is put right.
func TestHealth_Durability(t *testing.T) {
	t.Parallel()
	for _, required := range []queue.Durability{"", queue.DurabilityAlways} {
		t.Run("Require"+string(required), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.AOF("always"))
			q := openWith(t, s.URL(), queue.Options{RequireDurability: required})
			if _, err := q.CheckDurability(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				key, value string
				want       queue.Durability
				why        string
			}{
				{"appendfsync", "everysec", queue.DurabilityEverySec, "appendfsync is everysec"},
				{"appendfsync", "no", queue.DurabilityNone, "appendfsync is no"},
				{"appendfsync", "always", queue.DurabilityAlways, ""},
				{"no-appendfsync-on-rewrite", "yes", queue.DurabilityNone, "no-appendfsync-on-rewrite is yes"},
				{"no-appendfsync-on-rewrite", "no", queue.DurabilityAlways, ""},
				{"appendonly", "no", queue.DurabilityNone, "appendonly is no"},
				{"appendonly", "yes", queue.DurabilityAlways, ""},
			} {
				if err := s.ConfigSet(step.key, step.value); err != nil {
					t.Fatal(err)
				}
				h, _ := q.Health(t.Context())
				good := step.why == ""
				if h.Durability != step.want || h.Ready != (good || required == "") || (len(h.Problems) == 0) != good {
					t.Errorf("after %s %s: %+v", step.key, step.value, h)
				}
				if all := strings.Join(h.Problems, "\n"); !strings.Contains(all, step.why) {
					t.Errorf("problems %q, want %q in them", all, step.why)
				}
			}
		})
	}
}

// TestHealth_DurabilityUnknown: a user that may not look. It meets no requirement.
func TestHealth_DurabilityUnknown(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.AOF("always"))
	url := user(t, s, "~*", "&*", "+@all", "-config")
	q := openWith(t, url, queue.Options{})
	if h, _ := q.Health(t.Context()); h.Durability != queue.DurabilityUnknown || !h.Ready {
		t.Errorf("health %+v", h)
	}
	q = openWith(t, url, queue.Options{RequireDurability: queue.DurabilityEverySec})
	if _, err := q.CheckDurability(t.Context()); err == nil || !strings.Contains(err.Error(), "+config|get") {
		t.Errorf("CheckDurability = %v, want the right that is missing", err)
	}
	if err := s.ConfigSet("appendonly", "no"); err != nil { // INFO tells this much
		t.Fatal(err)
	}
	if h, _ := q.Health(t.Context()); h.Durability != queue.DurabilityNone || h.Ready {
		t.Errorf("health %+v", h)
	}
}

func TestHealth_Embedded(t *testing.T) {
	t.Parallel()
	s, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	q := openWith(t, s.URL(), queue.Options{Embedded: true})
	h, _ := q.Health(t.Context())
	if !h.Ready || !h.Embedded || h.Durability != queue.DurabilityEmbedded || len(h.Problems) != 1 {
		t.Errorf("health %+v", h)
	}
	if d, err := q.CheckDurability(t.Context()); err != nil || d != queue.DurabilityEmbedded {
		t.Errorf("CheckDurability = %s, %v", d, err)
	}
}

func TestQueue_CheckDurability_Unreachable(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	q := openWith(t, s.URL(), queue.Options{RequireDurability: queue.DurabilityAlways})
	s.Stop()
	if _, err := q.CheckDurability(t.Context()); !errors.Is(err, tasks.ErrUnavailable) {
		t.Errorf("CheckDurability = %v, want %v", err, tasks.ErrUnavailable)
	}
}

// user makes a user of the server with the given rules and gives the URL for it.
func user(t *testing.T, s *redistest.Server, rules ...string) string {
	t.Helper()
	args := []any{"ACL", "SETUSER", "ada", "reset", "on", ">secret"}
	for _, r := range rules {
		args = append(args, r)
	}
	if err := s.Client(t).Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(s.URL(), "redis://", "redis://ada:secret@", 1)
}
