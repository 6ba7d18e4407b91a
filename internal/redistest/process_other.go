//go:build !linux

package redistest

import "syscall"

// dieWithParent asks for nothing: only Linux can tie a child to its parent.
func dieWithParent() *syscall.SysProcAttr { return nil }
