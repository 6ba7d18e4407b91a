package strictjson

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string and returns what it says.
func (c *checker) text() ([]byte, error) {
	start, escaped := c.at, false
	for c.at++; c.at < len(c.in); {
		switch b := c.in[c.at]; {
		case b == '"':
			c.at++
			return unquote(c.in[start:c.at], escaped), nil
		case b < ' ':
			return nil, c.syntax("a control character in a string")
		case b == '\\':
			escaped = true
			if err := c.escape(); err != nil {
				return nil, err
			}
		case b < utf8.RuneSelf:
			c.at++
		default:
			r, size := utf8.DecodeRune(c.in[c.at:])
			if r == utf8.RuneError && size == 1 {
				return nil, c.unreadable("is not valid UTF-8")
			}
			c.at += size
		}
	}
	return nil, c.syntax("a string without end")
}

// escape reads one escape sequence, or two that make a surrogate pair.
func (c *checker) escape() error {
	rest := c.in[c.at+1:]
	if len(rest) == 0 || !strings.ContainsRune(`"\/bfnrtu`, rune(rest[0])) {
		return c.syntax("an unknown escape sequence")
	}
	if rest[0] != 'u' {
		c.at += 2
		return nil
	}
	r, ok := c.hex(c.at)
	if !ok {
		return c.syntax("an unknown escape sequence")
	}
	c.at += 6
	if !utf16.IsSurrogate(r) {
		return nil
	}
	low, ok := c.hex(c.at)
	if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
		return c.unreadable("has half of a surrogate pair")
	}
	c.at += 6
	return nil
}

// hex reads the \uXXXX at offset at.
func (c *checker) hex(at int) (rune, bool) {
	if at+6 > len(c.in) || c.in[at] != '\\' || c.in[at+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(c.in[at+2:at+6]), 16, 16)
	return rune(n), err == nil
}

func unquote(quoted []byte, escaped bool) []byte {
	if !escaped {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // it was checked a moment ago
	return []byte(s)
}
