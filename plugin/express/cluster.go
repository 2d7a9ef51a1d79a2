package express

import (
	"net/netip"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/coredns/coredns/plugin/kubernetes"
	"github.com/coredns/coredns/plugin/kubernetes/object"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset/clusterset/internal/index"
)

// Cluster answers for the zones of the plugin kubernetes in the same server block, from that plugin's own store: nothing is copied and
// nothing is watched twice. It follows kubernetes.Kubernetes.findServices of CoreDNS 1.15, rules A70 to A78 of docs/spec/answers.md.
type Cluster struct {
	store       store
	namespaces  map[string]struct{} // the only ones served, empty for all
	podNames    bool                // endpoints without a hostname have their pod's name
	ignoreEmpty bool                // a ClusterIP service without endpoints doesn't exist
	replies     Answers             // without zones: the TTL and the timers of the SOA
	synced      atomic.Bool
}

// store is what is read of the plugin kubernetes. If a version of CoreDNS changes it, storeOf doesn't compile.
type store interface {
	SvcIndex(key string) []*object.Service
	EpIndex(key string) []*object.Endpoints
	GetNamespaceByName(name string) (*object.Namespace, error)
	HasSynced() bool
	Modified(mode kubernetes.ModifiedMode) int64
}

func storeOf(k *kubernetes.Kubernetes) store { return k.APIConn }

// These bound the work for a query. The chain answers for larger services.
const (
	maxEndpoints = 256 // that a query looks at
	maxPairs     = 256 // of an endpoint and a port, in an answer of SRV records
	maxHosts     = 64  // in an answer of SRV records
)

// found collects what a name in a cluster's zone has.
type found struct {
	set     index.Set
	targets index.TargetList
	hosts   [maxHosts]index.Host
	pairs   [maxPairs]pair
	addrs   [maxPairs]netip.Addr
	texts   [maxPairs]string // of addrs, as in the store
	dashed  [maxHosts][64]byte
	nHosts  int
	nPairs  int
	nAddrs  int
}

// pair is an endpoint, by its host, with one of its ports.
type pair struct {
	host int32
	port int32
	ip   string
}

// noPort is the port of a Service or an EndpointSlice without ports.
const noPort = -1

// clusterName is a name below a Service.
type clusterName struct {
	endpoint, port, protocol string // "" for any
}

// lookup finds what a name stands for, given as the labels in front of the zone. It returns false if the chain has to answer.
func (c *Cluster) lookup(s *Responder, q *query, below string) bool {
	if q.qtype == typeTXT || strings.HasPrefix(below, "ns.dns") || !c.ready() {
		return false
	}
	l := &s.lookup // of the kind NameError
	rest, ok := strings.CutSuffix(below, ".svc")
	if !ok {
		return certainlyNothing(below)
	}
	dot := strings.LastIndexByte(rest, '.')
	if !c.exposed(rest[dot+1:]) {
		return true
	}
	if dot < 0 {
		l.Kind = index.Empty
		return true
	}
	at := strings.LastIndexByte(rest[:dot], '.') + 1 // the key "<service>.<namespace>" is a substring of the name
	var name clusterName
	if at > 0 {
		l.Labels = rest[:at-1]
		if n, ok := name.parse(l.Labels, q.qtype); !ok {
			return n
		}
	}
	services := c.store.SvcIndex(rest[at:])
	if len(services) == 0 {
		return true
	}
	svc := services[0]
	if len(services) > 1 || svc.Type == corev1.ServiceTypeExternalName || svc.Name != rest[at:dot] || svc.Namespace != rest[dot+1:] {
		return false
	}
	if q.qtype == typeSRV && !q.lower() {
		return false // the targets are written in the case of the objects
	}
	return c.findService(s, q.qtype, svc, rest[at:], &name)
}

// ready reports whether the store has been read once. That never changes back, and asking costs several locks.
func (c *Cluster) ready() bool {
	if !c.synced.Load() {
		c.synced.Store(c.store.HasSynced())
	}
	return c.synced.Load()
}

// certainlyNothing reports whether a name that isn't below svc doesn't exist for sure. Pods and the version may.
func certainlyNothing(below string) bool {
	last := below[strings.LastIndexByte(below, '.')+1:]
	return last != "" && last != "svc" && last != "pod" && below != "dns-version"
}

func (c *Cluster) exposed(namespace string) bool {
	if _, ok := c.namespaces[namespace]; len(c.namespaces) > 0 && !ok {
		return false
	}
	_, err := c.store.GetNamespaceByName(namespace)
	return err == nil
}

