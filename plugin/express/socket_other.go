//go:build !linux || !(amd64 || arm64)

package express

import (
	"errors"
	"net"
)

// socket is none: there is no express path on this system.
type socket struct{}

func newSocket(*net.UDPConn, *target, int) (*socket, error) {
	return nil, errors.New("only Linux on amd64 and arm64 has the express path")
}
func (*socket) serve() {}
func (*socket) stop()  {}

func newListener(l net.Listener, _ *target) net.Listener { return l }
