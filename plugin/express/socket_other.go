//go:build !linux || !(amd64 || arm64)

package express

import (
	"errors"
	"net"
)

var errNone = errors.New("only Linux on amd64 and arm64 has the express path")

// supported returns why there can be no express path at an address.
func supported(string) error { return errNone }

// socket is none.
type socket struct{ *net.UDPConn }

func newSocket(*net.UDPConn, *target) (*socket, error) { return nil, errNone }
func (*socket) stop()                                  {}

func newListener(l net.Listener, _ *target) net.Listener { return l }
