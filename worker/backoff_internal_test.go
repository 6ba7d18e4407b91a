package worker

import (
	"errors"
	"math"
	"testing"
	"time"

	"offstage/tasks"
)

// TestDelay_Spread is check 31: of 10,000 tasks that fail together, none of the seconds of the next round gets more than
// its share.
func TestDelay_Spread(t *testing.T) {
	t.Parallel()
	const draws = 10_000
	var buckets [8]int // tries 3: up to 8 s
	var sum time.Duration
	for range draws {
		d := delay(errors.New("x"), nil, 3)
		if d < 0 || d >= 8*time.Second {
			t.Fatalf("delay after 3 tries = %v, want below 8s", d)
		}
		buckets[d/time.Second]++
		sum += d
	}
	// 1250 each with a standard deviation of 33.
	for i, n := range buckets {
		if n < 1000 || n > 1500 {
			t.Errorf("second %d got %d of %d, want about %d: %v", i, n, draws, draws/len(buckets), buckets)
		}
	}
	if mean := sum / draws; mean < 3800*time.Millisecond || mean > 4200*time.Millisecond {
		t.Errorf("the mean is %v, want about 4s", mean)
	}
}

// TestDelay_Ceiling: the ceiling doubles from base to max, and stays there however many tries there were.
func TestDelay_Ceiling(t *testing.T) {
	t.Parallel()
	backoff := func(base, most time.Duration) *tasks.Backoff {
		return &tasks.Backoff{Base: tasks.Duration(base), Max: tasks.Duration(most)}
	}
	tests := []struct {
		name    string
		backoff *tasks.Backoff
		tries   int
		want    time.Duration
	}{
		{"First", nil, 0, time.Second},
		{"Second", nil, 1, 2 * time.Second},
		{"DefaultMax", nil, 20, 10 * time.Minute},
		{"Endless", nil, 5000, 10 * time.Minute},
		{"Own", backoff(10*time.Millisecond, 50*time.Millisecond), 2, 40 * time.Millisecond},
		{"OwnMax", backoff(10*time.Millisecond, 50*time.Millisecond), 3, 50 * time.Millisecond},
		{"OnlyBase", backoff(time.Hour, 0), 0, time.Hour},
		{"OnlyMax", backoff(0, 1500*time.Millisecond), 5, 1500 * time.Millisecond},
		{"Largest", backoff(tasks.MaxDuration, tasks.MaxDuration), 1000, tasks.MaxDuration},
		{"Smallest", backoff(time.Millisecond, time.Millisecond), 0, time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var most time.Duration
			for range 2000 {
				d := delay(errors.New("x"), tt.backoff, tt.tries)
				if d < 0 || d > tt.want {
					t.Fatalf("delay = %v, want 0 to %v", d, tt.want)
				}
				most = max(most, d)
			}
			if most < tt.want*98/100 {
				t.Errorf("the longest of 2000 delays is %v, want close to %v", most, tt.want)
			}
		})
	}
}

func TestDelay_RetryAfter(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for after, want := range map[time.Duration]time.Duration{0: 0, -time.Hour: 0, time.Minute: time.Minute, math.MaxInt64: tasks.MaxDuration} {
		if d := delay(tasks.RetryAfter(after, boom), nil, 9); d != want {
			t.Errorf("delay after RetryAfter(%v) = %v, want %v", after, d, want)
		}
	}
}
