//go:build linux

package exec_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"offstage/tasks"
	"offstage/tasks/exec"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)
	tests := map[string]struct{ payload, field, reason string }{
		"Empty":             {``, "payload", "is required"},
		"NoObject":          {`["ls"]`, "payload", "is not a JSON object"},
		"Null":              {`null`, "payload", "is not a JSON object"},
		"Neither":           {`{}`, "payload", "needs exactly one of argv and shell"},
		"Both":              {`{"argv":["ls"],"shell":"ls"}`, "payload", "needs exactly one of argv and shell"},
		"Unknown":           {`{"argv":["ls"],"timeout":1}`, "payload.timeout", "is not a known field"},
		"OtherCase":         {`{"ARGV":["ls"]}`, "payload.ARGV", "is not a known field"},
		"Twice":             {`{"argv":["ls"],"argv":["rm"]}`, "payload.argv", "is given twice"},
		"TwiceEscaped":      {`{"argv":["ls"],"\u0061rgv":["rm"]}`, "payload.argv", "is given twice"},
		"EnvTwice":          {`{"argv":["ls"],"env":{"A":"1","A":"2"}}`, "payload.env.A", "is given twice"},
		"Trailing":          {`{"argv":["ls"]} {}`, "payload", "is not valid JSON"},
		"Braces":            {`}{`, "payload", "is not valid JSON"},
		"TooDeep":           {`{"argv":` + deep + `}`, "payload", "exceeded max depth"},
		"Deep":              {`{"argv":` + deep[1000:19_002] + `}`, "payload.argv", "is not an array of strings"},
		"BadUTF8":           {"{\"argv\":[\"l\xff\"]}", "payload", "is not valid UTF-8"},
		"LoneHigh":          {`{"argv":["\ud800"]}`, "payload", "surrogate"},
		"LoneHighThenText":  {`{"argv":["\ud83dx"]}`, "payload", "surrogate"},
		"LoneLow":           {`{"argv":["\udc00"]}`, "payload", "surrogate"},
		"TwoHigh":           {`{"argv":["\ud800\ud800"]}`, "payload", "surrogate"},
		"ArgvString":        {`{"argv":"ls"}`, "payload.argv", "is not an array of strings"},
		"ArgvNumber":        {`{"argv":["ls",1]}`, "payload.argv", "is not an array of strings"},
		"ArgvNull":          {`{"argv":["ls",null]}`, "payload.argv[1]", "is null"},
		"ArgvEmpty":         {`{"argv":[]}`, "payload.argv", "is empty"},
		"ArgvBlank":         {`{"argv":[""]}`, "payload.argv[0]", "is empty"},
		"ArgvDash":          {`{"argv":["-rf","/"]}`, "payload.argv[0]", "starts with '-'"},
		"ArgvNUL":           {`{"argv":["ls","a\u0000b"]}`, "payload.argv[1]", "has a NUL character"},
		"ArgvLong":          {`{"argv":["ls","` + strings.Repeat("x", 128<<10) + `"]}`, "payload.argv[1]", "is 131072 bytes long"},
		"Relative":          {`{"argv":["./run"]}`, "payload.argv[0]", "is a relative path"},
		"RelativeUp":        {`{"argv":["../run"]}`, "payload.argv[0]", "is a relative path"},
		"ShellEmpty":        {`{"shell":" "}`, "payload.shell", "is empty"},
		"ShellNUL":          {`{"shell":"ls\u0000"}`, "payload.shell", "has a NUL character"},
		"ShellNumber":       {`{"shell":7}`, "payload.shell", "is not a string"},
		"EnvList":           {`{"argv":["ls"],"env":["A=1"]}`, "payload.env", "is not a JSON object"},
		"EnvNumber":         {`{"argv":["ls"],"env":{"A":1}}`, "payload.env.A", "is not a string"},
		"EnvNull":           {`{"argv":["ls"],"env":{"A":null}}`, "payload.env.A", "is not a string"},
		"EnvName":           {`{"argv":["ls"],"env":{"A=B":"1"}}`, "payload.env", "cannot name a variable"},
		"EnvNoName":         {`{"argv":["ls"],"env":{"":"1"}}`, "payload.env", "cannot name a variable"},
		"EnvNUL":            {`{"argv":["ls"],"env":{"A":"\u0000"}}`, "payload.env.A", "has a NUL character"},
		"EnvMarker":         {`{"argv":["ls"],"env":{"OFFSTAGE_TASK":"x"}}`, "payload.env.OFFSTAGE_TASK", "is reserved"},
		"CwdRelative":       {`{"argv":["ls"],"cwd":"x"}`, "payload.cwd", "is not an absolute path"},
		"CwdNUL":            {`{"argv":["ls"],"cwd":"/\u0000"}`, "payload.cwd", "has a NUL character"},
		"OKCodesEmpty":      {`{"argv":["ls"],"ok_exit_codes":[]}`, "payload.ok_exit_codes", "is empty"},
		"OKCodesRange":      {`{"argv":["ls"],"ok_exit_codes":[0,256]}`, "payload.ok_exit_codes[1]", "is 256"},
		"OKCodesNegative":   {`{"argv":["ls"],"ok_exit_codes":[-1]}`, "payload.ok_exit_codes[0]", "is -1"},
		"OKCodesHuge":       {`{"argv":["ls"],"ok_exit_codes":[1e400]}`, "payload.ok_exit_codes", "is not an array of whole numbers"},
		"OKCodesFraction":   {`{"argv":["ls"],"ok_exit_codes":[1.5]}`, "payload.ok_exit_codes", "is not an array of whole numbers"},
		"KeyOfTenKilobytes": {`{"` + strings.Repeat("k", 10<<10) + `":1}`, "payload." + strings.Repeat("k", 79) + "…", "is not a known field"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := exec.Check([]byte(tt.payload), exec.Policy{})
			invalid, ok := errors.AsType[*tasks.InvalidError](err)
			if !ok || invalid.Field != tt.field || !strings.Contains(invalid.Reason, tt.reason) {
				t.Fatalf("Check = %v, want %s: %s", err, tt.field, tt.reason)
			}
			if !tasks.IsRejected(err) || !errors.Is(err, tasks.ErrInvalid) || len(err.Error()) > 1000 {
				t.Errorf("Check = %v, want a short rejection that is ErrInvalid", err)
			}
		})
	}
}

