package desired_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/test/rank"
	"github.com/clusterset/clusterset/test/records"
)

// site is a cluster, and pod is one of its endpoints.
type site struct {
	name, region, phase string
	zones               []string
	drain, cut          bool // cut: it can't be reached
	share               int  // per cent
	pods                []pod
}

type pod struct {
	address, zone string
	ready         bool
}

// state is a service of several clusters, as seen from the first.
type state struct {
	sites      []site
	nodes      []topology.Location
	prefer     []string // "none" is a single word
	boundary   string
	minReady   int
	byService  bool // the service states the policy; otherwise it is the default
	ipv6, mess bool // mess: if the service states a complete policy, the default is a different one
	labels     bool // something reads no hints
}

// TestNameAndAddressLeadToTheSame uses random states. For each zone of a cluster's nodes, it compares the endpoints in a DNS answer,
// those that kube-proxy chooses from, and those that the rules require.
func TestNameAndAddressLeadToTheSame(t *testing.T) {
	const states = 500
	compared, lastResorts, narrowed := 0, 0, 0
	for seed := range uint64(states) {
		s := randomState(rand.New(rand.NewPCG(seed, 12)))
		in := s.input(t)
		vip := in.Compute()
		for _, e := range in.Services {
			e.Spec.Type, e.Spec.ClusterIPs = mcsv1beta1.Headless, nil
		}
		headless := in.Compute()
		somewhere := s.withinSomewhere()
		for _, n := range s.places() {
			name, address := s.rule(n.Zone, false), s.rule(n.Zone, true)
			if got := s.answered(t, headless, n); !slices.Equal(got, name) {
				t.Errorf("seed %d: in zone %q the name has %v, the rule says %v\n%+v", seed, n.Zone, got, name, s)
			}
			if s.labels {
				if got, want := chosenByKubeProxy(vip.Slices, ""), s.ruleAnywhere(); !slices.Equal(got, want) {
					t.Errorf("seed %d: without hints the address leads to %v, the rule says %v\n%+v", seed, got, want, s)
				}
				continue
			}
			got := chosenByKubeProxy(vip.Slices, n.Zone)
			switch {
			case len(address) == 0 && s.boundary == "zone":
				// If a zone has no endpoint within its boundary, kube-proxy may use those within the boundary of another zone
				// (docs/kube-proxy.md).
				if slices.ContainsFunc(got, func(a string) bool { return !somewhere[a] }) {
					t.Errorf("seed %d: in zone %q the address leads to %v, of which only %v are within another zone\n%+v", seed, n.Zone, got, somewhere, s)
				}
			case !slices.Equal(got, address):
				t.Errorf("seed %d: in zone %q the address leads to %v, the rule says %v\n%+v", seed, n.Zone, got, address, s)
			case len(name) > 0 && !slices.Equal(name, address):
				t.Errorf("seed %d: the rule says %v of the name and %v of the address", seed, name, address)
			}
			compared++
			if len(name) == 0 && len(address) > 0 {
				lastResorts++
			}
			if ready := s.ready(); len(name) > 0 && len(name) < ready {
				narrowed++
			}
		}
	}
	t.Logf("%d comparisons; in %d not all endpoints are used, in %d those of Expired clusters are, behind the address alone", compared, narrowed, lastResorts)
	if compared < states || narrowed < states/4 || lastResorts < states/50 {
		t.Error("the states are too much alike")
	}
}

// rule returns the endpoints to use in a zone of the first cluster. It follows only the rules (docs/spec/data-path.md, D3): the
// boundary (A21); health (A22, A24, A80); tiers in order (A25), where each is joined by the next as long as there are too few endpoints
// (A30); and an address, unlike a name, has a last resort (D4).
func (s *state) rule(zone string, isAddress bool) []string {
	here := &s.sites[0]
	healths := []func(*site, bool) bool{
		func(of *site, spare bool) bool {
			return !of.drain && !spare && (of == here || !of.cut && (of.phase == "" || of.phase == "Ready"))
		},
		func(of *site, spare bool) bool {
			last := of.drain || spare
			return last && of == here || of.phase != "Expired" && of != here && (last || of.cut || of.phase == "Suspect")
		},
		func(of *site, _ bool) bool { return isAddress && of != here && of.phase == "Expired" },
	}
	tiers := s.prefer
	switch {
	case tiers == nil:
		tiers = []string{"zone", "region"}
	case tiers[0] == "none":
		tiers = nil
	}
	for _, healthy := range healths {
		var used []string
		for _, tier := range append(slices.Clone(tiers), "any") {
			for i := range s.sites {
				of := &s.sites[i]
				spare := of.spare()
				for _, p := range of.pods {
					if p.ready && healthy(of, spare[netip.MustParseAddr(p.address)]) && s.near(zone, s.boundary, of, p) && s.near(zone, tier, of, p) && !slices.Contains(used, p.address) {
						used = append(used, p.address)
					}
				}
			}
			if len(used) >= max(1, s.minReady) {
				break
			}
		}
		if len(used) > 0 {
			slices.Sort(used)
			return used
		}
	}
	return nil
}