// parse parses the labels in front of a Service's name. If it returns ok false, there is no such name, or if known is false the chain has to
// answer. The plugin kubernetes wants no underscores, but without them the target of an SRV record might be part of the question.
func (n *clusterName) parse(labels string, t qtype) (known, ok bool) {
	first, rest, two := strings.Cut(labels, ".")
	switch {
	case !two:
		n.endpoint = labels
		return false, t != typeSRV
	case strings.IndexByte(rest, '.') >= 0: // too long, except for names of topology zones
		return !strings.HasSuffix(rest, "._zone"), false
	}
	n.port, n.protocol = strings.TrimPrefix(first, "_"), strings.TrimPrefix(rest, "_")
	return false, t != typeSRV || first[0] == '_' && rest[0] == '_'
}

// has reports whether a port has the name and protocol asked for.
func (n *clusterName) has(port, protocol string) bool {
	return (n.port == "" || strings.EqualFold(n.port, port)) && (n.protocol == "" || strings.EqualFold(n.protocol, protocol))
}

// findService collects what the name of a Service, or one below it, has. It returns false if the chain has to answer.
func (c *Cluster) findService(s *Responder, t qtype, svc *object.Service, key string, name *clusterName) bool {
	f := &s.found
	f.nHosts, f.nPairs, f.nAddrs = 0, 0, 0
	exists, ok := false, true
	headless := svc.Headless()
	switch {
	case headless || name.endpoint != "":
		exists, ok = c.findEndpoints(f, t, key, name)
	case c.ignoreEmpty && !c.hasEndpoints(key):
	default:
		exists, ok = f.clusterIPs(t, svc, name)
	}
	if !ok || !exists {
		return ok
	}
	l := &s.lookup
	l.Kind = index.HostName
	if t == typeSRV {
		return f.srv(l)
	}
	l.Addrs = f.addrs[:f.nAddrs]
	return true
}

func (c *Cluster) hasEndpoints(key string) bool {
	for _, slice := range c.store.EpIndex(key) {
		for i := range slice.Subsets {
			if len(slice.Subsets[i].Addresses) > 0 {
				return true
			}
		}
	}
	return false
}

// clusterIPs collects a ClusterIP service's addresses and ports.
func (f *found) clusterIPs(t qtype, svc *object.Service, name *clusterName) (exists, ok bool) {
	for i := range svc.Ports {
		p := &svc.Ports[i]
		if !name.has(p.Name, string(p.Protocol)) {
			continue
		}
		exists = true
		for _, ip := range svc.ClusterIPs {
			if !f.add(t, index.ServiceItself, ip, p.Port) {
				return true, false
			}
		}
		if t != typeSRV {
			break // the addresses are the same at each port
		}
	}
	return exists, true
}

// findEndpoints collects the endpoints of a headless service, or one endpoint of any service.
func (c *Cluster) findEndpoints(f *found, t qtype, key string, name *clusterName) (exists, ok bool) {
	seen := 0
	for _, slice := range c.store.EpIndex(key) {
		for i := range slice.Subsets {
			subset := &slice.Subsets[i]
			if seen += len(subset.Addresses); seen > maxEndpoints {
				return false, false
			}
			ports := name.from(subset.Ports)
			if len(ports) == 0 {
				continue
			}
			for j := range subset.Addresses {
				a := &subset.Addresses[j]
				if name.endpoint != "" && !c.isNamed(a, name.endpoint) {
					continue
				}
				if exists = true; !c.endpoint(f, t, a, ports, name) {
					return true, false
				}
			}
		}
	}
	return exists, true
}

// from returns the ports from the first on that a name asks for. All endpoints of a subset have the same, so they are looked for once.
func (n *clusterName) from(ports []object.EndpointPort) []object.EndpointPort {
	for i := range ports {
		if n.has(ports[i].Name, ports[i].Protocol) {
			return ports[i:]
		}
	}
	return nil
}

// endpoint collects an endpoint: its address, or for SRV a pair with each port asked for, the first of which is the first of ports.
func (c *Cluster) endpoint(f *found, t qtype, a *object.EndpointAddress, ports []object.EndpointPort, name *clusterName) bool {
	if t != typeSRV {
		return f.add(t, 0, a.IP, 0)
	}
	host := f.host(c.hostname(a), a.IP)
	if host < 0 {
		return false
	}
	for i := range ports {
		if p := &ports[i]; name.has(p.Name, p.Protocol) && !f.add(t, host, a.IP, p.Port) {
			return false
		}
	}
	return true
}

