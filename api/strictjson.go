package api

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"offstage/tasks"
)

// maxDepth bounds the nesting of a body.
const maxDepth = 1000

// checkJSON refuses what encoding/json lets pass though two readers may understand it differently, and a payload is
// kept for other readers: invalid UTF-8, half a surrogate pair, a key that comes twice, a number beyond float64,
// nesting without end. What it accepts is one valid JSON value. The error is an *tasks.InvalidError that names the
// place. TestCheckJSON and FuzzEnqueueBody hold it.
func checkJSON(b []byte) error {
	c := &checker{in: b}
	c.space()
	if err := c.value(); err != nil {
		return err
	}
	c.space()
	if c.at < len(c.in) {
		return c.syntax("something after the JSON value")
	}
	return nil
}

// checker walks through one JSON value.
type checker struct {
	in   []byte
	at   int
	path []step
}

// step leads from a value to one in it: by index in an array, by key in an object, where key is nil between members.
type step struct {
	array bool
	index int
	key   []byte
}

func (c *checker) value() error {
	switch b := c.peek(); {
	case b == '{':
		return c.object()
	case b == '[':
		return c.array()
	case b == '"':
		_, err := c.text()
		return err
	case b == '-' || b >= '0' && b <= '9':
		return c.number()
	}
	for _, word := range []string{"null", "true", "false"} {
		if strings.HasPrefix(string(c.in[c.at:min(len(c.in), c.at+len(word))]), word) {
			c.at += len(word)
			return nil
		}
	}
	return c.syntax("no JSON value")
}

func (c *checker) object() error {
	if err := c.enter(step{}); err != nil {
		return err
	}
	seen := map[string]bool{}
	for first := true; ; first = false {
		if done, err := c.next('}', first); done || err != nil {
			return err
		}
		if c.peek() != '"' {
			return c.syntax("no key")
		}
		key, err := c.text()
		if err != nil {
			return err
		}
		c.path[len(c.path)-1].key = key
		if seen[string(key)] {
			return c.fault("is there more than once")
		}
		seen[string(key)] = true
		c.space()
		if c.peek() != ':' {
			return c.syntax("no colon after a key")
		}
		c.at++
		c.space()
		if err := c.value(); err != nil {
			return err
		}
		c.path[len(c.path)-1].key = nil
	}
}

func (c *checker) array() error {
	if err := c.enter(step{array: true}); err != nil {
		return err
	}
	for first := true; ; first = false {
		if done, err := c.next(']', first); done || err != nil {
			return err
		}
		if err := c.value(); err != nil {
			return err
		}
		c.path[len(c.path)-1].index++
	}
}

// enter steps into an object or array.
func (c *checker) enter(s step) error {
	if len(c.path) == maxDepth {
		return c.fault(fmt.Sprintf("is nested deeper than %d", maxDepth))
	}
	c.at++
	c.path = append(c.path, s)
	return nil
}

// next goes to the next member of an object or array, or steps out at end.
func (c *checker) next(end byte, first bool) (done bool, err error) {
	c.space()
	switch b := c.peek(); {
	case b == end && c.at < len(c.in):
		c.at++
		c.path = c.path[:len(c.path)-1]
		return true, nil
	case first:
		return false, nil
	case b != ',':
		return false, c.syntax("neither a comma nor the end")
	}
	c.at++
	c.space()
	if c.peek() == end {
		return false, c.syntax("nothing after a comma")
	}
	return false, nil
}

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
				return nil, c.fault("is not valid UTF-8")
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
		return c.fault("has half of a surrogate pair")
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

// number reads a number and checks its range.
func (c *checker) number() error {
	start := c.at
	for c.at < len(c.in) && strings.IndexByte("+-.0123456789eE", c.in[c.at]) >= 0 {
		c.at++
	}
	text := c.in[start:c.at]
	if !json.Valid(text) {
		c.at = start
		return c.syntax("not a number")
	}
	if _, err := strconv.ParseFloat(string(text), 64); err != nil {
		return c.fault("is out of range")
	}
	return nil
}

func (c *checker) space() {
	for c.at < len(c.in) && strings.IndexByte(" \t\r\n", c.in[c.at]) >= 0 {
		c.at++
	}
}

// peek is the byte ahead; 0, which no JSON has there, at the end.
func (c *checker) peek() byte {
	if c.at >= len(c.in) {
		return 0
	}
	return c.in[c.at]
}

func (c *checker) syntax(what string) error {
	return &tasks.InvalidError{Field: "body", Reason: fmt.Sprintf("is not valid JSON: %s at byte %d", what, c.at)}
}

// fault is about the value ahead, which it names by its path.
func (c *checker) fault(reason string) error {
	return &tasks.InvalidError{Field: c.where(), Reason: reason}
}

func (c *checker) where() string {
	const most = 200
	var b strings.Builder
	for _, s := range c.path {
		switch {
		case s.array:
			fmt.Fprintf(&b, "[%d]", s.index)
		case s.key != nil:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.Write(s.key)
		}
		if b.Len() > most {
			return strings.ToValidUTF8(b.String()[:most], "") + "…"
		}
	}
	if b.Len() == 0 {
		return "body"
	}
	return b.String()
}
