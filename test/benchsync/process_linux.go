package main

import "syscall"

// withoutOrphans keeps an interrupt at the terminal to ourselves, who stop our children in order, and has the kernel kill them
// if we are killed.
func withoutOrphans() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
