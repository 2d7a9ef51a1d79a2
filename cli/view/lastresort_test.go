package view

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// slice returns an EndpointSlice with endpoints given as "address zone,zone". The prefix "-" marks one that isn't ready. An
// endpoint without zones has no hints.
func slice(service, cluster, port string, endpoints ...string) discoveryv1.EndpointSlice {
	s := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "imported-" + cluster + "-" + service + "-" + port, Labels: map[string]string{
			api.LabelServiceName: service, api.LabelSourceCluster: cluster,
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &port, Port: ptr.To[int32](80), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	for _, text := range endpoints {
		address, zones, _ := strings.Cut(text, " ")
		address, unready := strings.CutPrefix(address, "-")
		e := discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(!unready)}}
		for zone := range strings.FieldsFuncSeq(zones, func(r rune) bool { return r == ',' }) {
			if e.Hints == nil {
				e.Hints = &discoveryv1.EndpointHints{}
			}
			e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: zone})
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

// routed returns a slice that kube-proxy reads.
func routed(service, cluster, port string, endpoints ...string) discoveryv1.EndpointSlice {
	s := slice(service, cluster, port, endpoints...)
	s.Labels[api.LabelKubernetesServiceName] = api.DerivedServiceName("shop", service)
	return s
}

// clusterIP returns a slice with a cluster's ClusterIP (--data-path=clusterips).
func clusterIP(service, cluster, port string, endpoints ...string) discoveryv1.EndpointSlice {
	s := routed(service, cluster, port, endpoints...)
	delete(s.Labels, api.LabelServiceName)
	return s
}

func imported(name string, kind mcsv1beta1.ServiceImportType) mcsv1beta1.ServiceImport {
	o := mcsv1beta1.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{api.LabelManagedBy: api.ManagedByImporter}},
		Spec:       mcsv1beta1.ServiceImportSpec{Type: kind},
	}
	if kind == mcsv1beta1.ClusterSetIP {
		o.Spec.IPs = []string{"10.96.40.7"}
	}
	return o
}

func global(name string, clusters ...string) fabedgev1alpha1.GlobalService {
	o := fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: fabedgev1alpha1.GlobalServiceSpec{Type: fabedgev1alpha1.ClusterIP}}
	for i, c := range clusters {
		o.Spec.Endpoints = append(o.Spec.Endpoints, fabedgev1alpha1.Endpoint{Cluster: c, Addresses: []string{"10.9.0." + string(rune('1'+i))}})
	}
	return o
}

