package faults

import "syscall"

// dieWithParent makes the kernel kill the child when a test binary is killed or times out.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
