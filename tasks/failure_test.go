package tasks_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"offstage/tasks"
)

const cutMark = " …(cut)"

func TestCleanMessage(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", tasks.MaxMessageBytes)
	tests := []struct{ name, in, want string }{
		{"Empty", "", ""},
		{"Plain", "no such file: ä\n\tat x", "no such file: ä\n\tat x"},
		{"Controls", "a\x00b\x1b[31mc\r\x7f\u0085", "a\uFFFDb\uFFFD[31mc\uFFFD\uFFFD\uFFFD"},
		{"BadUTF8", "a\xff\xfeb", "a\uFFFDb"},
		{"Surrogate", "\xed\xa0\x80", "\uFFFD"},
		{"JustFits", strings.Repeat("x", tasks.MaxMessageBytes), strings.Repeat("x", tasks.MaxMessageBytes)},
		{"OneOver", strings.Repeat("x", tasks.MaxMessageBytes+1), strings.Repeat("x", tasks.MaxMessageBytes-len(cutMark)) + cutMark},
		{"CutInRune", "xy" + long, "xy" + long[:tasks.MaxMessageBytes-len(cutMark)-3] + cutMark},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tasks.CleanMessage(tt.in); got != tt.want {
				t.Errorf("CleanMessage(%.60q) = %.60q (%d bytes), want %.60q (%d bytes)", tt.in, got, len(got), tt.want, len(tt.want))
			}
		})
	}
}

// TestCleanMessage_MarksCut: what is missing is marked, also where cleaning made the rest short.
func TestCleanMessage_MarksCut(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"BadBytes":   strings.Repeat("\xff", 1<<20),
		"Alternates": strings.Repeat("\xff\x00", 1<<19),
		"BadMiddle":  "begin" + strings.Repeat("\xff", 1<<20) + "end",
		"Long":       strings.Repeat("word ", 1<<18),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tasks.CleanMessage(in)
			checkClean(t, in, got)
			if !strings.HasSuffix(got, "cut)") {
				t.Errorf("CleanMessage of %d bytes = %d bytes without the mark: %.40q", len(in), len(got), got)
			}
		})
	}
}

func checkClean(t *testing.T, in, got string) {
	t.Helper()
	if len(got) > tasks.MaxMessageBytes || !utf8.ValidString(got) {
		t.Errorf("CleanMessage(%.60q) = %d bytes, valid UTF-8 %v", in, len(got), utf8.ValidString(got))
	}
	if i := strings.IndexFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
		t.Errorf("CleanMessage(%.60q) has the control character %q", in, got[i])
	}
	if again := tasks.CleanMessage(got); again != got {
		t.Errorf("cleaned twice: %.60q, once: %.60q", again, got)
	}
}

// TestMarks: Permanent, RetryAfter and Rejected mark an error, change nothing else of it, and are found below others.
func TestMarks(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	after := func(err error) bool { _, ok := tasks.RetryDelay(err); return ok }
	marks := []struct {
		name string
		mark func(error) error
		is   func(error) bool
	}{
		{"Permanent", tasks.Permanent, tasks.IsPermanent},
		{"Rejected", tasks.Rejected, tasks.IsRejected},
		{"RetryAfter", func(err error) error { return tasks.RetryAfter(time.Second, err) }, after},
	}
	for _, m := range marks {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if m.mark(nil) != nil {
				t.Error("the mark of nil is not nil")
			}
			if m.is(nil) || m.is(boom) {
				t.Error("an error without the mark has it")
			}
			err := m.mark(fmt.Errorf("send: %w", boom))
			if err.Error() != "send: boom" || !errors.Is(err, boom) {
				t.Errorf("marked: %v", err)
			}
			for _, outer := range []error{err, fmt.Errorf("outer: %w", err), errors.Join(errors.New("other"), err), tasks.Permanent(tasks.RetryAfter(1, tasks.Rejected(err)))} {
				if !m.is(outer) {
					t.Errorf("%v: the mark is not found", outer)
				}
			}
			for _, other := range marks {
				if other.name != m.name && other.is(err) {
					t.Errorf("%s is found on an error marked %s", other.name, m.name)
				}
			}
		})
	}
}

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for in, want := range map[time.Duration]time.Duration{0: 0, -time.Second: 0, time.Minute: time.Minute} {
		if d, ok := tasks.RetryDelay(fmt.Errorf("x: %w", tasks.RetryAfter(in, boom))); !ok || d != want {
			t.Errorf("RetryDelay(RetryAfter(%v)) = %v, %v, want %v", in, d, ok, want)
		}
	}
}
