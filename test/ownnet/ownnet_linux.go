// Package ownnet runs a program in a network namespace of its own, for tests whose programs dial each other at an address that isn't a loopback
// one: agents dial no others (D44 of docs/spec/data-path.md). So the machine's network sees nothing of it.
package ownnet

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Address is one of the namespace, for documentation (RFC 5737), and not a loopback one.
var Address = netip.MustParseAddr("192.0.2.1")

// inside is set in the environment of the program that runs in the namespace.
const inside = "CLUSTERSET_OWN_NETWORK"

// Enter starts this program again in a namespace, waits for its end, and exits as it does. In the namespace it gives the loopback interface
// Address, and returns. It needs root, or a kernel that lets users make namespaces.
func Enter() error {
	if os.Getenv(inside) != "" {
		return setUp()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread()                    // for good: the kernel kills the child when the thread that started it ends
	cmd := exec.Command(self, os.Args[1:]...) //nolint:gosec // this program
	cmd.Env = append(os.Environ(), inside+"=yes")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if id := os.Geteuid(); id != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	var exit *exec.ExitError
	switch err := cmd.Run(); {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit):
		os.Exit(max(exit.ExitCode(), 1))
	default:
		return fmt.Errorf("make a network namespace, which takes root or user namespaces: %w", err)
	}
	return nil
}

// setUp brings the namespace's loopback interface up, and gives it Address.
func setUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	at, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := at.SetInet4Addr(Address.AsSlice()); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, at); err != nil {
		return fmt.Errorf("give lo the address %s: %w", Address, err)
	}
	return nil
}
