//go:build linux

package exec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"offstage/tasks"
	"offstage/tasks/exec"
)

func shell(line string) []byte {
	b, _ := json.Marshal(map[string]string{"shell": line})
	return b
}

func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tests := map[string]struct {
		payload string
		want    exec.Result
		out     string
		err     string
	}{
		"Argv": {`{"argv":["echo","a b","$HOME;x"]}`, exec.Result{Command: `echo 'a b' '$HOME;x'`}, "a b $HOME;x\n", ""},
		"Shell": {
			`{"shell":"echo one; echo two >&2"}`, exec.Result{Command: "echo one; echo two >&2"}, "one\ntwo\n", "",
		},
		"ShellLineThatLooksLikeAnOption": {
			`{"shell":"-x || echo ran"}`, exec.Result{Command: "-x || echo ran"}, "/bin/sh: 1: -x: not found\nran\n", "",
		},
		"ExitCode": {
			`{"shell":"echo boom >&2; exit 3"}`, exec.Result{ExitCode: 3, Command: "echo boom >&2; exit 3"},
			"boom\n", "exit status 3: boom",
		},
		"ExitCodeSilent": {`{"shell":"exit 255"}`, exec.Result{ExitCode: 255, Command: "exit 255"}, "", "exit status 255"},
		"LastLinesOnly": {
			`{"shell":"for i in 1 2 3 4 5; do echo line $i >&2; done; exit 1"}`,
			exec.Result{ExitCode: 1, Command: "for i in 1 2 3 4 5; do echo line $i >&2; done; exit 1"},
			"line 1\nline 2\nline 3\nline 4\nline 5\n", "exit status 1: line 3\nline 4\nline 5",
		},
		"OKExitCodes":       {`{"shell":"exit 3","ok_exit_codes":[3,4]}`, exec.Result{ExitCode: 3, Command: "exit 3"}, "", ""},
		"OKExitCodesAreAll": {`{"argv":["true"],"ok_exit_codes":[3]}`, exec.Result{Command: "true"}, "", "exit status 0"},
		"Signal": {
			`{"shell":"kill -9 $$"}`, exec.Result{ExitCode: 137, Signal: "SIGKILL", Command: "kill -9 $$"}, "", "killed by SIGKILL",
		},
		"Stdin":       {`{"argv":["cat"],"stdin":"grüße\n"}`, exec.Result{Command: "cat"}, "grüße\n", ""},
		"StdinUnread": {`{"argv":["true"],"stdin":"` + strings.Repeat("x", 1<<20) + `"}`, exec.Result{Command: "true"}, "", ""},
		"NoStdin":     {`{"argv":["cat"]}`, exec.Result{Command: "cat"}, "", ""},
		"Cwd":         {`{"argv":["pwd"],"cwd":"` + dir + `"}`, exec.Result{Command: "pwd"}, dir + "\n", ""},
		"Env":         {`{"shell":"echo $A-$B","env":{"A":"1","B":"x=y"}}`, exec.Result{Command: "echo $A-$B"}, "1-x=y\n", ""},
		"Clean": {
			`{"shell":"printf '\\033[31mred\\033[0m\\377\\n' >&2; exit 2"}`,
			exec.Result{ExitCode: 2, Command: `printf '\033[31mred\033[0m\377\n' >&2; exit 2`},
			"\x1b[31mred\x1b[0m\ufffd\n", "exit status 2: red\ufffd",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := newBuffer(t)
			got, err := exec.Run(t.Context(), []byte(tt.payload), out, exec.Policy{})
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(exec.Result{}, "DurationMS")); diff != "" {
				t.Errorf("Run(%s) (-want +got):\n%s", tt.payload, diff)
			}
			if name == "Shell" { // two pipes: in either order
				lines := slices.Sorted(strings.Lines(out.String()))
				tt.out, out = "one\ntwo\n", newBuffer(t)
				_, _ = io.WriteString(out, strings.Join(lines, ""))
			}
			if name == "ShellLineThatLooksLikeAnOption" {
				if !strings.Contains(out.String(), "ran\n") {
					t.Errorf("output = %q, want it to say ran", out)
				}
			} else if out.String() != tt.out {
				t.Errorf("output = %q, want %q", out, tt.out)
			}
			if text(err) != tt.err {
				t.Errorf("Run(%s) error = %q, want %q", tt.payload, text(err), tt.err)
			}
			if tasks.IsPermanent(err) || tasks.IsRejected(err) {
				t.Errorf("Run(%s) error %v is final, want one that may be retried", tt.payload, err)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestRun_Duration(t *testing.T) {
	t.Parallel()
	r, err := exec.Run(t.Context(), shell("sleep 0.2"), io.Discard, exec.Policy{})
	if err != nil || r.DurationMS < 200 || r.DurationMS > 10_000 {
		t.Errorf("Run = %+v, %v, want a duration of 200 ms or a little more", r, err)
	}
}

func TestRun_NotStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "x", 0o644)
	tests := map[string]struct {
		payload, err string
		code         int
	}{
		"NoSuchName":    {`{"argv":["no-such-command-here"]}`, `no such command: "no-such-command-here" is not on the PATH`, 127},
		"NoSuchFile":    {`{"argv":["/nowhere/x"]}`, `no such command: "/nowhere/x"`, 127},
		"NoCwd":         {`{"argv":["true"],"cwd":"/nowhere"}`, `cwd "/nowhere": no such file or directory`, 126},
		"CwdIsFile":     {`{"argv":["true"],"cwd":"` + plain + `"}`, `cwd "` + plain + `": not a directory`, 126},
		"Directory":     {`{"argv":["` + dir + `"]}`, `"` + dir + `" is a directory`, 126},
		"NotExecutable": {`{"argv":["./plain"],"cwd":"` + dir + `"}`, `start "` + plain + `": permission denied`, 126},
		"NoInterpreter": {
			`{"argv":["` + file("script", "#!/nowhere/sh\n", 0o755) + `"]}`,
			`"` + filepath.Join(dir, "script") + `": its interpreter (the #! line or the loader) does not exist`, 126,
		},
		"NoProgram": {
			`{"argv":["` + file("text", "hello\n", 0o755) + `"]}`,
			`"` + filepath.Join(dir, "text") + `" is not a program (a script needs a #! line)`, 126,
		},
		"TooMany": {
			`{"argv":["true"` + strings.Repeat(`,"`+strings.Repeat("x", 100_000)+`"`, 40) + `]}`, "argument list too long", 126,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := exec.Run(t.Context(), []byte(tt.payload), io.Discard, exec.Policy{})
			if !strings.Contains(text(err), tt.err) || r.ExitCode != tt.code || r.Command == "" {
				t.Errorf("Run = %+v, %v, want exit code %d and %q", r, err, tt.code, tt.err)
			}
			if !tasks.IsPermanent(err) {
				t.Errorf("Run error %v is not permanent", err)
			}
		})
	}
}