// Of the clusters in members(), beijing, which is the local cluster, and thief are Ready, shanghai is Suspect, frankfurt is
// drained, and edge-7 is Expired.
func TestLastResort(t *testing.T) {
	const vip = "ServiceImport LastResort behind its ClusterSetIP"
	behindIt := func(all ...discoveryv1.EndpointSlice) []discoveryv1.EndpointSlice { return all }
	named := func(all ...fabedgev1alpha1.GlobalService) []fabedgev1alpha1.GlobalService { return all }
	for name, c := range map[string]struct {
		slices  []discoveryv1.EndpointSlice
		globals []fabedgev1alpha1.GlobalService
		want    string
	}{
		"a healthy one is left":                     {behindIt(routed("web", "thief", "http", "10.1.0.1 a"), routed("web", "shanghai", "http", "10.2.0.1 none.clusterset.dev")), nil, ""},
		"the healthy one isn't ready":               {behindIt(routed("web", "thief", "http", "-10.1.0.1 a"), routed("web", "shanghai", "http", "10.2.0.1 a")), nil, vip + " only Suspect shanghai is left"},
		"the own cluster is never silent to itself": {behindIt(routed("web", "beijing", "http", "10.1.0.1")), nil, ""},
		"several": {behindIt(routed("web", "shanghai", "http", "10.2.0.1"), routed("web", "frankfurt", "http", "10.3.0.1")), nil, vip + " only drained frankfurt, Suspect shanghai are left"},
		"Expired ones, which no other is left of": {behindIt(routed("web", "edge-7", "http", "10.2.0.1")), nil, vip + " only Expired edge-7 is left"},
		"nothing is ready":                        {behindIt(routed("web", "shanghai", "http", "-10.2.0.1")), nil, ""},
		"one zone":                                {behindIt(routed("web", "thief", "http", "10.1.0.1 a"), routed("web", "shanghai", "http", "10.2.0.1 b")), nil, vip + ", zone b only Suspect shanghai is left"},
		"hints that don't count":                  {behindIt(routed("web", "thief", "http", "10.1.0.1"), routed("web", "shanghai", "http", "10.2.0.1 b")), nil, ""},
		"one port":                                {behindIt(routed("web", "thief", "http", "10.1.0.1"), routed("web", "shanghai", "metrics", "10.2.0.1")), nil, vip + ", port metrics only Suspect shanghai is left"},
		"ClusterIPs":                              {behindIt(slice("web", "shanghai", "http", "10.2.0.1"), clusterIP("web", "shanghai", "http", "10.9.0.1"), slice("web", "thief", "http", "10.2.0.1")), nil, vip + " only Suspect shanghai is left"},
		"a headless name":                         {behindIt(slice("db", "shanghai", "pg", "10.2.0.1"), slice("db", "edge-7", "pg", "10.4.0.1")), nil, "ServiceImport LastResort its name leads only to Suspect shanghai"},
		"a headless name with a healthy cluster":  {behindIt(slice("db", "shanghai", "pg", "10.2.0.1"), slice("db", "thief", "pg", "10.1.0.1")), nil, ""},
		"a headless name that is gone":            {behindIt(slice("db", "edge-7", "pg", "10.4.0.1")), nil, "ServiceImport Expired its name has no address: ready endpoints are only in Expired edge-7"},
		"a GlobalService alone":                   {nil, named(global("api", "frankfurt", "edge-7")), "GlobalService LastResort its name leads only to drained frankfurt"},
		"its ClusterSetIP is, and so its GlobalService": {
			behindIt(routed("web", "shanghai", "http", "10.2.0.1")), named(global("web", "shanghai")), vip + " only Suspect shanghai is left",
		},
	} {
		l := &LocalFacts{Cluster: "beijing", Members: members(), Slices: c.slices, Globals: c.globals}
		for _, s := range c.slices {
			if s.Labels[api.LabelServiceName] == "db" {
				l.Imports = []mcsv1beta1.ServiceImport{imported("db", mcsv1beta1.Headless)}
			} else {
				l.Imports = []mcsv1beta1.ServiceImport{imported("web", mcsv1beta1.ClusterSetIP)}
			}
		}
		l.Members[1].Status.Phase = clustersetv1alpha1.MemberSuspect // beijing
		var got []string
		for _, p := range LastResort(l) {
			got = append(got, p.What+" "+p.Reason+" "+p.Message)
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), c.want)
		}
	}
}

// If many clusters are left, the message doesn't name them all.
func TestLastResortIsShort(t *testing.T) {
	l := &LocalFacts{Cluster: "here", Imports: []mcsv1beta1.ServiceImport{imported("web", mcsv1beta1.ClusterSetIP)}}
	names := map[string]bool{}
	for i := range 26 {
		name := string(rune('a'+i)) + strings.Repeat("x", 62)
		names[name] = true
		l.Members = append(l.Members, member(name, "", clustersetv1alpha1.MemberSuspect, nil))
		l.Slices = append(l.Slices, routed("web", name, "http", "10.1.0.1"))
	}
	all := LastResort(l)
	first := slices.Sorted(maps.Keys(names))[0]
	if len(all) != 1 || !strings.Contains(all[0].Message, "Suspect "+first) || !strings.Contains(all[0].Message, " and 23 more are left") {
		t.Errorf("got %+v", all)
	}
}

func TestLastResortThatCannotBeTold(t *testing.T) {
	l := local(members()...)
	l.RoutesErr = errors.New("the cluster at c refuses: endpointslices is forbidden")
	r := Build(Facts{Now: now, Local: l, Notes: []string{"first"}})
	if len(r.Notes) != 2 || !strings.Contains(r.Notes[1], "at their last resort: the cluster at c refuses") {
		t.Errorf("notes %q", r.Notes)
	}
}
