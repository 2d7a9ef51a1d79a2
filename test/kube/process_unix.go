//go:build unix && !linux

package kube

import "syscall"

// ownGroup puts a child into a process group of its own, so that it can be
// killed with its children. Nothing here kills it when we are killed; that
// takes Linux.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

const soReusePort = syscall.SO_REUSEPORT
