//go:build unix && !linux

package kube

import "syscall"

const soReusePort = syscall.SO_REUSEPORT
