// Command offstage is the daemon and its command line.
//
// `offstage serve` runs the daemon; every other command is a client of one, over its HTTP API. Data goes to stdout,
// talk to stderr, and the exit code says how it went: see exitcode.go.
package main

import (
	"context"
	"io"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// run is the whole program but for its process: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	return newApp(stdin, stdout, stderr, environ).run(ctx, args)
}
