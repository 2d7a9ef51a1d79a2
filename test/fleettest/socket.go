package fleettest

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// owns reports whether a process has the other end of a TCP connection over IPv4. It reads that in Linux's /proc, because all agents dial
// from the same address.
func owns(pid int, conn net.Conn) bool {
	if pid == 0 {
		return false
	}
	inode := inodeOf(fmt.Sprintf("/proc/%d/net/tcp", pid), conn.RemoteAddr(), conn.LocalAddr())
	if inode == "" {
		return false
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false
	}
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

// inodeOf returns the inode of the socket between two addresses in a table of the kernel, or "".
func inodeOf(table string, local, remote net.Addr) string {
	content, err := os.ReadFile(table)
	if err != nil {
		return ""
	}
	ends := hexAddr(local) + " " + hexAddr(remote) + " "
	for line := range strings.Lines(string(content)) {
		if _, rest, ok := strings.Cut(line, ends); ok { // state, queues, timer, retransmits, uid, timeout, inode
			if words := strings.Fields(rest); len(words) > 6 {
				return words[6]
			}
		}
	}
	return ""
}

// hexAddr returns an address as the kernel's table has it.
func hexAddr(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || tcp.IP.To4() == nil {
		return "-"
	}
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(tcp.IP.To4()), tcp.Port)
}
