package kube

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// reservedPort is a TCP port on 127.0.0.1 that this process holds until it is released.
//
// If a port is found by listening and closing again, another process can take it a moment later, or while a test has the API server stopped. So
// this process keeps the port bound with SO_REUSEPORT, without listening. The API server binds the same port with --permit-port-sharing. While
// it is down, connections are refused, as they should be.
type reservedPort struct {
	fd     int
	number int
}

func reservePort() (*reservedPort, error) {
	// Without the lock a process forked between socket and CloseOnExec would inherit the socket and keep the port after this process.
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("reserve port: %w", os.NewSyscallError("socket", err))
	}
	p := &reservedPort{fd: fd}
	if err := p.bind(); err != nil {
		p.release()
		return nil, fmt.Errorf("reserve port: %w", err)
	}
	return p, nil
}

func (p *reservedPort) bind() error {
	if err := syscall.SetsockoptInt(p.fd, syscall.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(p.fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	addr, err := syscall.Getsockname(p.fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	p.number = addr.(*syscall.SockaddrInet4).Port
	return nil
}

// release gives the port back. Further calls do nothing.
func (p *reservedPort) release() {
	if p == nil || p.fd < 0 {
		return
	}
	_ = syscall.Close(p.fd)
	p.fd = -1
}
