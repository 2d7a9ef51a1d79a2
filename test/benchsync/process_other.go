//go:build !linux

package main

import "syscall"

func withoutOrphans() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
