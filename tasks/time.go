package tasks

import (
	"encoding/json"
	"fmt"
	"time"
)

// timeLayout is RFC 3339 in UTC with exactly three digits of milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

// Time is a moment with millisecond precision that reads and writes RFC 3339. The zero value means "not yet"; fields
// of this type carry the JSON option omitzero.
type Time struct{ time.Time }

// At wraps t, in UTC and cut to milliseconds.
func At(t time.Time) Time {
	if t.IsZero() {
		return Time{}
	}
	return Time{t.UTC().Truncate(time.Millisecond)}
}

// AtMilli is the moment ms milliseconds after the Unix epoch; zero gives the zero Time.
func AtMilli(ms int64) Time {
	if ms == 0 {
		return Time{}
	}
	return Time{time.UnixMilli(ms).UTC()}
}

// Milli is t in milliseconds since the Unix epoch; zero for the zero Time.
func (t Time) Milli() int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// MarshalJSON writes t as RFC 3339 in UTC with milliseconds, or null when zero.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(t.UTC().Format(`"` + timeLayout + `"`)), nil
}

// UnmarshalJSON reads any RFC 3339 time.
func (t *Time) UnmarshalJSON(b []byte) error {
	var at time.Time
	if err := json.Unmarshal(b, &at); err != nil {
		return fmt.Errorf("is %s, not an RFC 3339 time like \"2026-11-20T11:00:00Z\"", b)
	}
	*t = At(at)
	return nil
}

// Duration is a time.Duration that reads and writes Go's notation ("500ms", "1h30m") in JSON.
type Duration time.Duration

// MarshalJSON writes d as a Go duration string.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// UnmarshalJSON reads a Go duration string, or "0". A bare number is refused: it does not say its unit.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("is %s, not a text with a unit like \"500ms\" or \"1h30m\"", b)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("is %q, not a duration like \"500ms\" or \"1h30m\"", s)
	}
	*d = Duration(v)
	return nil
}
