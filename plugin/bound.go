package clusterset

import (
	"net"
	"net/netip"
)

// boundAddrs returns the addresses that a server block listens on: those of its bind plugin, or else the machine's.
func boundAddrs(listenHosts []string) []netip.Addr {
	var addrs []netip.Addr
	for _, host := range listenHosts {
		if addr, err := netip.ParseAddr(host); err == nil && !addr.IsUnspecified() {
			addrs = append(addrs, addr.Unmap().WithZone(""))
		}
	}
	if len(addrs) > 0 {
		return addrs
	}
	return interfaceAddrs()
}

// interfaceAddrs returns the machine's global unicast addresses or, if there are none, its loopback addresses.
func interfaceAddrs() []netip.Addr {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var addrs, loopback []netip.Addr
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		switch addr := prefix.Addr().Unmap(); {
		case addr.IsLoopback():
			loopback = append(loopback, addr)
		case addr.IsGlobalUnicast():
			addrs = append(addrs, addr)
		}
	}
	if len(addrs) == 0 {
		return loopback
	}
	return addrs
}
