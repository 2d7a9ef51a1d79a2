package fleettest

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// owner returns which of the processes has the other end of a TCP connection over IPv4, by its name, or "". It reads that in Linux's /proc,
// because all agents dial from the same address.
func owner(processes map[string]int, conn net.Conn) string {
	inode := inodeOf("/proc/self/net/tcp", conn.RemoteAddr(), conn.LocalAddr())
	if inode == "" {
		return ""
	}
	for name, pid := range processes {
		if pid != 0 && holds(pid, "socket:["+inode+"]") {
			return name
		}
	}
	return ""
}

// holds reports whether a process has a descriptor of what links to the target.
func holds(pid int, target string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	descriptors, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, d := range descriptors {
		if to, err := os.Readlink(filepath.Join(dir, d.Name())); err == nil && to == target {
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