// ruleAnywhere returns the endpoints to use behind an address where nothing tells zones apart (D30): those that any zone would use.
func (s *state) ruleAnywhere() (used []string) {
	for _, n := range s.places() {
		used = append(used, s.rule(n.Zone, true)...)
	}
	slices.Sort(used)
	return slices.Compact(used)
}

// spare returns the site's ready pods beyond its share (A80).
func (of *site) spare() map[netip.Addr]bool {
	var ready []netip.Addr
	for _, p := range of.pods {
		if p.ready {
			ready = append(ready, netip.MustParseAddr(p.address))
		}
	}
	return rank.Spare(of.share, ready)
}

// near reports whether a pod is as near to a zone of the first cluster as the tier requires (A26, A27). An empty tier requires nothing.
func (s *state) near(zone, tier string, of *site, p pod) bool {
	switch tier {
	case "cluster":
		return of == &s.sites[0]
	case "region":
		return of.region != "" && of.region == s.regionHere()
	case "zone":
		zones := of.zones
		if p.zone != "" {
			zones = []string{p.zone}
		}
		namesake := of.region != "" && s.regionHere() != "" && of.region != s.regionHere()
		return zone != "" && slices.Contains(zones, zone) && !namesake
	}
	return true
}

// regionHere returns the region according to D8.
func (s *state) regionHere() string {
	if r := s.sites[0].region; r != "" || len(s.nodes) == 0 || !s.zoned() {
		return r
	}
	return s.nodes[0].Region
}

// zoned reports whether every node has a zone; otherwise kube-proxy ignores hints (D24).
func (s *state) zoned() bool {
	return len(s.nodes) > 0 && !slices.ContainsFunc(s.nodes, func(n topology.Location) bool { return n.Zone == "" })
}

// places returns the locations from which kube-proxies choose, as far as they are known: each node's zone, or the cluster's location.
func (s *state) places() []topology.Location {
	if s.zoned() {
		return s.nodes
	}
	if zones := s.sites[0].zones; len(zones) == 1 {
		return []topology.Location{{Zone: zones[0]}}
	}
	return []topology.Location{{}}
}

// withinSomewhere returns the pods that are within the boundary of one of the places.
func (s *state) withinSomewhere() map[string]bool {
	within := map[string]bool{}
	for _, n := range s.places() {
		for i := range s.sites {
			for _, p := range s.sites[i].pods {
				within[p.address] = within[p.address] || s.near(n.Zone, s.boundary, &s.sites[i], p)
			}
		}
	}
	return within
}

func (s *state) ready() (n int) {
	for _, of := range s.sites {
		for _, p := range of.pods {
			if p.ready {
				n++
			}
		}
	}
	return n
}

// answered returns the addresses that a DNS server at that place answers for the headless service.
func (s *state) answered(t *testing.T, out desired.Output, at topology.Location) (addresses []string) {
	t.Helper()
	x := index.New(index.Options{
		Self: topology.Location{Cluster: s.sites[0].name, Zone: at.Zone, Region: s.regionHere()}, Policy: s.defaults(t), LongestZone: 20,
	})
	imported, errs := index.FromServiceImport(out.ServiceImport)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	objects := []index.Object{imported}
	for _, slice := range out.Slices {
		converted, errs := index.FromEndpointSlice(slice)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		objects = append(objects, converted)
	}
	for i := range s.sites {
		c, errs := index.FromMemberCluster(s.sites[i].member())
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		objects = append(objects, c)
	}
	reach := &index.Reachability{}
	for i := range s.sites {
		if s.sites[i].cut {
			reach.Unreachable = append(reach.Unreachable, s.sites[i].name)
		}
	}
	objects = append(objects, reach)
	x.Put(objects...)
	x.Publish()
	svc := x.Snapshot().Service("web.shop")
	if svc == nil || svc.Set(index.MCS) == nil {
		return nil
	}
	for _, a := range svc.Set(index.MCS).Addrs {
		addresses = append(addresses, a.String())
	}
	slices.Sort(addresses)
	return addresses
}

// chosenByKubeProxy returns the endpoints that a kube-proxy on a node of the zone chooses from, by its own rules (docs/kube-proxy.md).
func chosenByKubeProxy(all []*discoveryv1.EndpointSlice, zone string) []string {
	var ready, hinted []string
	every := true
	for _, s := range all {
		if !records.Routed(s) {
			continue
		}
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			ready = append(ready, e.Addresses[0])
			if e.Hints == nil || len(e.Hints.ForZones) == 0 {
				every = false
			} else if slices.Contains(e.Hints.ForZones, discoveryv1.ForZone{Name: zone}) {
				hinted = append(hinted, e.Addresses[0])
			}
		}
	}
	if every && len(hinted) > 0 {
		ready = hinted
	}
	slices.Sort(ready)
	return ready
}

