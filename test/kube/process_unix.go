//go:build unix && !linux

package kube

import "syscall"

// ownGroup puts a child into its own process group, so that it can be killed
// with its children. Only Linux can also kill it when this process is killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

const soReusePort = syscall.SO_REUSEPORT
