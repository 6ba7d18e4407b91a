package exec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"offstage/internal/strictjson"
	"offstage/tasks"
)

// maxStringBytes bounds one argument, variable or shell line: Linux takes no longer ones.
const maxStringBytes = 128<<10 - 1

// command is a payload that has been read.
type command struct {
	argv    []string // argv[0] is a name or a path, as it was given
	line    string   // the shell line; empty for a plain argv
	env     map[string]string
	cwd     string
	stdin   string
	okCodes []int
}

// Check reports every fault of payload under p, joined; each is a *tasks.InvalidError that names its field, and all are
// marked with [tasks.Rejected]. It executes nothing. A command that does not exist passes unless an allow-list is in
// force.
func Check(payload []byte, p Policy) error {
	_, err := parse(payload, p)
	return err
}

func parse(payload []byte, p Policy) (*command, error) {
	c, given, err := decode(payload)
	if err != nil {
		return nil, tasks.Rejected(err)
	}
	f := &faults{}
	if given.argv == given.shell {
		f.add("payload", "needs exactly one of argv and shell", "")
		return nil, tasks.Rejected(f.err())
	}
	if given.shell {
		f.line(c, p)
	}
	f.argv(c)
	f.env(c.env, len(p.Allow) > 0)
	f.cwd(c)
	f.okCodes(c.okCodes)
	if f.err() == nil {
		f.allowed(c, p, given.shell)
	}
	return c, tasks.Rejected(f.err())
}

// given says which of the two ways to name a command the payload used.
type given struct{ argv, shell bool }

func decode(payload []byte) (*command, given, error) {
	var argv []*string
	var codes []*int
	var line, cwd, stdin *string
	var env json.RawMessage
	err := strictjson.Object("payload", payload, map[string]strictjson.Slot{
		"argv":          strictjson.Into(&argv, "an array of strings"),
		"shell":         strictjson.Into(&line, "a string"),
		"env":           strictjson.Into(&env, "an object of strings"),
		"cwd":           strictjson.Into(&cwd, "a string"),
		"stdin":         strictjson.Into(&stdin, "a string"),
		"ok_exit_codes": strictjson.Into(&codes, "an array of whole numbers"),
	})
	if err != nil {
		return nil, given{}, err
	}
	c := &command{line: value(line), cwd: value(cwd), stdin: value(stdin)}
	var envErr, argvErr, codesErr error
	c.env, envErr = strictjson.Table("payload.env", env)
	c.argv, argvErr = values("payload.argv", argv)
	c.okCodes, codesErr = values("payload.ok_exit_codes", codes)
	return c, given{argv: argv != nil, shell: line != nil}, errors.Join(argvErr, envErr, codesErr)
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// values takes the null out of a list: it would pass for an empty string or a zero.
func values[T any](field string, list []*T) ([]T, error) {
	if list == nil {
		return nil, nil
	}
	out := make([]T, 0, len(list))
	for i, v := range list {
		if v == nil {
			return nil, &tasks.InvalidError{Field: fmt.Sprintf("%s[%d]", field, i), Reason: "is null"}
		}
		out = append(out, *v)
	}
	return out, nil
}

// faults gathers what is wrong with a payload.
type faults struct{ errs []error }

func (f *faults) err() error { return errors.Join(f.errs...) }

func (f *faults) add(field, reason, hint string) {
	f.errs = append(f.errs, &tasks.InvalidError{Field: field, Reason: reason, Hint: hint})
}

// text checks a string that is handed to the kernel.
func (f *faults) text(field, s string) {
	switch {
	case strings.Contains(s, "\x00"):
		f.add(field, "has a NUL character", "")
	case len(s) > maxStringBytes:
		f.add(field, fmt.Sprintf("is %d bytes long", len(s)), fmt.Sprintf("at most %d", maxStringBytes))
	}
}

// line checks the shell line and makes it an argv.
func (f *faults) line(c *command, p Policy) {
	switch {
	case p.Shell == noShell:
		f.add("payload.shell", "is not allowed here", "give argv")
	case strings.TrimSpace(c.line) == "":
		f.add("payload.shell", "is empty", "")
	}
	f.text("payload.shell", c.line)
	line := c.line
	if strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+") {
		line = " " + line // else the shell takes it for an option
	}
	c.argv = []string{p.shell(), "-c", line}
}

func (f *faults) argv(c *command) {
	if c.line != "" {
		return
	}
	for i, arg := range c.argv {
		f.text(fmt.Sprintf("payload.argv[%d]", i), arg)
	}
	switch {
	case len(c.argv) == 0:
		f.add("payload.argv", "is empty", "")
	case c.argv[0] == "":
		f.add("payload.argv[0]", "is empty", "the command's name or path")
	case strings.HasPrefix(c.argv[0], "-"):
		f.add("payload.argv[0]", fmt.Sprintf("%.80q starts with '-'", c.argv[0]), "the command's name or path")
	case relative(c.argv[0]) && c.cwd == "":
		f.add("payload.argv[0]", fmt.Sprintf("%.80q is a relative path", c.argv[0]), "give cwd, or an absolute path")
	}
}

func (f *faults) env(env map[string]string, listed bool) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		field := strictjson.Member("payload.env", name)
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			f.add("payload.env", fmt.Sprintf("%.80q cannot name a variable", name), "")
		case name == MarkerVariable:
			f.add(field, "is reserved", "")
		case listed && choosesCode(name):
			f.add(field, "could make an allowed command run other code", "not allowed while exec.allow is set")
		default:
			f.text(field, name+"="+env[name])
		}
	}
}

func (f *faults) cwd(c *command) {
	f.text("payload.cwd", c.cwd)
	if c.cwd != "" && !path.IsAbs(c.cwd) {
		f.add("payload.cwd", fmt.Sprintf("%.80q is not an absolute path", c.cwd), "")
	}
}

func (f *faults) okCodes(codes []int) {
	if codes != nil && len(codes) == 0 {
		f.add("payload.ok_exit_codes", "is empty", "leave it out for [0]")
	}
	for i, code := range codes {
		if code < 0 || code > 255 {
			f.add(fmt.Sprintf("payload.ok_exit_codes[%d]", i), fmt.Sprintf("is %d", code), "0 to 255")
		}
	}
}

// allowed holds the command against the allow-list.
func (f *faults) allowed(c *command, p Policy, shell bool) {
	if len(p.Allow) == 0 {
		return
	}
	field := "payload.argv[0]"
	if shell {
		field = "payload.shell"
	}
	file, err := c.file(p)
	if err != nil || !p.allows(c.argv[0], file) {
		f.add(field, fmt.Sprintf("%.80q is not on the list of allowed commands", c.argv[0]), "see exec.allow")
	}
}

// text is the command as a person would write it, at most 500 characters.
func (c *command) text() string {
	text := c.line
	if text == "" {
		quoted := make([]string, len(c.argv))
		for i, arg := range c.argv {
			quoted[i] = quote(arg)
		}
		text = strings.Join(quoted, " ")
	}
	const most = 500
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-1]) + "…"
	}
	return text
}

// quote writes arg for a POSIX shell.
func quote(arg string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,+@%", r)
	}
	if arg != "" && !strings.ContainsFunc(arg, func(r rune) bool { return !plain(r) }) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// ok reports whether the exit code counts as success.
func (c *command) ok(code int) bool {
	if c.okCodes == nil {
		return code == 0
	}
	return slices.Contains(c.okCodes, code)
}
