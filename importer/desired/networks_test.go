package desired_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/test/records"
)

// twoNetworks is the service web that a cluster of this network (near) and one of another (far) export, seen from a third, here. near and
// far have the same pods and ClusterIPs.
func twoNetworks(path desired.DataPath) records.Service {
	in := records.Service{Own: &records.Own{}, Input: desired.Input{
		Key: types.NamespacedName{Namespace: "shop", Name: "web"}, DataPath: path, Cluster: "here", Nodes: []topology.Location{{Zone: "z"}},
		Members: map[string]*clustersetv1alpha1.MemberCluster{}, Forbidden: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")},
	}}
	for cluster, network := range map[string]string{"here": "", "near": "", "far": "edge"} {
		m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
		if m.Spec.Network = network; network != "" {
			m.Spec.ExternalCIDRs = []string{"192.0.2.0/24"}
		}
		in.Members[cluster] = m
		if cluster == "here" {
			continue
		}
		s := &clustersetv1alpha1.ExportedService{}
		s.Namespace, s.Name, s.Labels = api.MemberNamespace(cluster), "web.shop", map[string]string{}
		s.Spec = clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: "shop", ServiceName: "web", Type: mcsv1beta1.ClusterSetIP, ClusterIPs: []string{"10.96.0.7"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}, ExportedAt: metav1.NewTime(time.Unix(1e9, 0)),
		}
		in.Services = append(in.Services, s)
		in.Endpoints = append(in.Endpoints, addressesOf(cluster, "pods", false, 8080, 0, "10.244.0.5"), addressesOf(cluster, api.ExternalOrigin("IPv4"), true, 31234, 3, "192.0.2.1", "192.0.2.2"))
	}
	return in
}

