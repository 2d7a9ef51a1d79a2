package process

import "syscall"

// WithoutOrphans puts a child into its own process group, so that Ctrl-C reaches only this process, and makes the kernel
// kill the child when this process dies for any reason: after a panic or SIGKILL nothing else cleans up. The caller must
// lock the thread that starts the child.
func WithoutOrphans() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
