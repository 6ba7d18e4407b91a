package worker

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"offstage/queue/bridge"
	"offstage/tasks"
)

// deafObserver is a bridge.Observer that nobody listens to.
type deafObserver struct{}

func (deafObserver) TaskFinished(_, _ string, _ tasks.Status, _ tasks.Kind, _ time.Duration) {}
func (deafObserver) CommitFailed(string, string)                                             {}
func (deafObserver) StaleWrite(string)                                                       {}
func (deafObserver) Repaired(string)                                                         {}
func (deafObserver) UnknownScript(string)                                                    {}

// lonelyWriter gives a writer whose Redis is away, after earlier attempts that left written bytes.
func lonelyWriter(t *testing.T, written int64) *outputWriter {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1, PoolSize: 1000})
	w := &Worker{store: bridge.NewStore(client, deafObserver{}), bodies: newBodies(1)}
	t.Cleanup(func() {
		w.bodies.wg.Wait()
		_ = client.Close()
	})
	return newOutputWriter(w, &bridge.Attempt{Written: written})
}

func write(t *testing.T, o *outputWriter, p string) {
	t.Helper()
	if n, err := o.Write([]byte(p)); n != len(p) || err != nil {
		t.Fatalf("Write(%q) = %d, %v", p, n, err)
	}
}

// TestOutputWriter_Runes: a character that comes in pieces arrives whole; bytes that are none are replaced.
func TestOutputWriter_Runes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		writes     []string
	}{
		{"Whole", "aé€😀z", []string{"aé€😀z"}},
		{"Bytes", "aé€😀z", strings.Split("a|\xc3|\xa9|\xe2|\x82|\xac|\xf0|\x9f|\x98|\x80|z", "|")},
		{"Pairs", "€€", []string{"\xe2\x82", "\xac\xe2", "\x82\xac"}},
		{"Empty", "é", []string{"", "\xc3", "", "\xa9", ""}},
		{"Broken", "a\uFFFDb", []string{"a\xe2\x82", "b"}},
		{"BrokenRun", "a\uFFFDb", []string{"a\xff\xfe\xffb"}},
		{"Surrogate", "\uFFFDx", []string{"\xed\xa0\x80x"}},
		{"CutAtEnd", "a\uFFFD", []string{"a\xf0\x9f\x98"}},
		{"Lonely", "\uFFFD", []string{"\x80"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := lonelyWriter(t, 100)
			for _, p := range tt.writes {
				write(t, o, p)
			}
			text, at, tail, before := o.finish()
			if text != tt.want || tail != tt.want || at != 100 || before != 0 {
				t.Errorf("finish() = %q at %d, tail %q after %d, want %q at 100", text, at, tail, before, tt.want)
			}
		})
	}
}

// TestOutputWriter_Small: a hundred thousand small writes cost little, and while Redis is away no more is kept than may
// be; what is kept begins where it says.
func TestOutputWriter_Small(t *testing.T) {
	t.Parallel()
	o := lonelyWriter(t, 7)
	var all strings.Builder
	began := time.Now()
	for i := range 100_000 {
		line := fmt.Sprintf("línea %d €\n", i)
		all.WriteString(line)
		write(t, o, line)
	}
	took := time.Since(began)
	text, at, tail, before := o.finish()
	if took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if len(text) > keepSize || len(text) < keepSize-utf8.UTFMax || !utf8.ValidString(text) {
		t.Errorf("%d bytes are kept, want the last %d", len(text), keepSize)
	}
	if at != 7+int64(all.Len()-len(text)) || !strings.HasSuffix(all.String(), text) {
		t.Errorf("what is kept begins at %d, want %d", at, 7+all.Len()-len(text))
	}
	if len(tail) > 2*tailSize+100 || len(tail) < tailSize-utf8.UTFMax || !strings.HasSuffix(all.String(), tail) {
		t.Errorf("a tail of %d bytes", len(tail))
	}
	if want := int64(utf8.RuneCountInString(all.String()) - utf8.RuneCountInString(tail)); before != want {
		t.Errorf("%d characters before the tail, want %d", before, want)
	}
}

// TestOutputWriter_Large: one write may be larger than all that is kept.
func TestOutputWriter_Large(t *testing.T) {
	t.Parallel()
	o := lonelyWriter(t, 0)
	text := "x" + strings.Repeat("€", 1<<20)
	write(t, o, text)
	got, at, tail, _ := o.finish()
	if !strings.HasSuffix(text, got) || !utf8.ValidString(got) || at+int64(len(got)) != int64(len(text)) || len(got) > keepSize {
		t.Errorf("%d bytes at %d of %d are kept", len(got), at, len(text))
	}
	if !strings.HasSuffix(text, tail) || !utf8.ValidString(tail) {
		t.Errorf("a tail of %d bytes that is not the text's", len(tail))
	}
}

// TestOutputWriter_AfterFinish: what a body writes after its end changes nothing and disturbs nobody.
func TestOutputWriter_AfterFinish(t *testing.T) {
	t.Parallel()
	o := lonelyWriter(t, 0)
	write(t, o, "a")
	o.finish()
	write(t, o, "b")
	if text, _, tail, _ := o.finish(); text != "a" || tail != "a" {
		t.Errorf("after a late write: %q, tail %q", text, tail)
	}
}
