package index

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The oracle computes the right answer for every service. It was written from docs/spec/answers.md, and its comments cite the rules. It
// shares no code with rank.go, topology or names.go, and goes through all objects for every question, which is slow but simple. It
// covers A3 to A46, except A8, A36 and A41, and what A18, A38 and A39 say of names with a zone.

// world has all objects, and the location of the server.
type world struct {
	opts     Options
	imports  map[ObjectID]*ServiceImport
	slices   map[ObjectID]*EndpointSlice
	globals  map[ObjectID]*GlobalService
	clusters map[ObjectID]*Cluster
	reach    map[ObjectID]*Reachability
}

func newWorld(opts Options) *world {
	return &world{
		opts:    opts,
		imports: map[ObjectID]*ServiceImport{}, slices: map[ObjectID]*EndpointSlice{},
		globals: map[ObjectID]*GlobalService{}, clusters: map[ObjectID]*Cluster{}, reach: map[ObjectID]*Reachability{},
	}
}

func (w *world) put(o Object) {
	switch o := o.(type) {
	case *ServiceImport:
		w.imports[o.ID()] = o
	case *EndpointSlice:
		w.slices[o.ID()] = o
	case *GlobalService:
		w.globals[o.ID()] = o
	case *Cluster:
		w.clusters[o.ID()] = o
	case *Reachability:
		w.reach[o.ID()] = o
	}
}

func (w *world) remove(kind Kind, id ObjectID) {
	switch kind {
	case KindServiceImport:
		delete(w.imports, id)
	case KindEndpointSlice:
		delete(w.slices, id)
	case KindGlobalService:
		delete(w.globals, id)
	case KindMemberCluster:
		delete(w.clusters, id)
	case KindReachability:
		delete(w.reach, id)
	}
}

// ids lists the objects of a kind in order, including those of namespaces that aren't served.
func (w *world) ids(kind Kind) []ObjectID {
	var ids []ObjectID
	switch kind {
	case KindServiceImport:
		ids = slices.Collect(maps.Keys(w.imports))
	case KindEndpointSlice:
		ids = slices.Collect(maps.Keys(w.slices))
	case KindGlobalService:
		ids = slices.Collect(maps.Keys(w.globals))
	case KindMemberCluster:
		ids = slices.Collect(maps.Keys(w.clusters))
	case KindReachability:
		ids = slices.Collect(maps.Keys(w.reach))
	}
	slices.SortFunc(ids, func(a, b ObjectID) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return ids
}

func (w *world) serves(namespace string) bool {
	return w.opts.Namespaces == nil || slices.Contains(w.opts.Namespaces, namespace)
}

func (w *world) count(kind Kind) (n int64) {
	for _, id := range w.ids(kind) {
		if kind == KindMemberCluster || kind == KindReachability || w.serves(id.Namespace) {
			n++
		}
	}
	return n
}

func (w *world) hasNamespace(ns string) bool {
	has := func(id ObjectID) bool { return id.Namespace == ns }
	return w.serves(ns) && (slices.ContainsFunc(w.ids(KindServiceImport), has) || slices.ContainsFunc(w.ids(KindGlobalService), has))
}

// facts describe one service under one dialect.
type facts struct {
	exists, vip, headless, live bool
	tier                        string // if there are addresses: cluster, zone, region or any, with "degraded " in front if so
	addrs                       []string
	hosts, clusters             map[string][]string // the addresses of each
	ports                       map[string][]string // targets, for example of http/tcp: "<host>:80", or "*:80" for the service's own name
	union                       []string
	zones                       map[string]string // addresses and SRV targets at names with a zone; not part of String
}

// mcs returns the service for names below clusterset.local (A3, A4, A20).
func (w *world) mcs(id ObjectID) facts {
	imp, global := w.imports[id], w.globals[id]
	switch {
	case !w.serves(id.Namespace):
		return facts{}
	case imp == nil && global == nil:
		return facts{}
	case imp == nil, !imp.Headless && len(imp.IPs) == 0 && global != nil:
		return w.ranked(id, global.Policy, global.Headless, global.Ports, global.Groups, true)
	case imp.Headless:
		return w.ranked(id, imp.Policy, true, imp.Ports, w.groupsOf(id), false)
	case len(imp.IPs) == 0 && !imp.FromImporter:
		return w.ranked(id, imp.Policy, false, imp.Ports, w.groupsOf(id), false)
	default:
		f := facts{exists: true, vip: true, addrs: addrTexts(imp.IPs), live: true, ports: map[string][]string{}}
		f.setPorts(imp.Ports)
		return f
	}
}

func (w *world) groupsOf(id ObjectID) (groups []Group) {
	for _, at := range w.ids(KindEndpointSlice) {
		if w.slices[at].Service == NewServiceKey(id.Namespace, id.Name) {
			groups = append(groups, w.slices[at].Group)
		}
	}
	return groups
}

// global returns the service for names below svc.global (A3).
func (w *world) global(id ObjectID) facts {
	if g := w.globals[id]; g != nil && w.serves(id.Namespace) {
		f := w.ranked(id, g.Policy, g.Headless, g.Ports, g.Groups, true)
		if !g.Headless && slices.ContainsFunc(g.Groups, func(o Group) bool { return !slices.Equal(o.Ports, g.Ports) }) {
			w.setClusterPorts(&f, id, g)
		}
		return f
	}
	return w.mcs(id)
}

// inputsText names a service's objects.
func (w *world) inputsText(id ObjectID) string {
	names := []string{}
	for _, at := range w.ids(KindEndpointSlice) {
		if o := w.slices[at]; o.Service == NewServiceKey(id.Namespace, id.Name) {
			names = append(names, fmt.Sprintf("%+v", o))
		}
	}
	slices.Sort(names)
	return fmt.Sprintf("\nfrom %+v %v %+v", w.imports[id], names, w.globals[id])
}

func (f facts) String() string {
	if !f.exists {
		return "no service"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "vip=%v headless=%v live=%v tier=%q addrs=%v union=%v", f.vip, f.headless, f.live, f.tier, f.addrs, f.union)
	for _, m := range []struct {
		name   string
		values map[string][]string
	}{{"host", f.hosts}, {"cluster", f.clusters}, {"port", f.ports}} {
		for _, key := range slices.Sorted(maps.Keys(m.values)) {
			fmt.Fprintf(&b, "\n    %s %s=%v", m.name, key, m.values[key])
		}
	}
	return b.String()
}

// seen describes the facts that queries can observe in a zone of that dialect (A7, A11, A46). It changes the maps in f.
func (f facts) seen(global bool) string {
	if !f.exists || f.headless && !f.live {
		return "NXDOMAIN"
	}
	f.tier, f.live, f.vip = "", true, false
	if len(f.addrs) == 0 && !f.headless {
		itself := func(target string) bool { return strings.HasPrefix(target, "*") }
		f.union = slices.DeleteFunc(slices.Clone(f.union), itself) // SRV without an address for its target is NODATA
		for p := range f.ports {
			f.ports[p] = slices.DeleteFunc(slices.Clone(f.ports[p]), itself)
		}
	}
	if !global {
		for c := range f.clusters {
			f.clusters[c] = nil // an empty non-terminal above the hosts
		}
		if !f.headless {
			f.clusters = nil
		}
	}
	return f.String()
}
