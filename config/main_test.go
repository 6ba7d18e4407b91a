package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"offstage/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// file writes a file with the given name into a folder of the test.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// flags parses a command line.
func flags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.String("config", "", "a flag that is not ours")
	config.Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

// load expects no fault.
func load(t *testing.T, src config.Source) config.Config {
	t.Helper()
	c, err := config.Load(src)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return c
}
