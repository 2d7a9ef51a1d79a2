package kube

import "syscall"

// ownGroup puts a child into a process group of its own, so that it can be
// killed with its children and a Ctrl-C reaches us first, and has the kernel
// kill it when we die, however we die: a test that panics, times out or is
// killed runs no cleanup.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// soReusePort is SO_REUSEPORT, which package syscall does not name everywhere.
const soReusePort = 0xf
