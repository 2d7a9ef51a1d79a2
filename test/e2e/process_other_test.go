//go:build !linux

package e2e

import "syscall"

func withoutOrphans() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
