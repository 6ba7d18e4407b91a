package exec

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// MarkerVariable is the one environment variable a command is given beside the declared ones. It is how processes that
// left the command's session are found again.
const MarkerVariable = "OFFSTAGE_TASK"

// Caveat is what a daemon that runs commands tells its operator at start.
const Caveat = "without cgroups a command's process is not found again once it has left the command's session, lost its " +
	"parent and cleared its environment (" + MarkerVariable + "); such a process outlives its task"

const (
	defaultShell = "/bin/sh"
	defaultPath  = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	defaultGrace = 2 * time.Second
	noShell      = "-"
)

// Policy is what an operator lets commands do. The zero value runs everything.
type Policy struct {
	// Allow holds glob patterns (path.Match) of the commands that may run; empty means every command. A pattern with a
	// slash is matched against the whole path of the program ("/srv/jobs/*"), symbolic links not followed. One without
	// is matched against a command that was given without a slash too, and so is found on the PATH ("git"). A shell line
	// counts as the command Shell. With a list in force a payload may not set variables that choose other code, like
	// PATH and LD_PRELOAD.
	Allow []string
	// Env lists the variables that every command has: a NAME is passed on from the daemon's environment, a NAME=value
	// is given as it is. Nil means PATH, HOME, LANG and TZ; empty but not nil means none.
	Env []string
	// Shell is the absolute path of what runs a shell line, as `Shell -c line`. Empty means /bin/sh, "-" refuses shell
	// lines.
	Shell string
	// Grace lies between SIGTERM and SIGKILL. Zero means 2 s; negative means SIGKILL at once.
	Grace time.Duration
}

// Validate reports the first fault of p: a malformed pattern, a shell that is not an absolute path.
func (p Policy) Validate() error {
	for _, pattern := range p.Allow {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("allow: %q is not a glob pattern", pattern)
		}
	}
	if p.Shell != "" && p.Shell != noShell && !path.IsAbs(p.Shell) {
		return fmt.Errorf("shell: %q is not an absolute path (or \"-\" for none)", p.Shell)
	}
	return nil
}

func (p Policy) shell() string {
	if p.Shell == "" {
		return defaultShell
	}
	return p.Shell
}

func (p Policy) grace() time.Duration {
	if p.Grace == 0 {
		return defaultGrace
	}
	return max(p.Grace, 0)
}

// allows reports whether the list lets the command run that was given as name and stands at file.
func (p Policy) allows(name, file string) bool {
	if len(p.Allow) == 0 {
		return true
	}
	return slices.ContainsFunc(p.Allow, func(pattern string) bool {
		subject := file
		if !strings.Contains(pattern, "/") {
			subject = name
		}
		ok, err := path.Match(pattern, subject)
		return ok && err == nil
	})
}

// environment is what a command of the given variables sees, without the marker.
func (p Policy) environment(declared map[string]string) map[string]string {
	names := p.Env
	env := map[string]string{}
	if names == nil {
		names = []string{"PATH", "HOME", "LANG", "TZ"}
		env["PATH"] = defaultPath
	}
	for _, entry := range names {
		name, value, given := strings.Cut(entry, "=")
		if !given {
			value, given = os.LookupEnv(name)
		}
		if given {
			env[name] = value
		}
	}
	maps.Copy(env, declared)
	return env
}

// choosesCode reports whether the variable makes common programs run other code than their own, which would make a list
// of allowed commands worthless.
func choosesCode(name string) bool {
	if strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "BASH_FUNC_") || strings.HasPrefix(name, "GIT_") {
		return true
	}
	return slices.Contains([]string{
		"PATH", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "PS4", "GCONV_PATH",
		"PERL5OPT", "PERL5LIB", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "RUBYOPT", "RUBYLIB", "NODE_OPTIONS",
		"NODE_PATH", "JAVA_TOOL_OPTIONS", "EDITOR", "VISUAL", "PAGER",
	}, name)
}
