package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"offstage/tasks"
)

// maxDepth bounds the nesting of a value.
const maxDepth = 1000

// Check refuses what encoding/json lets pass though two readers may understand it differently: invalid UTF-8, half a
// surrogate pair, a key that comes twice, a number beyond float64, nesting deeper than 1000. What it accepts is one
// valid JSON value. The error is a *tasks.InvalidError that names the place, like "payload.list[2]", or "body" for the
// value as a whole. TestCheck and FuzzCheck hold it.
func Check(raw []byte) error {
	return (&checker{in: raw}).run()
}

// FieldNames refuses a key that encoding/json might take for a field of another spelling, as an unknown field. It goes
// by the rule that fields have lower-case ASCII names, so that it needs no list of them; a key that passes may still be
// unknown. What lies in the members free of the outermost object has keys of the sender's choice. Everything that
// [Check] refuses is refused here too.
func FieldNames(raw []byte, free ...string) error {
	return (&checker{in: raw, fields: true, free: free}).run()
}

// checker walks through one JSON value.
type checker struct {
	in     []byte
	root   string // what the value is called; empty for a body, whose members go by their own names
	wide   bool   // a number may be of any size: who decodes it into a Go number will see
	fields bool   // keys are names of fields, except in
	free   []string
	at     int
	path   []step
}

// step leads from a value to one in it: by index in an array, by key in an object, where key is nil between members.
type step struct {
	array bool
	index int
	key   []byte
}

func (c *checker) run() error {
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
		if err := c.key(seen); err != nil {
			return err
		}
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

// key reads the key of a member, which is where the path leads from then on.
func (c *checker) key(seen map[string]bool) error {
	if c.peek() != '"' {
		return c.syntax("no key")
	}
	key, err := c.text()
	if err != nil {
		return err
	}
	c.path[len(c.path)-1].key = key
	if seen[string(key)] {
		return c.fault("is given twice")
	}
	seen[string(key)] = true
	if c.fields && !c.inFree() && bytes.ContainsFunc(key, folds) {
		return c.fault("is not a known field")
	}
	return nil
}

// inFree reports whether the path leads into, not only to, a member with keys of the sender's choice.
func (c *checker) inFree() bool {
	return len(c.path) > 1 && slices.Contains(c.free, string(c.path[0].key))
}

// folds reports whether encoding/json might take r for a lower-case letter. Outside ASCII it does so for two: the long
// s and the Kelvin sign.
func folds(r rune) bool { return r >= 'A' && r <= 'Z' || r >= utf8.RuneSelf }

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
	if _, err := strconv.ParseFloat(string(text), 64); err != nil && !c.wide {
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
	return &tasks.InvalidError{Field: c.name(), Reason: fmt.Sprintf("is not valid JSON: %s at byte %d", what, c.at)}
}

// fault is about the value ahead, which it names by its path.
func (c *checker) fault(reason string) error {
	return &tasks.InvalidError{Field: c.where(), Reason: reason}
}

// unreadable is about the text ahead. A value with a name of its own is refused as a whole.
func (c *checker) unreadable(reason string) error {
	if c.root == "" {
		return c.fault(reason)
	}
	return &tasks.InvalidError{Field: c.root, Reason: reason}
}

// name is what the whole value is called.
func (c *checker) name() string { return cmp.Or(c.root, "body") }

func (c *checker) where() string {
	const most = 200
	var b strings.Builder
	b.WriteString(c.root)
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
	return cmp.Or(b.String(), c.name())
}