func TestRun_Rejected(t *testing.T) {
	t.Parallel()
	r, err := exec.Run(t.Context(), []byte(`{"argv":[]}`), io.Discard, exec.Policy{})
	if !tasks.IsRejected(err) || r.ExitCode == 0 {
		t.Errorf("Run = %+v, %v, want a rejection", r, err)
	}
}

func TestRun_ContextOverBefore(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(tasks.ErrCancelled)
	file := filepath.Join(t.TempDir(), "made")
	_, err := exec.Run(ctx, shell("touch "+file), io.Discard, exec.Policy{})
	if !errors.Is(err, tasks.ErrCancelled) {
		t.Errorf("Run error = %v, want ErrCancelled", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command ran")
	}
}

// TestRun_Environment: a command sees what was declared and nothing of the daemon.
func TestRun_Environment(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://:secret@localhost")
	t.Setenv("OFFSTAGE_TOKEN", "secret")
	t.Setenv("PASSED_ON", "yes")
	t.Setenv("PATH", "/usr/bin:/bin")
	t.Setenv("HOME", "/home/x")
	t.Setenv("LANG", "C.UTF-8")
	t.Setenv("TZ", "UTC")
	tests := map[string]struct {
		policy []string
		want   []string
	}{
		"Default": {nil, []string{"A=1", "HOME=/home/x", "LANG=C.UTF-8", "PATH=/usr/bin:/bin", "TZ=declared"}},
		"Named":   {[]string{"PASSED_ON", "UNSET_HERE"}, []string{"A=1", "PASSED_ON=yes", "TZ=declared"}},
		"None":    {[]string{}, []string{"A=1", "TZ=declared"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out := newBuffer(t)
			payload := []byte(`{"argv":["env"],"env":{"A":"1","TZ":"declared"}}`)
			if _, err := exec.Run(t.Context(), payload, out, exec.Policy{Env: tt.policy}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(out.String()) {
				if !strings.HasPrefix(line, exec.MarkerVariable+"=") {
					got = append(got, strings.TrimSpace(line))
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRun_OpenFiles: a command does not inherit what this process has opened.
func TestRun_OpenFiles(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "opened-by-the-daemon"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out := newBuffer(t)
	if _, err := exec.Run(t.Context(), shell("ls -l /proc/$$/fd"), out, exec.Policy{}); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "/dev/null") || strings.Contains(got, filepath.Base(file.Name())) {
		t.Errorf("open files:\n%s\nwant /dev/null and not %s", got, file.Name())
	}
}

func TestRun_OutputIsAlwaysText(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ payload, want string }{
		// Each byte of the runes arrives alone.
		"SplitRunes": {
			`{"shell":"for b in 303 274 342 202 254 360 237 230 200; do printf \"\\\\$b\"; sleep 0.01; done"}`, "ü€😀",
		},
		"LoneBytes":    {`{"shell":"printf 'a\\303b\\200'; sleep 0.02; printf '\\377c'"}`, "a\ufffdb\ufffd\ufffdc"},
		"CutAtTheEnd":  {`{"shell":"printf 'a\\360\\237'"}`, "a\ufffd\ufffd"},
		"RunOfBytes":   {`{"shell":"printf 'a\\377\\376'; sleep 0.02; printf '\\375c'"}`, "a\ufffd\ufffd\ufffdc"},
		"NotAContinue": {`{"shell":"printf '\\342'; sleep 0.02; printf 'x'"}`, "\ufffdx"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := &checked{t: t}
			if _, err := exec.Run(t.Context(), []byte(tt.payload), out, exec.Policy{}); err != nil {
				t.Fatal(err)
			}
			if out.String() != tt.want {
				t.Errorf("output = %q, want %q", out, tt.want)
			}
		})
	}
}

// checked is an out that refuses what is not UTF-8.
type checked struct {
	strings.Builder
	t testing.TB
}

func (c *checked) Write(p []byte) (int, error) {
	if !utf8.Valid(p) || len(p) == 0 {
		c.t.Errorf("Write(%q), want text in whole runes", p)
	}
	return c.Builder.Write(p)
}

// TestRun_Garbage: a megabyte of binary on stderr still ends soon in a message a person can read.
func TestRun_Garbage(t *testing.T) {
	t.Parallel()
	began := time.Now()
	out := &checked{t: t}
	_, err := exec.Run(t.Context(),
		shell(`head -c 500000 /dev/zero | sed 's/\x00/\xff\x00\x1b[1m/g' >&2; echo >&2; echo sorry >&2; exit 9`), out, exec.Policy{})
	if got := text(err); !strings.HasPrefix(got, "exit status 9: ") || !strings.HasSuffix(got, "\nsorry") || len(got) > 2048 ||
		!utf8.ValidString(got) || strings.ContainsAny(got, "\x00\x1b") {
		t.Errorf("Run error = %q, want a short clean one that ends with sorry", got)
	}
	if out.Len() < 1<<20 || time.Since(began) > 10*time.Second {
		t.Errorf("got %d bytes in %s", out.Len(), time.Since(began))
	}
}

func TestRun_MuchOutput(t *testing.T) {
	t.Parallel()
	var n counter
	_, err := exec.Run(t.Context(), shell("head -c 300000000 /dev/zero"), &n, exec.Policy{})
	if err != nil || n != 300_000_000 {
		t.Errorf("Run = %v with %d bytes, want 300000000", err, n)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

type brokenWriter struct{ writes int }

func (b *brokenWriter) Write([]byte) (int, error) {
	b.writes++
	return 0, errors.New("full")
}

// TestRun_BrokenOut: the command is not stalled and not failed by an output nobody takes.
func TestRun_BrokenOut(t *testing.T) {
	t.Parallel()
	out := &brokenWriter{}
	r, err := exec.Run(t.Context(), shell("head -c 5000000 /dev/zero; echo done"), out, exec.Policy{})
	if err != nil || r.ExitCode != 0 || out.writes != 1 {
		t.Errorf("Run = %+v, %v after %d writes, want success after 1", r, err, out.writes)
	}
}

// TestRun_SideBySide: many at once do not mix up their output, end one another or leave a zombie.
func TestRun_SideBySide(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			out := newBuffer(t)
			r, err := exec.Run(t.Context(), shell(fmt.Sprintf("echo $$ %d; exit %d", i, i)), out, exec.Policy{})
			line := strings.Fields(out.String())
			if r.ExitCode != i || (err == nil) != (i == 0) || len(line) != 2 || line[1] != fmt.Sprint(i) {
				t.Errorf("Run(exit %d) = %+v, %v with output %q", i, r, err, out)
				return
			}
			if state, err := os.ReadFile("/proc/" + line[0] + "/stat"); err == nil && strings.Contains(string(state), ") Z ") {
				t.Errorf("process %s was not reaped", line[0])
			}
		})
	}
	wg.Wait()
}

func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		if _, err := exec.Run(b.Context(), []byte(`{"argv":["true"]}`), io.Discard, exec.Policy{}); err != nil {
			b.Fatal(err)
		}
	}
}
