package explain_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/cli/explain"
	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/manifests"
	"github.com/clusterset/clusterset/internal/topology"
)

// agreement compares the results of explain, status and preview for the services of some objects.
type agreement struct {
	testing.TB
	name    string
	located []manifests.Located
	objects []runtime.Object
	local   view.LocalFacts

	names, vips, lastResorts int // how many of each were compared
}

func newAgreement(t testing.TB, name string, located []manifests.Located) *agreement {
	a := &agreement{TB: t, name: name, located: located}
	for _, l := range located {
		a.objects = append(a.objects, l.Source)
		switch o := l.Source.(type) {
		case *clustersetv1alpha1.MemberCluster:
			a.local.Members = append(a.local.Members, *o)
		case *mcsv1beta1.ServiceImport:
			a.local.Imports = append(a.local.Imports, *o)
		case *fabedgev1alpha1.GlobalService:
			a.local.Globals = append(a.local.Globals, *o)
		case *discoveryv1.EndpointSlice:
			a.local.Slices = append(a.local.Slices, *o)
		}
	}
	return a
}

// services returns the services that a DNS server would have.
func (a *agreement) services() []index.ServiceKey {
	x := index.New(index.Options{})
	for _, l := range a.located {
		x.Put(l.Object)
	}
	x.Publish()
	var keys []index.ServiceKey
	for _, svc := range x.Snapshot().Services() {
		keys = append(keys, svc.Key())
	}
	return keys
}

// agreedZones are the zones of the compared names, by dialect.
var agreedZones = map[index.Dialect]string{index.MCS: explain.DefaultZone, index.Global: "global"}

// explained compares explain with preview, for one place.
func (a *agreement) explained(from topology.Location, policy topology.Policy) {
	a.Helper()
	for _, key := range a.services() {
		said, err := preview.Imported(a.objects, key.Namespace()+"/"+key.Name(), place.Place(from), preview.Options{Policy: policy, Addresses: true})
		if err != nil {
			a.Fatalf("%s: %s: %v", a.name, key, err)
		}
		for dialect, answer := range map[index.Dialect]*preview.Answer{index.MCS: &said.DNS, index.Global: &said.Global} {
			e, err := explain.Explain(explain.Query{Name: explain.Name{Key: key, Dialect: dialect, Zone: agreedZones[dialect]}, From: from, Policy: policy}, *explain.FromManifests(a.located, nil))
			if err != nil {
				a.Fatalf("%s: %s: %v", a.name, key, err)
			}
			a.names++
			where := fmt.Sprintf("%s: %s in the dialect %s from %s", a.name, key, dialect, from)
			if string(e.Result) != string(answer.Result) {
				a.Errorf("%s: explain has %s, preview %s", where, e.Result, answer.Result)
			}
			vip := e.Result == explain.Answer && e.Tier == ""
			if vip != answer.ByClusterSetIP {
				a.Errorf("%s: by explain it has ClusterSetIPs: %v, by preview: %v", where, vip, answer.ByClusterSetIP)
			}
			if marked := saidToBeAnswered(e); !vip && !slices.Equal(marked, e.Addresses) {
				a.Errorf("%s: the answer is %v, and the endpoints that are said to be in it are %v", where, e.Addresses, marked)
			}
			if answer.ByClusterSetIP || e.Result != explain.Answer {
				a.proxied(where, e, said)
				continue
			}
			if !slices.Equal(e.Addresses, answer.Addresses) || e.Tier != answer.Tier || e.Degraded != answer.Degraded {
				a.Errorf("%s: explain has %v, %s, degraded %v; preview %v, %s, degraded %v", where, e.Addresses, e.Tier, e.Degraded, answer.Addresses, answer.Tier, answer.Degraded)
			}
		}
	}
}

// proxied compares the endpoints that kube-proxy uses in the zone according to explain with preview's.
func (a *agreement) proxied(where string, e *explain.Explanation, said *preview.Answers) {
	a.Helper()
	if said.ClusterSetIP == nil || e.Dialect != index.MCS || !said.DNS.ByClusterSetIP {
		return
	}
	a.vips++
	var used []string
	for _, endpoint := range e.Endpoints {
		if endpoint.Used && !strings.HasPrefix(endpoint.Reason, "its cluster's ClusterIP") {
			used = append(used, endpoint.Address)
		}
	}
	slices.Sort(used)
	want := slices.Sorted(slices.Values(said.ClusterSetIP.Addresses))
	if !slices.Equal(used, want) {
		a.Errorf("%s: behind the ClusterSetIP explain has %v in use, preview %v", where, used, want)
	}
}

