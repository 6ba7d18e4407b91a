package main

import (
	"errors"
	"net"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScript runs the real binary through testdata/script. $CLOSED is an address where nobody listens.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			e.Setenv("CLOSED", l.Addr().String())
			return l.Close()
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code": checkCode, "daemon": daemonForScript(t),
		},
	})
}

// daemonForScript is the script command `daemon [ARG...]`: it starts `offstage serve` and points OFFSTAGE_SERVER at it.
func daemonForScript(t *testing.T) func(ts *testscript.TestScript, neg bool, args []string) {
	t.Helper()
	return func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Setenv("OFFSTAGE_SERVER", startDaemon(t, args...).url)
	}
}

// checkCode is the script command `code N CMD...`: it runs the command and holds its exit code against N.
func checkCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N CMD [ARG...]")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		e, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v: %v", args[1:], err)
		}
		got = e.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("%v: exit code %d, want %s", args[1:], got, args[0])
	}
}
