package kube

import "syscall"

// ownGroup puts a child into its own process group, so that it can be killed
// with its children and Ctrl-C reaches only this process. It also makes the
// kernel kill the child when this process dies for any reason: a test that
// panics, times out or is killed runs no cleanup.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// soReusePort is SO_REUSEPORT, which package syscall does not define on every
// platform.
const soReusePort = 0xf
