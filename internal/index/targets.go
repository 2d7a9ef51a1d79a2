package index

import "slices"

// ServiceItself as a Target's Host stands for the service's own name.
const ServiceItself = -1

// Target is what an SRV record points to: Host is an index into Set.TargetHosts, or ServiceItself.
type Target struct {
	Host int32
	Port uint16
}

// Targets are what the SRV records of a name point to: hosts, each at one or more port numbers. They are in order of host and
// number, each once. Hosts that many ports have in common are stored once: a service of 4,096 endpoints and 100 ports has
// 409,600 targets, which take no more memory than the endpoints do.
type Targets struct {
	n      int32
	number uint16 // the one number of every host, or 0 where hosts says more
	hosts  *hostList
}

// hostList is the hosts of some Targets. A nil one is the service itself.
type hostList struct {
	hosts []int32
	// numbers are those of every host or, where there are ends, hosts[i] has those from ends[i-1] to ends[i].
	numbers []uint16
	ends    []int32
	// sums are those of the targets' weights up to each host. Nil where all clusters have the same.
	sums []uint32
}

// numbersOf returns the first target of a host, and how many it has.
func (h *hostList) numbersOf(host int) (first, n int) {
	switch {
	case h.ends != nil && host > 0:
		return int(h.ends[host-1]), int(h.ends[host] - h.ends[host-1])
	case h.ends != nil:
		return 0, int(h.ends[0])
	}
	n = max(1, len(h.numbers))
	return host * n, n
}

// weigh sets sums from the weight of each host.
func (h *hostList) weigh(weights []uint8) *hostList {
	if weights == nil {
		return h
	}
	sum := uint32(0)
	h.sums = make([]uint32, len(h.hosts))
	for i, host := range h.hosts {
		_, n := h.numbersOf(i)
		sum += uint32(n) * uint32(weightOf(weights, host)) //nolint:gosec // at most maxPorts
		h.sums[i] = sum
	}
	return h
}

// weightOf returns a host's weight. The service itself has the usual one.
func weightOf(weights []uint8, host int32) uint8 {
	if host == ServiceItself {
		return usualWeight
	}
	return weights[host]
}

// Len returns how many targets there are.
func (t *Targets) Len() int { return int(t.n) }

// AtHosts reports whether any target is another than the service itself.
func (t *Targets) AtHosts() bool {
	return t.hosts != nil && t.hosts.hosts[len(t.hosts.hosts)-1] != ServiceItself
}

// At returns the target of that number, from 0 to Len()-1.
func (t *Targets) At(i int) Target {
	h := t.hosts
	switch {
	case h == nil:
		return Target{ServiceItself, t.number}
	case t.number != 0:
		return Target{h.hosts[i], t.number}
	case h.ends == nil:
		return Target{h.hosts[i/len(h.numbers)], h.numbers[i%len(h.numbers)]}
	}
	host, _ := slices.BinarySearch(h.ends, int32(i)+1) //nolint:gosec // less than n
	return Target{h.hosts[host], h.numbers[i]}
}

// equal relies on equal Targets being stored alike.
func (t Targets) equal(o Targets) bool {
	if t.n != o.n || t.number != o.number || t.hosts == nil || o.hosts == nil {
		return t == o
	}
	return t.hosts == o.hosts || slices.Equal(t.hosts.hosts, o.hosts.hosts) &&
		slices.Equal(t.hosts.numbers, o.hosts.numbers) && slices.Equal(t.hosts.ends, o.hosts.ends) &&
		slices.Equal(t.hosts.sums, o.hosts.sums)
}

// targetBuilder makes Targets of hosts that come in order. It can be used again after build.
type targetBuilder struct {
	hosts   []int32
	numbers [][]uint16 // of each host, sorted; not changed, and copied by build
	last    *hostList  // of one number a host, to be shared
	weights []uint8    // of all hosts; nil where they are alike
}

// add adds a host with its port numbers. The same host may come again, directly after.
func (b *targetBuilder) add(host int32, numbers []uint16) {
	last := len(b.hosts) - 1
	switch {
	case len(numbers) == 0:
	case last < 0 || b.hosts[last] != host:
		b.hosts, b.numbers = append(b.hosts, host), append(b.numbers, numbers)
	case !slices.Equal(b.numbers[last], numbers):
		b.numbers[last] = sortedNumbers(slices.Concat(b.numbers[last], numbers))
	}
}

func (b *targetBuilder) build() (t Targets) {
	if len(b.hosts) == 0 {
		return t
	}
	first, total, alike := b.numbers[0], 0, true
	for _, numbers := range b.numbers {
		total += len(numbers)
		alike = alike && slices.Equal(first, numbers)
	}
	t.n = int32(total) //nolint:gosec // endpoints times maxPorts
	if alike && len(first) == 1 {
		t.number = first[0]
		if len(b.hosts) > 1 || b.hosts[0] != ServiceItself {
			t.hosts = b.share()
		}
	} else {
		t.hosts = &hostList{hosts: b.share().hosts}
		if alike {
			t.hosts.numbers = slices.Clone(first)
		} else {
			t.hosts.list(b.numbers, total)
		}
		t.hosts.weigh(b.weights)
	}
	b.hosts, b.numbers = b.hosts[:0], b.numbers[:0]
	return t
}

// share returns the hosts, those of the last Targets where they are the same.
func (b *targetBuilder) share() *hostList {
	if b.last == nil || !slices.Equal(b.last.hosts, b.hosts) {
		b.last = (&hostList{hosts: slices.Clone(b.hosts)}).weigh(b.weights)
	}
	return b.last
}

// list sets numbers and ends from those of each host.
func (h *hostList) list(numbers [][]uint16, total int) {
	h.numbers, h.ends = make([]uint16, 0, total), make([]int32, len(numbers))
	for i, list := range numbers {
		h.numbers = append(h.numbers, list...)
		h.ends[i] = int32(len(h.numbers)) //nolint:gosec // at most total
	}
}

func sortedNumbers(numbers []uint16) []uint16 {
	slices.Sort(numbers)
	return slices.Compact(numbers)
}
