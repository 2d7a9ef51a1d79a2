//go:build unix

package main

import "syscall"

// withoutOrphans keeps an interrupt at the terminal to ourselves: who is stopped when is for us to say.
func withoutOrphans() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
