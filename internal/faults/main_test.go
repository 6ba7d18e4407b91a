package faults_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"offstage/internal/faults"
)

// binary is the offstage that is tested, built once.
var binary string

func TestMain(m *testing.M) {
	faults.Body()
	goleak.VerifyTestMain(built{m})
}

// built is a testing.M that has a binary while it runs.
type built struct{ m *testing.M }

func (b built) Run() int {
	wide()
	dir, err := os.MkdirTemp("", "offstage-faults-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		binary, err = faults.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return b.m.Run()
}

// wide lets more tests run at once than there are processors, unless -parallel says otherwise: they wait, mostly.
func wide() {
	flag.Parse() //nolint:revive // before the tests, from TestMain
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "6")
	}
}

// rig starts what a test needs.
func rig(t *testing.T, c faults.RigConfig) *faults.Rig {
	t.Helper()
	c.Binary = binary
	return faults.NewRig(t, c)
}

// measured logs the figures of a test in a form that docs/guarantees.md quotes.
func measured(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("measured: "+format, args...)
}

// until waits for something to become true and gives the time that took.
func until(t *testing.T, what string, bound time.Duration, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > bound {
			t.Errorf("not within %v: %s", bound, what)
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(began)
}

// seconds is a duration for a measured line.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2fs", d.Seconds()) }

// ctxFor bounds what a test waits for.
func ctxFor(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// readFile is a file's text, empty when there is none.
func readFile(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}
