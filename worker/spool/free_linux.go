package spool

import (
	"os"

	"golang.org/x/sys/unix"
)

// freeBytes is the room on the disk of f for users other than root; ok is false when the file system does not count.
func freeBytes(f *os.File) (free uint64, ok bool) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil || st.Blocks == 0 { // 0: a tmpfs without a limit
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true
}
