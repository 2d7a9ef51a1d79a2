package e2e

import "syscall"

// withoutOrphans has the kernel kill a child when we die, however we die: a test that panics or times out runs no cleanup.
func withoutOrphans() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
