package main

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refusals are filters for what a seccomp profile may refuse the express path, or what a kernel such as gVisor's doesn't have: two system
// calls and an option of another.
var refusals = map[string][]unix.SockFilter{
	"recvmmsg": refuse(unix.SYS_RECVMMSG),
	"sendmmsg": refuse(unix.SYS_SENDMMSG),
	"BPF":      refuse(unix.SYS_SETSOCKOPT, load(argument(2)), unless(unix.SO_ATTACH_REUSEPORT_CBPF, 1)),
}

// argument returns the offset of a system call's argument in seccomp_data. The call's number, the architecture and the instruction pointer
// come first.
func argument(i uint32) uint32 { return 16 + 8*i }

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

// unless skips instructions if the loaded value differs from this one.
func unless(value uint32, skip uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: skip}
}

func give(result uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: result}
}

// refuse returns a filter that makes a system call fail with EPERM if the conditions hold.
func refuse(call uint32, conditions ...unix.SockFilter) []unix.SockFilter {
	filter := []unix.SockFilter{load(0), unless(call, uint8(len(conditions)+1))} //nolint:gosec // few
	filter = append(filter, conditions...)
	return append(filter, give(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM)), give(unix.SECCOMP_RET_ALLOW))
}

// forbid installs the filter of that name for all threads of the process, as a container runtime would. An empty name installs none.
func forbid(name string) {
	if name == "" {
		return
	}
	filter := refusals[name]
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]} //nolint:gosec // few
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); errno != 0 {
			err = errno
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "forbid %s: %v\n", name, err)
		os.Exit(1)
	}
}
