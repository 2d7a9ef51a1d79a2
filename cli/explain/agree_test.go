package explain_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/cli/explain"
	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/manifests"
	"github.com/clusterset/clusterset/internal/topology"
)

// agreement compares the results of explain and preview for the services of some objects.
type agreement struct {
	testing.TB
	name    string
	located []manifests.Located

	names, vips int // how many of each were compared
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

// compare compares them for one place.
func (a *agreement) compare(from topology.Location, policy topology.Policy) {
	a.Helper()
	var objects []runtime.Object
	for _, l := range a.located {
		objects = append(objects, l.Source)
	}
	for _, key := range a.services() {
		said := preview.Imported(objects, types.NamespacedName{Namespace: key.Namespace(), Name: key.Name()}, place.Place(from), preview.Options{Policy: policy})
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
			if marked := markedAsAnswered(e); !vip && !slices.Equal(marked, e.Addresses) {
				a.Errorf("%s: the answer is %v, and the endpoints that are said to be in it are %v", where, e.Addresses, marked)
			}
			if answer.ByClusterSetIP || e.Result != explain.Answer {
				a.proxied(where, e, said)
				continue
			}
			if !slices.Equal(e.Addresses, texts(answer.Addrs)) || e.Tier != answer.Tier || e.Degraded != answer.Degraded {
				a.Errorf("%s: explain has %v, %s, degraded %v; preview %v, %s, degraded %v", where, e.Addresses, e.Tier, e.Degraded, answer.Addrs, answer.Tier, answer.Degraded)
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
	want := slices.Sorted(slices.Values(texts(said.ClusterSetIP.Addrs)))
	if !slices.Equal(used, want) {
		a.Errorf("%s: behind the ClusterSetIP explain has %v in use, preview %v", where, used, want)
	}
}

// markedAsAnswered returns the addresses of the endpoints that an explanation reports as answered, in the order of an answer.
func markedAsAnswered(e *explain.Explanation) []string {
	var addrs []netip.Addr
	for i := range e.Endpoints {
		if e.Endpoints[i].Answered {
			addrs = append(addrs, netip.MustParseAddr(e.Endpoints[i].Address))
		}
	}
	return texts(index.SortAddrs(addrs))
}

func texts(addrs index.Addrs) (all []string) {
	for _, a := range addrs {
		all = append(all, a.String())
	}
	return all
}

// For the golden corpus, explain and preview agree, from every place and with every policy in the corpus.
func TestExplainAndPreviewAgree(t *testing.T) {
	cases := readCorpus(t)
	places := map[string]*stanza{}
	for _, c := range cases {
		for _, s := range c.stanzas {
			places[fmt.Sprint(s.from, s.policy)] = s
		}
	}
	names := 0
	for _, c := range cases {
		a := &agreement{TB: t, name: c.name, located: c.located}
		for _, s := range places {
			a.compare(s.from, s.policy)
		}
		names += a.names
	}
	if names < 1000 {
		t.Errorf("only %d names were compared: does this test still read the corpus?", names)
	}
}

// They also agree about what the importers of a hub's members write, with its ClusterSetIPs.
func TestExplainAndPreviewAgreeAboutAHub(t *testing.T) {
	vips := 0
	for _, path := range []string{"../console/testdata/hub.yaml", "../console/testdata/communities.yaml", "../../examples/preview"} {
		objects, _, err := manifests.Objects(path, connect.NewScheme())
		if err != nil {
			t.Fatal(err)
		}
		state := preview.NewState(objects)
		for _, p := range state.Places() {
			for _, key := range state.Services() {
				a := &agreement{TB: t, name: path}
				for _, o := range state.Objects(key, p.Cluster, preview.Options{}) {
					if object, _, _ := index.Convert(o); object != nil {
						a.located = append(a.located, manifests.Located{Object: object, Source: o})
					}
				}
				a.compare(topology.Location(p), topology.Policy{})
				vips += a.vips
			}
		}
	}
	if vips < 20 {
		t.Errorf("only %d ClusterSetIPs were compared", vips)
	}
}