func addressesOf(cluster, origin string, external bool, port, behind int32, addresses ...string) *clustersetv1alpha1.ExportedEndpoints {
	e := &clustersetv1alpha1.ExportedEndpoints{}
	e.Namespace, e.Name, e.Labels = api.MemberNamespace(cluster), api.ExportedEndpointsName("shop", "web", origin, 0), map[string]string{}
	name, ready := "http", !external || behind > 0
	e.Spec = clustersetv1alpha1.ExportedEndpointsSpec{
		ServiceNamespace: "shop", ServiceName: "web", AddressType: discoveryv1.AddressTypeIPv4, External: external, Behind: behind,
		Ports: []clustersetv1alpha1.EndpointPort{{Name: &name, Port: &port}},
	}
	for _, a := range addresses {
		e.Spec.Endpoints = append(e.Spec.Endpoints, clustersetv1alpha1.Endpoint{Addresses: []string{a}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	return e
}

// external returns the far cluster's external record.
func external(in *records.Service) *clustersetv1alpha1.ExportedEndpoints {
	for _, e := range in.Endpoints {
		if e.Spec.External && e.Namespace == api.MemberNamespace("far") {
			return e
		}
	}
	return nil
}

// to returns where the slices lead that kube-proxy reads, as cluster:address:port, sorted.
func to(all []*discoveryv1.EndpointSlice) (got []string) {
	for _, s := range all {
		if !records.Routed(s) {
			continue
		}
		for _, e := range s.Endpoints {
			for _, p := range s.Ports {
				got = append(got, fmt.Sprintf("%s:%s:%d", s.Labels[api.LabelSourceCluster], e.Addresses[0], *p.Port))
			}
		}
	}
	slices.Sort(got)
	return got
}

// Of a cluster of another network only external addresses are used, and of one of this network only the others. Rules D80, D81, D84
// and D86 of docs/spec/data-path.md.
func TestNetworks(t *testing.T) {
	pod, node1, node2 := "near:10.244.0.5:8080", "far:192.0.2.1:31234", "far:192.0.2.2:31234"
	for _, tc := range []struct {
		name   string
		path   desired.DataPath
		change func(*records.Service)
		want   []string
	}{
		{"pods", desired.DataPathPods, func(*records.Service) {}, []string{node1, node2, pod}},
		{"ClusterIPs", desired.DataPathClusterIPs, func(*records.Service) {}, []string{node1, node2, "near:10.96.0.7:80"}},
		{"no data path", desired.DataPathNone, func(*records.Service) {}, nil},
		{"the network is taken back", desired.DataPathPods, func(in *records.Service) { in.Members["far"].Spec.Network = "" }, []string{"far:10.244.0.5:8080", pod}},
		{"all are in that network", desired.DataPathPods, func(in *records.Service) {
			for _, m := range in.Members {
				m.Spec.Network = "edge"
			}
		}, []string{"far:10.244.0.5:8080", pod}},
		{"this one is in a network, and that one isn't known", desired.DataPathPods, func(in *records.Service) {
			in.Members["here"].Spec.Network, in.Members["near"].Spec.Network = "core", "core"
			delete(in.Members, "far")
		}, []string{pod}},
		{"no ready pod", desired.DataPathPods, func(in *records.Service) {
			*external(in) = *addressesOf("far", api.ExternalOrigin("IPv4"), true, 31234, 0, "192.0.2.1")
		}, []string{pod}},
		{"pods of headless Services aren't reached", desired.DataPathPods, func(in *records.Service) {
			for _, s := range in.Services {
				s.Spec.Type, s.Spec.ClusterIPs = mcsv1beta1.Headless, nil
			}
		}, nil},
		{"nor is one with external addresses where a headless one won", desired.DataPathPods, func(in *records.Service) {
			for _, s := range in.Services {
				if s.Namespace == api.MemberNamespace("near") {
					s.Spec.Type, s.Spec.ClusterIPs, s.Spec.ExportedAt = mcsv1beta1.Headless, nil, metav1.NewTime(time.Unix(1e8, 0))
				}
			}
		}, nil},
		{"no external addresses", desired.DataPathPods, func(in *records.Service) {
			in.Endpoints = slices.DeleteFunc(in.Endpoints, func(e *clustersetv1alpha1.ExportedEndpoints) bool { return e.Spec.External })
		}, []string{pod}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := twoNetworks(tc.path)
			tc.change(&in)
			out := in.Compute()
			got := to(out.Slices)
			if tc.name == "no ready pod" { // it is there, and kube-proxy doesn't use it
				got = slices.DeleteFunc(got, func(s string) bool { return s == node1 })
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("leads to %q, want %q", got, tc.want)
			}
			reached := []string{"192.0.2.1", "192.0.2.2"}
			if out.Resolved.Type == mcsv1beta1.Headless {
				reached = nil
			}
			for _, s := range out.Slices {
				for _, e := range s.Endpoints {
					if a := e.Addresses[0]; s.Labels[api.LabelSourceCluster] == "far" && in.Apart("far") && !slices.Contains(reached, a) {
						t.Errorf("%s has %s", s.Name, a)
					}
				}
			}
		})
	}
}

// Rule D82.
func TestExternalAddressesAreConfined(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*records.Service)
		want   []string
		drops  int
	}{
		{"inside", func(*records.Service) {}, []string{"192.0.2.1", "192.0.2.2"}, 0},
		{"no externalCIDRs", func(in *records.Service) { in.Members["far"].Spec.ExternalCIDRs = nil }, nil, 2},
		{"cidrs don't count", func(in *records.Service) {
			in.Members["far"].Spec.ExternalCIDRs, in.Members["far"].Spec.CIDRs = []string{"198.51.100.0/24"}, []string{"192.0.2.0/24"}
		}, nil, 2},
		{"one is outside", func(in *records.Service) { in.Members["far"].Spec.ExternalCIDRs = []string{"192.0.2.2/32"} }, []string{"192.0.2.2"}, 1},
		{"one belongs to this network", func(in *records.Service) { in.Forbidden = []netip.Prefix{netip.MustParsePrefix("192.0.2.2/32")} }, []string{"192.0.2.1"}, 1},
		{"special ones", func(in *records.Service) {
			in.Members["far"].Spec.ExternalCIDRs = []string{"0.0.0.0/0"}
			*external(in) = *addressesOf("far", api.ExternalOrigin("IPv4"), true, 80, 1, "127.0.0.1", "169.254.169.254", "224.0.0.1", "0.0.0.0", "198.51.100.1")
		}, []string{"198.51.100.1"}, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := twoNetworks(desired.DataPathPods)
			tc.change(&in)
			out := in.Compute()
			var got []string
			for _, s := range out.Slices {
				if s.Labels[api.LabelSourceCluster] == "far" {
					for _, e := range s.Endpoints {
						got = append(got, e.Addresses[0])
					}
				}
			}
			drops := 0
			for _, d := range out.Drops {
				drops += d.Values.Count
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("uses %q, want %q", got, tc.want)
			}
			if drops < tc.drops || tc.drops == 0 && drops > 0 {
				t.Errorf("%d values are left out, want %d: %v", drops, tc.drops, out.Drops)
			}
		})
	}
}

// All external addresses of a cluster count, for min-ready, as the endpoints behind them. Rule D83.
func TestExternalAddressesCountAsWhatIsBehind(t *testing.T) {
	for _, tc := range []struct {
		behind int32
		near   bool
	}{{1, true}, {2, true}, {3, false}, {30, false}} {
		in := twoNetworks(desired.DataPathPods)
		in.Policy = topology.Policy{Prefer: []topology.Tier{topology.Zone}, MinReady: 3}
		in.Members["far"].Spec.Zone = "z"
		external(&in).Spec.Behind = tc.behind
		used := false
		for _, s := range in.Compute().Slices {
			for _, e := range s.Endpoints {
				if s.Labels[api.LabelSourceCluster] == "near" && e.Hints != nil && e.Hints.ForZones[0].Name == "z" {
					used = true
				}
			}
		}
		if used != tc.near {
			t.Errorf("with %d behind the external addresses, the next tier is used: %t", tc.behind, used)
		}
	}
}

// What a service's slices store of external addresses comes back as such. Rule D89.
func TestExternalRecordsAreStored(t *testing.T) {
	in := twoNetworks(desired.DataPathPods)
	for _, s := range in.Compute().Slices {
		if s.Labels[api.LabelSourceCluster] != "far" {
			continue
		}
		got := desired.StoredEndpoints(in.Key, []*discoveryv1.EndpointSlice{s}, nil)
		if got == nil || !got.External || got.Behind != 3 || got.Name != external(&in).Name || len(got.Endpoints) != 2 {
			t.Errorf("stored is %+v", got)
		}
		return
	}
	t.Fatal("there is no slice of the other network's cluster")
}
