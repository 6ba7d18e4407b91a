package tasks_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"offstage/tasks"
)

func TestTail(t *testing.T) {
	t.Parallel()
	red := "\x1b[1;31m"
	tests := map[string]struct {
		text, want string
		cut        int64
	}{
		"Empty":           {"", "", 0},
		"Short":           {"a\tb\n", "a\tb\n", 0},
		"Exact":           {strings.Repeat("x", 2000), strings.Repeat("x", 2000), 0},
		"Long":            {strings.Repeat("x", 5000), strings.Repeat("x", 2000), 3000},
		"Runes":           {strings.Repeat("ü", 2001), strings.Repeat("ü", 2000), 1},
		"Wide":            {"a" + strings.Repeat("😀", 2000), strings.Repeat("😀", 2000), 1},
		"ColouredLong":    {strings.Repeat(red+"x\x1b[0m", 2500), strings.Repeat("x", 2000), 500},
		"ColouredShort":   {strings.Repeat(red+"x\x1b[0m", 2000), strings.Repeat("x", 2000), 0},
		"CSI":             {"a\x1b[2K\x1b[?25l\x1b[38:5:1mb", "ab", 0},
		"CSIOneChar":      {"a\u009b31mb", "ab", 0},
		"Title":           {"a\x1b]0;title\ab\x1b]8;;http://x\x1b\\link", "ablink", 0},
		"TitleUnfinished": {"a\x1b]0;title\nb", "a\nb", 0},
		"Charset":         {"\x1b(Ba\x1b=b\x1bMc", "abc", 0},
		"CSIBroken":       {"a\x1b[31\nb\x1b[\x1b[1mc", "a\nbc", 0},
		"EndsInside":      {"a\x1b[3", "a", 0},
		"EndsAtEscape":    {"a\x1b", "a", 0},
		"Progress":        {"10%\r20%\r\ndone\r", "10%\n20%\ndone\n", 0},
		"Controls":        {"a\x00\x07\x08\x7f\u0085b", "ab", 0},
		"BadUTF8":         {"a\xff\xfeb", "a\ufffd\ufffdb", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, cut := tasks.Tail(tt.text); got != tt.want || cut != tt.cut {
				t.Errorf("Tail(%.60q) = %.60q, %d, want %.60q, %d", tt.text, got, cut, tt.want, tt.cut)
			}
		})
	}
}

func FuzzTail(f *testing.F) {
	f.Add("\x1b[31mred\x1b]0;t\a\xff")
	f.Add(strings.Repeat("\u009b1m😀\x1b", 700))
	f.Fuzz(func(t *testing.T, text string) {
		tail, cut := tasks.Tail(text)
		chars := utf8.RuneCountInString(tail)
		if !utf8.ValidString(tail) || chars > tasks.NoticeOutputChars || cut < 0 || (cut > 0 && chars < tasks.NoticeOutputChars) {
			t.Errorf("Tail(%q) = %d characters, %d cut", text, chars, cut)
		}
		if strings.ContainsFunc(tail, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			t.Errorf("Tail(%q) = %q has a control character", text, tail)
		}
		if again, more := tasks.Tail(tail); again != tail || more != 0 {
			t.Errorf("Tail of a tail %q = %q, %d", tail, again, more)
		}
	})
}