// atLastResort compares status with preview, in a cluster whose nodes are in zones: both must find the same services at their last
// resort.
func (a *agreement) atLastResort(cluster string, zones ...string) {
	a.Helper()
	a.local.Cluster = cluster
	at := map[string]bool{}
	for _, p := range view.LastResort(&a.local) {
		if p.Reason == "LastResort" {
			at[p.Namespace+"/"+p.Name] = true
		}
	}
	f := explain.FromManifests(a.located, nil)
	here := place.Place(f.Locate(cluster))
	for _, key := range a.services() {
		service := key.Namespace() + "/" + key.Name()
		degraded := false
		for i, zone := range append([]string{here.Zone}, zones...) {
			p := here
			p.Zone = zone
			said, err := preview.Imported(a.objects, service, p, preview.Options{})
			if err != nil {
				a.Fatal(err)
			}
			degraded = degraded || i == 0 && (said.DNS.Degraded || said.Global.Degraded)
			if said.ClusterSetIP != nil && (len(zones) == 0 || i > 0) {
				degraded = degraded || said.ClusterSetIP.Degraded
			}
		}
		if degraded {
			a.lastResorts++
		}
		if degraded != at[service] {
			a.Errorf("%s: %s, seen from %s: at the last resort by status: %v, by preview: %v", a.name, service, here, at[service], degraded)
		}
	}
}

// saidToBeAnswered returns the addresses of the endpoints that an explanation reports as answered, in the order of an answer.
func saidToBeAnswered(e *explain.Explanation) (texts []string) {
	var addrs []netip.Addr
	for i := range e.Endpoints {
		if e.Endpoints[i].Answered {
			addrs = append(addrs, netip.MustParseAddr(e.Endpoints[i].Address))
		}
	}
	for _, a := range index.SortAddrs(addrs) {
		texts = append(texts, a.String())
	}
	return texts
}

// For the golden corpus, explain, status and preview agree, from every place and with every policy in the corpus.
func TestExplainStatusAndPreviewAgree(t *testing.T) {
	cases := readCorpus(t)
	places := map[string]*stanza{}
	for _, c := range cases {
		for _, s := range c.stanzas {
			places[fmt.Sprint(s.from, s.policy)] = s
		}
	}
	names, lastResorts := 0, 0
	for _, c := range cases {
		a := newAgreement(t, c.name, c.located)
		for _, s := range places {
			a.explained(s.from, s.policy)
		}
		a.atLastResort("")
		for _, m := range a.local.Members {
			a.atLastResort(strings.ToLower(m.Name))
		}
		names, lastResorts = names+a.names, lastResorts+a.lastResorts
	}
	if names < 1000 || lastResorts < 3 {
		t.Errorf("only %d names and %d at their last resort were compared: does this test still read the corpus?", names, lastResorts)
	}
	t.Logf("%d names compared from %d places, %d at their last resort", names, len(places), lastResorts)
}

// They also agree about what the importers of a hub's members write, with its ClusterSetIPs.
func TestExplainStatusAndPreviewAgreeAboutAHub(t *testing.T) {
	vips, lastResorts := 0, 0
	for _, path := range []string{"../console/testdata/hub.yaml", "../console/testdata/communities.yaml", "../../examples/preview"} {
		objects, _, err := manifests.Objects(path, connect.NewScheme())
		if err != nil {
			t.Fatal(err)
		}
		state := preview.NewState(objects)
		for _, p := range state.Places() {
			for _, key := range state.Services() {
				var located []manifests.Located
				for _, o := range state.Objects(key, p.Cluster, preview.Options{}) {
					if object, _, _ := index.Convert(o); object != nil {
						located = append(located, manifests.Located{Object: object, Source: o})
					}
				}
				a := newAgreement(t, path, located)
				a.explained(topology.Location(p), topology.Policy{})
				i := slices.IndexFunc(a.local.Members, func(m clustersetv1alpha1.MemberCluster) bool { return m.Name == p.Cluster })
				a.atLastResort(p.Cluster, a.local.Members[i].Status.Zones...)
				vips, lastResorts = vips+a.vips, lastResorts+a.lastResorts
			}
		}
	}
	if vips < 20 || lastResorts < 2 {
		t.Errorf("only %d ClusterSetIPs and %d at their last resort were compared", vips, lastResorts)
	}
}