// hostname returns an endpoint's name, or "" if that is its address with dashes.
func (c *Cluster) hostname(a *object.EndpointAddress) string {
	if a.Hostname == "" && c.podNames {
		return a.TargetRefName
	}
	return a.Hostname
}

// isNamed reports whether an endpoint has that name, which is in lower case.
func (c *Cluster) isNamed(a *object.EndpointAddress, name string) bool {
	if hostname := c.hostname(a); hostname != "" {
		return strings.EqualFold(hostname, name)
	}
	var b [64]byte
	return strings.EqualFold(dashed(&b, a.IP), name)
}

// dashed returns the name of an endpoint that has only an address, in the memory of b. A dotted address keeps its colons, as in the plugin
// kubernetes.
func dashed(b *[64]byte, ip string) string {
	from := byte('.')
	if strings.IndexByte(ip, from) < 0 {
		if from = ':'; strings.IndexByte(ip, from) < 0 {
			return ""
		}
	}
	n := copy(b[:len(b)-1], ip)
	for i := range b[:n] {
		if b[i] == from {
			b[i] = '-'
		}
	}
	if from == ':' && b[n-1] == '-' {
		b[n] = '0'
		n++
	}
	return unsafe.String(&b[0], n)
}

// host returns the number of a target's host, or -1 if there are too many or its name has more than one label.
func (f *found) host(hostname, ip string) int32 {
	if f.nHosts == maxHosts || strings.IndexByte(hostname, '.') >= 0 {
		return -1
	}
	if hostname == "" {
		if hostname = dashed(&f.dashed[f.nHosts], ip); hostname == "" {
			return -1
		}
	}
	for i := range f.hosts[:f.nHosts] {
		if f.hosts[i].Key == hostname {
			return int32(i) //nolint:gosec // below maxHosts
		}
	}
	f.hosts[f.nHosts] = index.Host{Key: hostname}
	f.nHosts++
	return int32(f.nHosts - 1) //nolint:gosec // below maxHosts
}

// add adds an address of a port. It returns false if the chain has to answer.
func (f *found) add(t qtype, host int32, ip string, port int32) bool {
	switch t {
	case typeA, typeAAAA:
		return f.address(0, ip, t == typeA, t == typeAAAA)
	case typeSRV:
		if f.nPairs == maxPairs {
			return false
		}
		f.pairs[f.nPairs] = pair{host, port, ip}
		f.nPairs++
	}
	return true
}

// address adds an address of a family wanted unless it is among those from index from on. It returns false for text that isn't an address,
// and if an address has two spellings, which the plugin kubernetes takes for two addresses.
func (f *found) address(from int, ip string, v4, v6 bool) bool {
	addr, err := netip.ParseAddr(ip)
	if err != nil || addr.Zone() != "" {
		return false
	}
	addr = addr.Unmap()
	if addr.Is4() && !v4 || !addr.Is4() && !v6 {
		return true
	}
	for i, other := range f.addrs[from:f.nAddrs] {
		if other == addr {
			return f.texts[from+i] == ip
		}
	}
	if f.nAddrs == len(f.addrs) {
		return false
	}
	f.addrs[f.nAddrs], f.texts[f.nAddrs] = addr, ip
	f.nAddrs++
	return true
}

// srv sets the targets of SRV records, those of a host next to each other. The weights are shared by all pairs.
func (f *found) srv(l *index.Lookup) bool {
	f.targets.Reset()
	f.set = index.Set{Headless: true, Hosts: f.hosts[:f.nHosts]}
	l.Set, l.Shares = &f.set, f.nPairs
	for host := int32(index.ServiceItself); host < int32(f.nHosts); host++ { //nolint:gosec // at most maxHosts
		addrs := f.nAddrs
		first := f.targets.Len()
		for i := range f.pairs[:f.nPairs] {
			p := &f.pairs[i]
			if p.host != host || p.port == noPort {
				continue
			}
			f.targets.AddNew(first, index.Target{Host: host, Port: uint16(p.port)}) //nolint:gosec // a port
			if !f.address(addrs, p.ip, true, true) {
				return false
			}
		}
		own := f.addrs[addrs:f.nAddrs]
		if host == index.ServiceItself {
			f.set.Addrs = own
		} else {
			f.hosts[host].Addrs = own
		}
	}
	l.Targets = f.targets.Targets()
	return true
}
