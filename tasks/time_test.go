package tasks_test

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"offstage/tasks"
)

// TestTime_JSON: RFC 3339 in UTC with exactly three digits of milliseconds, whatever the moment.
func TestTime_JSON(t *testing.T) {
	t.Parallel()
	shape := regexp.MustCompile(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"$`)
	cet := time.FixedZone("CET", 3600)
	tests := []struct {
		name string
		in   time.Time
		want string
	}{
		{"Whole", time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC), `"2026-11-20T11:00:00.000Z"`},
		{"Tenth", time.Date(2026, 11, 20, 11, 0, 0, 1e8, time.UTC), `"2026-11-20T11:00:00.100Z"`},
		{"Cut", time.Date(2026, 11, 20, 11, 0, 0, 999999999, time.UTC), `"2026-11-20T11:00:00.999Z"`},
		{"Zone", time.Date(2026, 11, 20, 0, 30, 0, 0, cet), `"2026-11-19T23:30:00.000Z"`},
		{"Epoch", time.Unix(0, 0), `"1970-01-01T00:00:00.000Z"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := encode(t, tasks.At(tt.in))
			if got != tt.want || !shape.MatchString(got) {
				t.Fatalf("Marshal(%v) = %s, want %s", tt.in, got, tt.want)
			}
			var back tasks.Time
			if err := json.Unmarshal([]byte(got), &back); err != nil || !back.Equal(tt.in.Truncate(time.Millisecond)) {
				t.Errorf("there and back: %v, %v", back, err)
			}
			// A Time made without At is written in the same form.
			if got := encode(t, tasks.Time{Time: tt.in}); got != tt.want {
				t.Errorf("Marshal(Time{%v}) = %s, want %s", tt.in, got, tt.want)
			}
		})
	}
}

func TestTime_Unmarshal(t *testing.T) {
	t.Parallel()
	var v tasks.Time
	for _, in := range []string{`"2026-11-20T12:30:00.123456+01:30"`, `"2026-11-20T11:00:00.123Z"`} {
		if err := json.Unmarshal([]byte(in), &v); err != nil || v.Milli() != time.Date(2026, 11, 20, 11, 0, 0, 123e6, time.UTC).UnixMilli() {
			t.Errorf("Unmarshal(%s) = %v, %v", in, v, err)
		}
		if v.Location() != time.UTC || v.Nanosecond()%1e6 != 0 {
			t.Errorf("Unmarshal(%s) = %v, want whole milliseconds in UTC", in, v)
		}
	}
	for _, in := range []string{`"2026-11-20"`, `7`, `""`, `"now"`, `{}`, `"2026-13-20T11:00:00Z"`} {
		if err := json.Unmarshal([]byte(in), &v); err == nil {
			t.Errorf("Unmarshal(%s) took it: %v", in, v)
		}
	}
}

func TestTime_Zero(t *testing.T) {
	t.Parallel()
	if got := encode(t, tasks.Time{}); got != "null" {
		t.Errorf("the zero Time is %s, want null", got)
	}
	if at := tasks.At(time.Time{}); !at.IsZero() || at.Milli() != 0 {
		t.Errorf("At(zero) = %v, Milli %d", at, at.Milli())
	}
	if at := tasks.AtMilli(0); !at.IsZero() {
		t.Errorf("AtMilli(0) = %v", at)
	}
	if at := tasks.AtMilli(1763636400123); at.Milli() != 1763636400123 || at.Location() != time.UTC {
		t.Errorf("AtMilli = %v", at)
	}
	v := tasks.At(noon)
	if err := json.Unmarshal([]byte("null"), &v); err != nil || !v.IsZero() {
		t.Errorf("Unmarshal(null) = %v, %v, want the zero Time", v, err)
	}
}

func TestDuration_JSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{
		`"500ms"`: 500 * time.Millisecond, `"1h30m"`: 90 * time.Minute, `"0"`: 0, `"0s"`: 0, `"-1s"`: -time.Second, `"1.5s"`: 1500 * time.Millisecond,
	} {
		var d tasks.Duration
		if err := json.Unmarshal([]byte(in), &d); err != nil || time.Duration(d) != want {
			t.Errorf("Unmarshal(%s) = %v, %v, want %v", in, time.Duration(d), err, want)
		}
		var back tasks.Duration
		if err := json.Unmarshal([]byte(encode(t, d)), &back); err != nil || back != d {
			t.Errorf("%s there and back: %v, %v", in, back, err)
		}
	}
	if got := encode(t, tasks.Duration(90*time.Minute)); got != `"1h30m0s"` {
		t.Errorf("Marshal(90m) = %s", got)
	}
	for _, in := range []string{`5`, `"5"`, `""`, `"1e18s"`, `"3000000h"`, `"1 h"`, `true`, `["1s"]`} {
		var d tasks.Duration
		if err := json.Unmarshal([]byte(in), &d); err == nil {
			t.Errorf("Unmarshal(%s) took it: %v", in, time.Duration(d))
		}
	}
}
