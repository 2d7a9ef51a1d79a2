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
)

// slice returns an EndpointSlice. The prefix "-" of an address marks an endpoint that isn't ready.
func slice(service, cluster, port string, addresses ...string) discoveryv1.EndpointSlice {
	s := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "imported-" + cluster + "-" + service + "-" + port, Labels: map[string]string{
			api.LabelServiceName: service, api.LabelSourceCluster: cluster,
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &port, Port: ptr.To[int32](80), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	for _, text := range addresses {
		address, unready := strings.CutPrefix(text, "-")
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(!unready)}})
	}
	return s
}

// routed returns a slice that kube-proxy reads.
func routed(service, cluster, port string, endpoints ...string) discoveryv1.EndpointSlice {
	s := slice(service, cluster, port, endpoints...)
	s.Labels[api.LabelKubernetesServiceName] = api.DerivedServiceName("shop", service)
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

// Of the clusters in members(), beijing, which is the local cluster, and thief are Ready, shanghai is Suspect, frankfurt is
// drained, and edge-7 is Expired.
func TestLastResort(t *testing.T) {
	const last = "ServiceImport LastResort ready endpoints are only in "
	for name, c := range map[string]struct {
		slices []discoveryv1.EndpointSlice
		want   string
	}{
		"a healthy one is left":                     {all(routed("web", "thief", "http", "10.1.0.1"), routed("web", "shanghai", "http", "10.2.0.1")), ""},
		"the healthy one isn't ready":               {all(routed("web", "thief", "http", "-10.1.0.1"), routed("web", "shanghai", "http", "10.2.0.1")), last + "Suspect shanghai"},
		"the own cluster is never silent to itself": {all(routed("web", "beijing", "http", "10.1.0.1")), ""},
		"several":                                {all(routed("web", "shanghai", "http", "10.2.0.1"), routed("web", "frankfurt", "http", "10.3.0.1")), last + "drained frankfurt, Suspect shanghai"},
		"Expired ones of a ClusterSetIP":         {all(routed("web", "edge-7", "http", "10.2.0.1")), last + "Expired edge-7"},
		"nothing is ready":                       {all(routed("web", "shanghai", "http", "-10.2.0.1")), ""},
		"external addresses":                     {all(external("web", 80, "-192.0.2.10")), last + "Suspect shanghai"},
		"of another service":                     {all(routed("other", "shanghai", "http", "10.2.0.1")), ""},
		"a headless name":                        {all(slice("db", "shanghai", "pg", "10.2.0.1"), slice("db", "edge-7", "pg", "10.4.0.1")), last + "Expired edge-7, Suspect shanghai"},
		"a headless name with a healthy cluster": {all(slice("db", "shanghai", "pg", "10.2.0.1"), slice("db", "thief", "pg", "10.1.0.1")), ""},
		"a headless name that is gone":           {all(slice("db", "edge-7", "pg", "10.4.0.1")), "ServiceImport Expired its name has no address: ready endpoints are only in Expired edge-7"},
	} {
		l := &LocalFacts{Cluster: "beijing", Members: members(), Slices: c.slices}
		l.Imports = []mcsv1beta1.ServiceImport{imported("db", mcsv1beta1.Headless), imported("web", mcsv1beta1.ClusterSetIP)}
		l.Members[1].Status.Phase = clustersetv1alpha1.MemberSuspect // beijing
		if got := lastResort(l); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func all(slices ...discoveryv1.EndpointSlice) []discoveryv1.EndpointSlice { return slices }

func lastResort(l *LocalFacts) string {
	var s Services
	s.lastResort(l)
	var got []string
	for _, p := range slices.Concat(s.Problems, s.LastResort) {
		got = append(got, p.What+" "+p.Reason+" "+p.Message)
	}
	return strings.Join(got, "\n")
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
	first := slices.Sorted(maps.Keys(names))[0]
	if got := lastResort(l); !strings.Contains(got, "Suspect "+first) || !strings.HasSuffix(got, " and 23 more") {
		t.Errorf("got %s", got)
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
