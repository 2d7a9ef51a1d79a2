package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/clusterset/clusterset/test/freeport"
)

const nsdConfig = `server:
    ip-address: 127.0.0.1@%[1]s
    username: ""
    chroot: ""
    zonesdir: %[2]s
    pidfile: %[2]s/nsd.pid
    xfrdfile: %[2]s/nsd.xfrd
    zonelistfile: %[2]s/nsd.zones
    database: ""
    server-count: 1
    tcp-count: 200
    reuseport: no
    round-robin: yes
    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
remote-control:
    control-enable: no
zone:
    name: clusterset.local
    zonefile: zone
`

// startNSD starts NSD, which is written in C and has no plugins, with a zone file of the names of our zone. It returns no server if NSD isn't
// installed.
func (b *bench) startNSD(transport string) (*server, error) {
	binary, err := exec.LookPath("nsd")
	if err != nil {
		binary = "/usr/sbin/nsd"
	}
	if _, err := os.Stat(binary); err != nil {
		fmt.Printf("NSD is left out: %v (Debian package nsd)\n\n", err)
		return nil, nil
	}
	port, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(b.dir, "nsd.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nsdConfig, port, b.dir), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "zone"), []byte(b.objects.zoneFile()), 0o600); err != nil {
		return nil, err
	}
	s := &server{name: nsd, addr: "127.0.0.1:" + port, net: transport}
	return s, b.run(s, binary, "-d", "-c", config)
}

// zoneFile returns the names of the objects as a zone file.
func (o objects) zoneFile() string {
	var text strings.Builder
	text.WriteString("$ORIGIN clusterset.local.\n$TTL 5\n@ SOA ns.dns hostmaster 1 60 15 86400 5\n@ NS ns.dns\nns.dns A 127.0.0.1\n")
	for i := range o.services {
		fmt.Fprintf(&text, "%s A 10.100.%d.%d\n", o.service(i), i/256%256, i%256)
	}
	headless := func(name string, endpoints, seed int) {
		for j := range endpoints {
			host := fmt.Sprintf("pod-%d.cluster-%d.%s", j, seed%5, name)
			fmt.Fprintf(&text, "%[1]s A %[3]s\n%[2]s A %[3]s\n", name, host, address(seed, j))
		}
	}
	for i := range o.headless {
		headless(o.headlessName(i), 10, i)
	}
	headless(hl100, 100, 7777)
	return text.String()
}