func TestCheck_Good(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{
		`{"argv":["ls"]}`,
		`{"argv":["no-such-command-here"]}`,
		`{"argv":["ls","","-x","$(id)",";","😀","\ud83d\ude00","\\ud800"]}`,
		`{"argv":["./run"],"cwd":"/srv"}`,
		`{"shell":"ls | wc -l","env":{"PATH":"/bin","LD_PRELOAD":"x"},"cwd":"/","stdin":"a\u0000b","ok_exit_codes":[0,1]}`,
		`{"shell":"ls","argv":null,"env":null,"cwd":null,"stdin":null,"ok_exit_codes":null}`,
	} {
		if err := exec.Check([]byte(payload), exec.Policy{}); err != nil {
			t.Errorf("Check(%s) = %v, want nil", payload, err)
		}
	}
}

func TestCheck_AllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	err := exec.Check([]byte(`{"argv":[""],"env":{"A":"\u0000"},"cwd":"x","ok_exit_codes":[999]}`), exec.Policy{})
	for _, field := range []string{"payload.argv[0]", "payload.env.A", "payload.cwd", "payload.ok_exit_codes[0]"} {
		if !strings.Contains(text(err), field) {
			t.Errorf("Check = %q, want it to name %s", text(err), field)
		}
	}
}

// TestAllow: what is not on the list is refused before enqueue and again before running, and nothing is executed.
func TestAllow(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin")
	dir := t.TempDir()
	mark := filepath.Join(dir, "mark")
	for _, name := range []string{"job", "other"} {
		script := "#!/bin/sh\ntouch " + mark + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		allow   []string
		payload map[string]any
		ok      bool
	}{
		"Path":              {[]string{dir + "/job"}, map[string]any{"argv": []string{dir + "/job"}}, true},
		"Glob":              {[]string{dir + "/j*"}, map[string]any{"argv": []string{dir + "/job", ";", "$(id)", "-x"}}, true},
		"GlobOther":         {[]string{dir + "/j*"}, map[string]any{"argv": []string{dir + "/other"}}, false},
		"GlobNotAcross":     {[]string{"/*"}, map[string]any{"argv": []string{dir + "/job"}}, false},
		"DotDot":            {[]string{"/nowhere/*", dir + "/j*"}, map[string]any{"argv": []string{"/nowhere/../" + dir + "/other"}}, false},
		"DotDotClean":       {[]string{dir + "/job"}, map[string]any{"argv": []string{dir + "/x/../job"}}, true},
		"Relative":          {[]string{dir + "/job"}, map[string]any{"argv": []string{"./job"}, "cwd": dir}, true},
		"RelativeUp":        {[]string{"/srv/*"}, map[string]any{"argv": []string{".." + dir + "/job"}, "cwd": "/srv"}, false},
		"Name":              {[]string{"touch"}, map[string]any{"argv": []string{"touch", mark}}, true},
		"NamePath":          {[]string{"job"}, map[string]any{"argv": []string{dir + "/job"}}, false},
		"NameOnPath":        {[]string{"/bin/touch", "/usr/bin/touch"}, map[string]any{"argv": []string{"touch", mark}}, true},
		"NameUnknown":       {[]string{"touch"}, map[string]any{"argv": []string{"touch;id"}}, false},
		"NameSubstitution":  {[]string{"touch"}, map[string]any{"argv": []string{"$(touch)"}}, false},
		"Dash":              {[]string{"*"}, map[string]any{"argv": []string{"-touch"}}, false},
		"NUL":               {[]string{"*"}, map[string]any{"argv": []string{"touch\x00"}}, false},
		"OwnPATH":           {[]string{"job"}, map[string]any{"argv": []string{"job"}, "env": map[string]string{"PATH": dir}}, false},
		"Preload":           {[]string{"touch"}, map[string]any{"argv": []string{"touch", mark}, "env": map[string]string{"LD_PRELOAD": "/x.so"}}, false},
		"PlainVariable":     {[]string{"touch"}, map[string]any{"argv": []string{"touch", mark}, "env": map[string]string{"A": "1"}}, true},
		"ShellNotListed":    {[]string{"touch"}, map[string]any{"shell": "touch " + mark}, false},
		"ShellListed":       {[]string{"/bin/sh"}, map[string]any{"shell": "touch " + mark}, true},
		"MalformedPattern":  {[]string{"["}, map[string]any{"argv": []string{"touch", mark}}, false},
		"InterpreterItself": {[]string{"touch"}, map[string]any{"argv": []string{"/bin/sh", "-c", "touch " + mark}}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			payload, _ := json.Marshal(tt.payload)
			p := exec.Policy{Allow: tt.allow}
			if err := exec.Check(payload, p); (err == nil) != tt.ok || (err != nil && !tasks.IsRejected(err)) {
				t.Errorf("Check(%s) = %v, want allowed %v", payload, err, tt.ok)
			}
			_, err := exec.Run(t.Context(), payload, io.Discard, p)
			_, serr := os.Stat(mark)
			_ = os.Remove(mark)
			if (err == nil) != tt.ok || (serr == nil) != tt.ok {
				t.Errorf("Run(%s) = %v, executed %v, want %v", payload, err, serr == nil, tt.ok)
			}
		})
	}
}

