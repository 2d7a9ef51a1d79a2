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
// covers A3 to A46 and A80, except A8, A36 and A41, and what A18, A38 and A39 say of names with a zone.

// world has all objects, and the location of the server.
type world struct {
	opts    Options
	objects [kinds]map[ObjectID]Object
}

func newWorld(opts Options) *world {
	w := &world{opts: opts}
	for _, kind := range Kinds {
		w.objects[kind] = map[ObjectID]Object{}
	}
	return w
}

func (w *world) put(o Object) { w.objects[o.Kind()][o.ID()] = o }

func (w *world) remove(kind Kind, id ObjectID) { delete(w.objects[kind], id) }

func (w *world) serviceImport(id ObjectID) *ServiceImport {
	o, _ := w.objects[KindServiceImport][id].(*ServiceImport)
	return o
}

func (w *world) globalService(id ObjectID) *GlobalService {
	o, _ := w.objects[KindGlobalService][id].(*GlobalService)
	return o
}

// slicesOf returns a service's EndpointSlices, in order.
func (w *world) slicesOf(id ObjectID) (all []*EndpointSlice) {
	for _, at := range w.ids(KindEndpointSlice) {
		if o := w.objects[KindEndpointSlice][at].(*EndpointSlice); o.Service == NewServiceKey(id.Namespace, id.Name) {
			all = append(all, o)
		}
	}
	return all
}

// ids lists the objects of a kind in order, including those of namespaces that aren't served.
func (w *world) ids(kind Kind) []ObjectID {
	ids := slices.Collect(maps.Keys(w.objects[kind]))
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
	imp, global := w.serviceImport(id), w.globalService(id)
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
	for _, o := range w.slicesOf(id) {
		groups = append(groups, o.Group)
	}
	return groups
}

// global returns the service for names below svc.global (A3).
func (w *world) global(id ObjectID) facts {
	if g := w.globalService(id); g != nil && w.serves(id.Namespace) {
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
	for _, o := range w.slicesOf(id) {
		names = append(names, fmt.Sprintf("%+v", o))
	}
	slices.Sort(names)
	return fmt.Sprintf("\nfrom %+v %v %+v", w.serviceImport(id), names, w.globalService(id))
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
