//go:build !linux

package ownnet

import (
	"errors"
	"net/netip"
)

// Address is one of the namespace.
var Address = netip.MustParseAddr("192.0.2.1")

// Enter fails: other systems have no network namespaces.
func Enter() error { return errors.New("make a network namespace: only Linux has them") }