// input returns the input of the first cluster's importer.
func (s *state) input(t *testing.T) records.Service {
	t.Helper()
	var manifests []string
	for i := range s.sites {
		manifests = append(manifests, records.Exported(s.sites[i].name, "shop", "web", fmt.Sprintf("10.%d.0.1", 100+i), "10.0.0.1"))
	}
	in := records.Input(t, desired.DataPathPods, manifests...)
	in.Cluster, in.Nodes, in.LabelsOnly, in.Policy = s.sites[0].name, s.nodes, s.labels, s.defaults(t)
	in.Unreachable = func(cluster string) bool {
		return slices.ContainsFunc(s.sites, func(of site) bool { return of.name == cluster && of.cut })
	}
	for i := range s.sites {
		of := &s.sites[i]
		in.Members[of.name] = of.member()
		in.Services[i].Spec.Share = ptr.To(int32(of.share)) //nolint:gosec // at most 100
		if s.byService {
			in.Services[i].Spec.Policy = &clustersetv1alpha1.ServicePolicy{
				Prefer: strings.Join(s.prefer, " "), Boundary: s.boundary, MinReady: int32(s.minReady), //nolint:gosec // small
			}
		}
		if s.ipv6 {
			in.Services[i].Spec.ClusterIPs, in.Services[i].Spec.IPFamilies = []string{fmt.Sprintf("fd00:%d::1", 100+i)}, nil
			in.Endpoints[i].Spec.AddressType = discoveryv1.AddressTypeIPv6
		}
		in.Endpoints[i].Spec.Endpoints = nil
		for _, p := range of.pods {
			e := clustersetv1alpha1.Endpoint{Addresses: []string{p.address}, Conditions: discoveryv1.EndpointConditions{Ready: &p.ready}}
			if p.zone != "" {
				e.Zone = &p.zone
			}
			in.Endpoints[i].Spec.Endpoints = append(in.Endpoints[i].Spec.Endpoints, e)
		}
		if in.Endpoints[i].Namespace != api.MemberNamespace(of.name) || in.Services[i].Namespace != api.MemberNamespace(of.name) {
			t.Fatal("the records are in another order")
		}
	}
	return in
}

// defaults returns the policy that the DNS servers and the agent are configured with.
func (s *state) defaults(t *testing.T) topology.Policy {
	t.Helper()
	if s.byService {
		if s.mess && s.prefer != nil && s.boundary != "" && s.minReady > 0 {
			return topology.Policy{Prefer: []topology.Tier{topology.Cluster}, Boundary: topology.Cluster, MinReady: 7}
		}
		return topology.Policy{}
	}
	p := topology.Policy{MinReady: s.minReady}
	var err error
	if s.prefer != nil {
		if p.Prefer, err = topology.ParsePrefer(strings.Join(s.prefer, " ")); err != nil {
			t.Fatal(err)
		}
	}
	if s.boundary != "" {
		if p.Boundary, err = topology.ParseTier(s.boundary); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (of *site) member() *clustersetv1alpha1.MemberCluster {
	m := &clustersetv1alpha1.MemberCluster{}
	m.Name, m.Spec.Zones, m.Spec.Region, m.Spec.Drain = of.name, of.zones, of.region, of.drain
	m.Status.Phase = clustersetv1alpha1.MemberClusterPhase(of.phase)
	return m
}

func randomState(r *rand.Rand) *state {
	oneOf := func(words ...string) string { return words[r.IntN(len(words))] }
	s := &state{byService: r.IntN(2) == 0, ipv6: r.IntN(4) == 0, mess: r.IntN(2) == 0}
	s.prefer = [][]string{nil, nil, {"none"}, {"zone"}, {"region"}, {"cluster"}, {"cluster", "zone", "region"}, {"zone", "region"}, {"region", "zone"}}[r.IntN(9)]
	s.boundary = oneOf("", "", "", "cluster", "zone", "region")
	s.minReady = []int{0, 0, 1, 2, 3, 5}[r.IntN(6)]
	for i := range 1 + r.IntN(5) {
		of := site{
			name: fmt.Sprintf("c%d", i), region: oneOf("north", "north", "south", ""), drain: r.IntN(5) == 0, cut: r.IntN(5) == 0,
			phase: oneOf("", "Ready", "Ready", "Suspect", "Expired", "Expired"), share: []int{100, 100, 100, 0, 34, 67}[r.IntN(6)],
		}
		for range r.IntN(3) {
			if zone := oneOf("z1", "z2", "z3"); !slices.Contains(of.zones, zone) {
				of.zones = append(of.zones, zone)
			}
		}
		for n := range r.IntN(4) {
			p := pod{address: fmt.Sprintf("10.%d.1.%d", i, n+1), ready: r.IntN(4) > 0, zone: oneOf("", "", "z1", "z2", "z3")}
			if s.ipv6 {
				p.address = netip.MustParseAddr(fmt.Sprintf("fd00:%x::%x", i+1, n+1)).String()
			}
			of.pods = append(of.pods, p)
		}
		s.sites = append(s.sites, of)
	}
	region := oneOf("north", "south", "")
	for _, zone := range []string{"", "z1", "z2", "z3"} {
		if r.IntN(3) > 0 && (zone != "" || r.IntN(4) == 0) {
			s.nodes = append(s.nodes, topology.Location{Zone: zone, Region: region})
		}
	}
	s.labels = r.IntN(4) == 0
	return s
}
