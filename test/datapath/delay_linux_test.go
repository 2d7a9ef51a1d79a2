package datapath

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const tunDevice = "/dev/net/tun"

// delay makes every packet from a cluster's nodes to another's networks take that much longer, until the returned function is called or the
// test ends. Not every kernel has netem, so the router sends these packets through a tun device, and this process gives them back later.
func (w *network) delay(t testing.TB, from, to *cluster, by time.Duration) (end func()) {
	t.Helper()
	if _, err := os.Stat(tunDevice); err != nil && os.Getenv("CLUSTERSET_DATAPATH") != "required" {
		t.Skipf("packets are delayed by means of %s: %v", tunDevice, err)
	}
	var tun *os.File
	if err := w.router.do(func() (err error) {
		tun, err = openTun("slow")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	go func() {
		packet := make([]byte, 1<<16)
		for {
			n, err := tun.Read(packet)
			if err != nil {
				return // it was closed
			}
			late := append([]byte(nil), packet[:n]...)
			time.AfterFunc(by, func() { _, _ = tun.Write(late) })
		}
	}()
	begin, undo := "ip link set slow up\n", ""
	for _, network := range []string{clusterPods4(to.number), clusterPods6(to.number), services4(to.number), services6(to.number)} {
		begin += fmt.Sprintf("ip route add %s dev slow table 77\n", network) // goes with the device
	}
	for _, family := range []string{"-4", "-6"} {
		for _, n := range from.nodes {
			rule := fmt.Sprintf("iif %s lookup 77 priority 77\n", port(from.number, n.number))
			begin += "ip " + family + " rule add " + rule
			undo = "ip " + family + " rule del " + rule + undo
		}
	}
	end = func() {
		if undo == "" {
			return
		}
		if err := w.router.run(undo); err != nil {
			t.Error(err)
		}
		undo = ""
		_ = tun.Close()
	}
	t.Cleanup(end)
	if err := w.router.set("net/ipv4/conf/all/rp_filter=0", "net/ipv4/conf/slow/rp_filter=0"); err != nil {
		t.Fatal(err)
	}
	if err := w.router.run(strings.TrimSpace(begin)); err != nil {
		t.Fatal(err)
	}
	return end
}

// openTun makes a tun device in the namespace of the calling thread. It goes with the file.
func openTun(name string) (*os.File, error) {
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", tunDevice, err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("make the tun device %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), tunDevice), nil
}
