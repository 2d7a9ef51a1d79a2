package fleet

import "syscall"

// WithoutOrphans puts a child into a process group of its own, so that a Ctrl-C reaches us alone, and has the kernel kill it
// when we die, however we die: what panics or is killed cleans nothing up. Hold the thread that starts the child.
func WithoutOrphans() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
