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
	// numbers are those of every host; or, where each is set, hosts[i] has numbers[i] alone; or, where there are ends, it has those
	// from ends[i-1] to ends[i].
	numbers []uint16
	each    bool
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
	case h.each:
		return host, 1
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
	case h.each:
		return Target{h.hosts[i], h.numbers[i]}
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
	return t.hosts == o.hosts || slices.Equal(t.hosts.hosts, o.hosts.hosts) && t.hosts.each == o.hosts.each &&
		slices.Equal(t.hosts.numbers, o.hosts.numbers) && slices.Equal(t.hosts.ends, o.hosts.ends) &&
		slices.Equal(t.hosts.sums, o.hosts.sums)
}

// targetBuilder makes Targets of hosts that come in order. It can be used again after build.
type targetBuilder struct {
	hosts []int32
	// numbers are those of every host, as long as they are alike. From the first that has others there are ends, and numbers has
	// one host's after another's.
	numbers []uint16
	ends    []int32
	last    *hostList // of one number a host, to be shared
	weights []uint8   // of all hosts; nil where they are alike
}

// add adds a host with its port numbers, which are sorted. The same host may come again, directly after.
func (b *targetBuilder) add(host int32, numbers ...uint16) {
	if len(numbers) == 0 {
		return
	}
	if last := len(b.hosts) - 1; last >= 0 && b.hosts[last] == host {
		numbers = sortedNumbers(slices.Concat(b.takeLast(), numbers))
	}
	switch {
	case len(b.hosts) == 0:
		b.numbers = append(b.numbers[:0], numbers...)
	case len(b.ends) == 0 && !slices.Equal(b.numbers, numbers):
		b.spread()
		fallthrough
	case len(b.ends) > 0:
		b.numbers = append(b.numbers, numbers...)
		b.ends = append(b.ends, int32(len(b.numbers))) //nolint:gosec // endpoints times maxPorts
	}
	b.hosts = append(b.hosts, host)
}

// takeLast takes the last host away again and returns its numbers.
func (b *targetBuilder) takeLast() []uint16 {
	last, from := len(b.hosts)-1, 0
	b.hosts = b.hosts[:last]
	numbers := b.numbers
	if len(b.ends) > 0 {
		b.ends = b.ends[:last]
		if last > 0 {
			from = int(b.ends[last-1])
		}
		b.numbers = b.numbers[:from]
	}
	return numbers[from:]
}

// spread gives each host numbers of its own.
func (b *targetBuilder) spread() {
	n := len(b.numbers)
	b.numbers = slices.Grow(b.numbers, n*cap(b.hosts))
	for i := range b.hosts {
		if i > 0 {
			b.numbers = append(b.numbers, b.numbers[:n]...)
		}
		b.ends = append(b.ends, int32(len(b.numbers))) //nolint:gosec // endpoints times maxPorts
	}
}

func (b *targetBuilder) build() (t Targets) {
	if len(b.hosts) == 0 {
		return t
	}
	b.gather()
	t.n = int32(len(b.numbers)) //nolint:gosec // endpoints times maxPorts
	if len(b.ends) == 0 {
		t.n *= int32(len(b.hosts)) //nolint:gosec // some thousand
	}
	if len(b.ends) == 0 && len(b.numbers) == 1 {
		t.number = b.numbers[0]
		if len(b.hosts) > 1 || b.hosts[0] != ServiceItself {
			t.hosts = b.share()
		}
	} else {
		t.hosts = b.list().weigh(b.weights)
	}
	b.hosts, b.ends = b.hosts[:0], b.ends[:0]
	return t
}

// gather undoes spread where hosts have become alike after all.
func (b *targetBuilder) gather() {
	if len(b.ends) == 0 {
		return
	}
	n := int(b.ends[0])
	for i, end := range b.ends {
		if int(end) != (i+1)*n {
			return
		}
	}
	if slices.Equal(b.numbers[n:], b.numbers[:len(b.numbers)-n]) { // moved on by one host it is the same
		b.numbers, b.ends = b.numbers[:n], b.ends[:0]
	}
}

// share returns the hosts, those of the last Targets where they are the same.
func (b *targetBuilder) share() *hostList {
	if b.last == nil || !slices.Equal(b.last.hosts, b.hosts) {
		b.last = (&hostList{hosts: slices.Clone(b.hosts)}).weigh(b.weights)
	}
	return b.last
}

// list returns the hosts with several numbers, or different ones.
func (b *targetBuilder) list() *hostList {
	h := &hostList{hosts: b.share().hosts, numbers: slices.Clone(b.numbers), each: len(b.numbers) == len(b.ends)}
	if !h.each && len(b.ends) > 0 {
		h.ends = slices.Clone(b.ends)
	}
	return h
}

func sortedNumbers(numbers []uint16) []uint16 {
	slices.Sort(numbers)
	return slices.Compact(numbers)
}
