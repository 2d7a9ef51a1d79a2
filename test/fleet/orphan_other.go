//go:build !linux

package fleet

import "syscall"

// WithoutOrphans puts a child into a process group of its own, so that a Ctrl-C reaches us alone. To have it killed when we
// die takes Linux.
func WithoutOrphans() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
