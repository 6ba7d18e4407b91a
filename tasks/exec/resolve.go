package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// errNoCommand: there is no such program.
var errNoCommand = errors.New("no such command")

// relative reports whether name is a path that depends on the working directory.
func relative(name string) bool { return strings.Contains(name, "/") && !path.IsAbs(name) }

// file is the absolute, clean path of the program that c starts. It is what runs, so that ".." and the allow-list see
// the same file.
func (c *command) file(p Policy) (string, error) {
	name := c.argv[0]
	switch {
	case path.IsAbs(name):
		return path.Clean(name), nil
	case relative(name):
		return path.Join(c.cwd, name), nil
	}
	search, ok := p.environment(c.env)["PATH"]
	if !ok {
		search = defaultPath
	}
	for dir := range strings.SplitSeq(search, ":") {
		if file := path.Join(dir, name); path.IsAbs(dir) && executable(file) {
			return file, nil
		}
	}
	return "", fmt.Errorf("%w: %.80q is not on the PATH", errNoCommand, name)
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// startError says whether trying again is no use, and in plain words why the program at file did not start in cwd.
func startError(err error, file, cwd string) (permanent bool, _ error) {
	if cwd != "" {
		if info, serr := os.Stat(cwd); serr != nil {
			return true, fmt.Errorf("cwd %.200q: %w", cwd, plain(serr))
		} else if !info.IsDir() {
			return true, fmt.Errorf("cwd %.200q: not a directory", cwd)
		}
	}
	info, serr := os.Stat(file)
	switch {
	case errors.Is(serr, fs.ErrNotExist):
		return true, fmt.Errorf("%w: %.200q", errNoCommand, file)
	case serr == nil && info.IsDir():
		return true, fmt.Errorf("%.200q is a directory", file)
	case errors.Is(err, fs.ErrNotExist):
		return true, fmt.Errorf("%.200q: its interpreter (the #! line or the loader) does not exist", file)
	case errors.Is(err, syscall.ENOEXEC):
		return true, fmt.Errorf("%.200q is not a program (a script needs a #! line)", file)
	}
	return !passing(err), fmt.Errorf("start %.200q: %w", file, plain(err))
}

// plain drops the operation and path from err.
func plain(err error) error {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	return err
}

// passing reports whether the host may start the same program later.
func passing(err error) bool {
	for _, errno := range []syscall.Errno{
		syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY, syscall.EINTR, syscall.EIO,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