func TestPolicy_Shell(t *testing.T) {
	t.Parallel()
	if err := exec.Check(shell("ls"), exec.Policy{Shell: "-"}); !strings.Contains(text(err), "payload.shell: is not allowed here") {
		t.Errorf("Check = %v, want the shell line refused", err)
	}
	out := newBuffer(t)
	if _, err := exec.Run(t.Context(), shell("x"), out, exec.Policy{Shell: "/bin/echo"}); err != nil || out.String() != "-c x\n" {
		t.Errorf("Run under another shell = %v with output %q", err, out)
	}
}

func TestPolicy_Validate(t *testing.T) {
	t.Parallel()
	good := exec.Policy{Allow: []string{"git", "/srv/*"}, Shell: "/bin/bash"}
	if err := good.Validate(); err != nil {
		t.Errorf("Validate = %v, want nil", err)
	}
	for want, p := range map[string]exec.Policy{
		"allow": {Allow: []string{"["}}, "glob": {Allow: []string{""}}, "shell": {Shell: "bash"},
	} {
		if err := p.Validate(); !strings.Contains(text(err), want) {
			t.Errorf("Validate(%+v) = %v, want it to name %s", p, err, want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"argv":["ls"],"env":{"A":"1"},"cwd":"/","stdin":"x","ok_exit_codes":[0]}`))
	f.Add([]byte(`{"shell":"\ud83d\ude00"}`))
	f.Add([]byte(`}{`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		err := exec.Check(payload, exec.Policy{Allow: []string{"ls", "/bin/*"}})
		if err == nil && !json.Valid(payload) {
			t.Errorf("Check(%q) = nil", payload)
		}
		if err != nil && (!tasks.IsRejected(err) || !errors.Is(err, tasks.ErrInvalid)) {
			t.Errorf("Check(%q) = %v, want a rejection that is ErrInvalid", payload, err)
		}
	})
}
