package tasks_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"offstage/tasks"
)

// FuzzSpec: no input makes reading or validating panic, and what validates comes back the same from its own JSON.
func FuzzSpec(f *testing.F) {
	f.Add([]byte(wholeJSON))
	for _, seed := range []string{
		`{"type":"t","owner":"o"}`, `{"type":"t","owner":"o","payload":[1e400,"\ud800",{"a":null}]}`, `}{`, `null`, `{"timeout":"0"}`,
		`{"type":"t","owner":"o","delay":"1ms","deadline":"2026-12-01T00:00:00Z","max_retries":1000}`, "{\"owner\":\"\xff\"}",
		`{"type":"t","owner":"o","run_at":"0001-01-01T00:00:00Z"}`, `{"type":"t","owner":"o","backoff":{},"parent":{},"notify":{}}`,
		`{"TYPE":"t","Owner":"o","type":"u"}`, `{"type":"t","owner":"o","metadata":{"":""}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var s tasks.Spec
		if err := s.UnmarshalJSON(in); err != nil {
			if len(fields(err)) == 0 {
				t.Fatalf("UnmarshalJSON(%q) = %v, which names no field", in, err)
			}
			return
		}
		if err := s.Validate(tasks.DefaultLimits(), noon); err != nil {
			if len(fields(err)) == 0 {
				t.Fatalf("Validate = %v, which names no field", err)
			}
			return
		}
		once, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("Marshal of a valid spec: %v", err)
		}
		if !utf8.Valid(once) {
			t.Fatalf("JSON that is not UTF-8: %q", once)
		}
		var back tasks.Spec
		if err := json.Unmarshal(once, &back); err != nil {
			t.Fatalf("Unmarshal(%s): %v", once, err)
		}
		if err := back.Validate(tasks.DefaultLimits(), noon); err != nil {
			t.Fatalf("valid, but not after there and back: %v\n%s", err, once)
		}
		if diff := cmp.Diff(string(once), encode(t, back)); diff != "" {
			t.Fatalf("there and back (-want +got):\n%s", diff)
		}
	})
}

// FuzzCleanMessage: whatever comes in, what comes out is clean, bounded, and stays as it is when cleaned again. The
// input is repeated, for a fuzzer makes no long one by itself.
func FuzzCleanMessage(f *testing.F) {
	for _, seed := range []string{"", "plain", "\xff\x00", "é\x1b[0m", "\xff", "aé\u0085"} {
		f.Add(seed, uint16(1))
		f.Add(seed, uint16(5000))
	}
	f.Fuzz(func(t *testing.T, in string, times uint16) {
		in = strings.Repeat(in, min(int(times), 20000/(len(in)+1)))
		got := tasks.CleanMessage(in)
		checkClean(t, in, got)
		if utf8.ValidString(in) && utf8.RuneCountInString(got) < min(utf8.RuneCountInString(in), 1000) {
			t.Errorf("CleanMessage(%q) = %q: characters are missing", in, got)
		}
	})
}
