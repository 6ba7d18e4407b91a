package tasks

import (
	"strings"
	"unicode/utf8"
)

const esc = '\x1b'

// Tail is the end of text as a notice carries it: terminal escapes and control characters other than newline and tab
// are taken out first, then all but the last [NoticeOutputChars] characters are cut. cut counts the characters
// that were cut, not those that were taken out. The result is valid UTF-8.
func Tail(text string) (tail string, cut int64) {
	clean := PlainText(text)
	chars := utf8.RuneCountInString(clean)
	if chars <= NoticeOutputChars {
		return clean, 0
	}
	start := len(clean)
	for range NoticeOutputChars {
		_, size := utf8.DecodeLastRuneInString(clean[:start])
		start -= size
	}
	return clean[start:], int64(chars - NoticeOutputChars)
}

// PlainText takes terminal escapes and control characters out of text and makes it valid UTF-8. A carriage return
// becomes a newline unless one follows.
func PlainText(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == esc:
			i += escape(text[i:])
			continue
		case r == '\u009b': // the one-character form of ESC [
			i += size + controlSequence(text[i+size:])
			continue
		case r == '\r' && !strings.HasPrefix(text[i+1:], "\n"):
			b.WriteByte('\n')
		case r == '\n' || r == '\t' || r >= ' ' && r < 0x7f || r >= 0xa0:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// escape is the length of the escape sequence at the start of s (ECMA-48).
func escape(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[':
		return 2 + controlSequence(s[2:])
	case ']', 'P', 'X', '^', '_':
		return 2 + controlString(s[2:])
	}
	i := 1
	for i < len(s) && s[i] >= 0x20 && s[i] <= 0x2f {
		i++
	}
	if i < len(s) && s[i] >= 0x30 && s[i] <= 0x7e {
		i++
	}
	return i
}

// controlSequence is the length of parameters and final byte; a byte that fits neither ends it.
func controlSequence(s string) int {
	i := 0
	for i < len(s) && s[i] >= 0x20 && s[i] <= 0x3f {
		i++
	}
	if i < len(s) && s[i] >= 0x40 && s[i] <= 0x7e {
		i++
	}
	return i
}

// controlString is the length of a title, link or the like up to and with its end (BEL or ESC \). An end of line or
// another escape ends it too, so that one stray byte does not swallow the rest of the output.
func controlString(s string) int {
	i := strings.IndexAny(s, "\a\n\r\x18\x1a\x1b")
	switch {
	case i < 0:
		return len(s)
	case strings.HasPrefix(s[i:], "\x1b\\"):
		return i + 2
	case s[i] == '\a':
		return i + 1
	}
	return i
}
