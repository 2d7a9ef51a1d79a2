package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/clusterset/clusterset/hack/proc"
	"github.com/clusterset/clusterset/test/fleet"
)

// cpuOfAll returns the processor time of all that we started and that still runs: API servers, etcds, and their clients.
func cpuOfAll() time.Duration { return proc.CPU(proc.Tree(os.Getpid())[1:]...) }

// servers returns the processor time and the resident memory, in MiB, of a cluster's API server and etcd.
func servers(c *fleet.Cluster) (used time.Duration, resident int) {
	for _, pid := range []int{c.Plane.APIServerPID(), c.Plane.EtcdPID()} {
		is, _ := proc.Memory(pid)
		used, resident = used+proc.CPU(pid), resident+is
	}
	return used, resident
}

// usage is the processor time of near's agent and CoreDNS, and of the API servers and etcds of near and the hub.
type usage struct{ agent, dns, near, hub time.Duration }

func (b *bench) usage() usage {
	u := usage{agent: proc.CPU(b.near.Agent.PID()), dns: proc.CPU(b.near.DNS.PID())}
	u.near, _ = servers(&b.near.Cluster)
	u.hub, _ = servers(&b.hub.Cluster)
	return u
}

// since returns what was used since v, for each of n.
func (u usage) since(v usage, n int) usage {
	d := time.Duration(n)
	return usage{(u.agent - v.agent) / d, (u.dns - v.dns) / d, (u.near - v.near) / d, (u.hub - v.hub) / d}
}

// String rounds to 10 µs, the precision for a single change, or to 10 ms if the agent has used more than a second.
func (u usage) String() string {
	to := 10 * time.Microsecond
	if u.agent > time.Second {
		to = 10 * time.Millisecond
	}
	all := u.agent + u.dns + u.near + u.hub
	return fmt.Sprintf("%s, the agent's share %.1f %%: agent %s, CoreDNS %s, near's API server and etcd %s, the hub's %s; load average %s",
		all.Round(to), 100*float64(u.agent)/float64(max(1, all)), u.agent.Round(to), u.dns.Round(to), u.near.Round(to), u.hub.Round(to), loadAverage())
}

// loadAverage returns the load average of the last minute, or "" if that is unknown.
func loadAverage() string {
	content, _ := os.ReadFile("/proc/loadavg")
	last, _, _ := strings.Cut(string(content), " ")
	return last
}
