//go:build !linux || !(amd64 || arm64)

package express

import "errors"

// sockets are none: there is no express path on this system.
type sockets struct{}

func (*listener) open(int) error { return errors.New("only Linux on amd64 and arm64 has it") }
func (*listener) steer(int)      {}
func (*listener) close()         {}
func boundReads(string)          {}
