//go:build !linux

package process

import "syscall"

// WithoutOrphans puts a child into its own process group, so that Ctrl-C reaches only this process. Only Linux can kill the
// child when this process dies.
func WithoutOrphans() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
