package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"offstage/queue"
)

const spoolWayOut = "check data_dir: it must belong to the user that offstage runs as, on a disk with room"

// examineSpool looks at the folder where outcomes wait while Redis is away. It is made when it is needed first.
func examineSpool(dataDir string) []queue.Finding {
	dir := filepath.Join(dataDir, "spool")
	if err := writable(dir); err != nil {
		return []queue.Finding{{Level: queue.Fail, Check: "spool", Finding: "cannot be written: " + err.Error(), WayOut: spoolWayOut}}
	}
	waiting, werr := count(dir, ".rec")
	torn, terr := count(filepath.Join(dir, "torn"), "")
	if err := errors.Join(werr, terr); err != nil {
		return []queue.Finding{{Level: queue.Fail, Check: "spool", Finding: "cannot be read: " + err.Error(), WayOut: spoolWayOut}}
	}
	var found []queue.Finding
	if waiting > 0 {
		found = append(found, queue.Finding{Level: queue.Warn, Check: "spool", Finding: fmt.Sprintf("%d outcomes wait in %s", waiting, dir),
			WayOut: "a daemon with this data_dir writes them to Redis: start it, or look into its log"})
	}
	if torn > 0 {
		found = append(found, queue.Finding{Level: queue.Warn, Check: "spool", Finding: fmt.Sprintf("%d damaged records lie in %s",
			torn, filepath.Join(dir, "torn")), WayOut: "look at the disk; remove the files when they are of no more use"})
	}
	if len(found) == 0 {
		found = append(found, queue.Finding{Level: queue.OK, Check: "spool", Finding: dir + " can be written, nothing waits in it"})
	}
	return found
}

// writable writes a file to dir, or to the nearest folder above that is there, and removes it.
func writable(dir string) error {
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is not a folder", dir)
		case err == nil:
			return tryFile(dir)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		dir = filepath.Dir(dir)
	}
}

// tryName is the name of an unfinished write of the spool, which a daemon that starts just now clears away.
const tryName = "ffffffffffffffff.tmp"

func tryFile(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, tryName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString("x")
	err = errors.Join(err, f.Sync(), f.Close())
	if gone := os.Remove(f.Name()); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// count counts the files of a folder whose names end with suffix; in one that is not there are none.
func count(dir, suffix string) (int, error) {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	n := 0
	for _, f := range files {
		if f.Type().IsRegular() && strings.HasSuffix(f.Name(), suffix) {
			n++
		}
	}
	return n, nil
}
