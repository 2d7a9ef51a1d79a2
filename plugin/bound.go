package clusterset

import (
	"net"
	"net/netip"
)

// boundAddrs returns the addresses that a server block listens on: those of its bind plugin, or the machine's if one of them is a
// wildcard. It leaves out IPv6 link-local addresses, which are only valid together with a zone, and an AAAA record has none.
func boundAddrs(listenHosts []string) []netip.Addr {
	var addrs []netip.Addr
	for _, host := range listenHosts {
		addr, err := netip.ParseAddr(host)
		addr = addr.Unmap()
		switch {
		case err != nil || addr.IsUnspecified():
			return interfaceAddrs()
		case addr.Is4() || !addr.IsLinkLocalUnicast():
			addrs = append(addrs, addr.WithZone(""))
		}
	}
	return addrs
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
