package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"net"
	"path/filepath"
)

// echoArg makes bench serve an echo. Its arguments are udp, tcp or tls, the address, and the directory of the certificate.
const echoArg = "-echo"

// echo sends every message back as a response. For each read it makes one system call, and one to write: a server that is written in Go and
// reads as much at once can't cost less.
func echo(transport, addr, dir string) error {
	if transport == "udp" {
		return echoPackets(addr)
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return err
	}
	if transport == "tls" {
		cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
		if err != nil {
			return err
		}
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = conn.Close() }()
			_ = echoStream(conn) // until the client goes
		}()
	}
}

func echoPackets(addr string) error {
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

func echoStream(conn net.Conn) error {
	b, have := make([]byte, 4096), 0
	for {
		n, err := conn.Read(b[have:])
		if err != nil {
			return err
		}
		have += n
		whole := 0
		for have-whole > 4 {
			size := 2 + int(binary.BigEndian.Uint16(b[whole:]))
			if have-whole < size {
				break
			}
			b[whole+4] |= 0x80 // QR
			whole += size
		}
		if _, err := conn.Write(b[:whole]); err != nil {
			return err
		}
		have = copy(b, b[whole:have])
	}
}
