package main

import (
	"context"
	"net"
	"os"
	"os/exec"

	"github.com/clusterset/clusterset/test/freeport"
)

// echoArg makes bench serve a UDP echo at the address in the next argument.
const echoArg = "-echo"

// echo sends every packet back as a response. It makes one system call to read a packet and one to write it: a server that answers one
// packet at a time can't cost less.
func echo(addr string) error {
	local, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return err
	}
	conn, err := net.ListenUDP("udp", local)
	if err != nil {
		return err
	}
	for b := make([]byte, 1500); ; {
		n, from, err := conn.ReadFromUDPAddrPort(b)
		if err != nil {
			return err
		}
		if n > 2 {
			b[2] |= 0x80 // QR
		}
		if _, err := conn.WriteToUDPAddrPort(b[:n], from); err != nil {
			return err
		}
	}
}

// startEcho runs the echo in its own process, on the same core as the servers.
func (b *bench) startEcho(ctx context.Context) (*server, error) {
	port, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{name: "echo", addr: "127.0.0.1:" + port}
	s.cmd = exec.CommandContext(ctx, "taskset", "-c", "0", binary, echoArg, s.addr) //nolint:gosec // ourselves
	s.cmd.Stderr = os.Stderr
	if s.asked, err = b.dnsperfData(b.plain()); err != nil {
		return nil, err
	}
	return s, s.cmd.Start()
}
