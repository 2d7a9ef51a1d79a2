package exporter

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/nodes"
	"github.com/clusterset/clusterset/internal/topology"
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// exposed is a Service of type NodePort with two ready pods and one that isn't, on nodes a, a and b.
func exposed() Source {
	src := exported(slice("web-1", 3, func(s *discoveryv1.EndpointSlice) {
		for i, node := range []string{"a", "a", "b"} {
			s.Endpoints[i].NodeName, s.Endpoints[i].Conditions.Ready = &node, ptrTo(node == "a")
		}
	}))
	src.Service.Spec.Type, src.Service.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 31234
	src.External.Nodes = []nodes.Node{
		nodeAt("a", "z1", true, ip("192.0.2.1"), ip("fd00::1")), nodeAt("b", "z2", true, ip("192.0.2.2")), nodeAt("c", "z2", false, ip("192.0.2.3")),
	}
	return src
}

func nodeAt(name, zone string, ready bool, ips ...netip.Addr) nodes.Node {
	return nodes.Node{Name: name, At: topology.Location{Zone: zone}, Ready: ready, IPs: ips}
}

// where returns the external addresses as address:port, with what is behind, or why there are none.
func where(d Desired) string {
	var all []string
	for _, e := range d.external {
		for _, at := range e.Spec.Endpoints {
			text := fmt.Sprintf("%s:%d", at.Addresses[0], *e.Spec.Ports[0].Port)
			if !*at.Conditions.Ready {
				text += "!"
			}
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		return d.reason
	}
	return fmt.Sprintf("%s (%d)", strings.Join(all, " "), d.external[0].Spec.Behind)
}

// Rules D90 to D94 of docs/spec/data-path.md.
func TestExternalAddresses(t *testing.T) {
	ingress := func(src *Source, all ...corev1.LoadBalancerIngress) {
		src.Service.Spec.Type, src.Service.Status.LoadBalancer.Ingress = corev1.ServiceTypeLoadBalancer, all
	}
	dualStack := func(src *Source) {
		src.Service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	}
	resolves := func(src *Source, addresses ...string) {
		var all []netip.Addr
		for _, a := range addresses {
			all = append(all, ip(a))
		}
		src.External.Resolve = func(string) []netip.Addr { return all }
	}
	last := func(src *Source) {
		src.External.Last = []clustersetv1alpha1.ExportedEndpoints{{
			ObjectMeta: metav1.ObjectMeta{Name: api.ExportedEndpointsName("shop", "web", api.ExternalOrigin("IPv4"), 0)},
			Spec: clustersetv1alpha1.ExportedEndpointsSpec{
				External: true, Ports: portsAt(src.Service, src.Service.Spec.Type == corev1.ServiceTypeNodePort),
				Endpoints: []clustersetv1alpha1.Endpoint{{Addresses: []string{"198.51.100.7"}, Conditions: discoveryv1.EndpointConditions{Ready: ptrTo(false)}}},
			},
		}}
	}
	for _, tc := range []struct {
		name   string
		change func(*Source)
		want   string
	}{
		{"ready nodes, both families", dualStack, "192.0.2.1:31234 192.0.2.2:31234 fd00::1:31234 (2)"},
		{"nodes of a family that the Service lacks", func(*Source) {}, "192.0.2.1:31234 192.0.2.2:31234 (2)"},
		{"only nodes with a ready pod", func(s *Source) { s.Service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }, "192.0.2.1:31234 (2)"},
		{"no ready pod", func(s *Source) {
			for i := range s.Slices[0].Endpoints {
				s.Slices[0].Endpoints[i].Conditions.Ready = ptrTo(false)
			}
		}, "192.0.2.1:31234! 192.0.2.2:31234! (0)"},
		{"externalIPs before nodes", func(s *Source) { s.Service.Spec.ExternalIPs = []string{"198.51.100.1"} }, "198.51.100.1:80 (2)"},
		{"also of both families", func(s *Source) {
			dualStack(s)
			s.Service.Spec.ExternalIPs = []string{"198.51.100.1", "2001:db8::1"}
		}, "198.51.100.1:80 2001:db8::1:80 (2)"},
		{"without those of a family that the Service lacks", func(s *Source) {
			s.Service.Spec.ExternalIPs = []string{"198.51.100.1", "2001:db8::1"}
		}, "198.51.100.1:80 (2)"},
		{"a manifest doesn't say which it lacks", func(s *Source) {
			s.Service.Spec.ExternalIPs, s.Service.Spec.IPFamilies = []string{"198.51.100.1", "2001:db8::1"}, nil
		}, "198.51.100.1:80 2001:db8::1:80 (2)"},
		{"which don't replace nodes", func(s *Source) { s.Service.Spec.ExternalIPs = []string{"2001:db8::1"} }, "192.0.2.1:31234 192.0.2.2:31234 (2)"},
		{"a load balancer before externalIPs", func(s *Source) {
			s.Service.Spec.ExternalIPs = []string{"198.51.100.1"}
			ingress(s, corev1.LoadBalancerIngress{IP: "203.0.113.1"}, corev1.LoadBalancerIngress{IP: "203.0.113.1"})
		}, "203.0.113.1:80 (2)"},
		{"a load balancer that has no address yet is nodes", func(s *Source) { ingress(s) }, "192.0.2.1:31234 192.0.2.2:31234 (2)"},
		{"or nothing without their ports", func(s *Source) { ingress(s); s.Service.Spec.Ports[0].NodePort = 0 }, api.ReasonNoExternalAddress},
		{"a load balancer's name", func(s *Source) {
			ingress(s, corev1.LoadBalancerIngress{Hostname: "lb.example.com"})
			resolves(s, "203.0.113.2", "2001:db8::2")
		}, "203.0.113.2:80 2001:db8::2:80 (2)"},
		{"a name that isn't resolved keeps what the hub has", func(s *Source) {
			ingress(s, corev1.LoadBalancerIngress{Hostname: "lb.example.com"})
			resolves(s)
			last(s)
		}, "198.51.100.7:80 (2)"},
		{"also beside an address", func(s *Source) {
			ingress(s, corev1.LoadBalancerIngress{IP: "203.0.113.1"}, corev1.LoadBalancerIngress{Hostname: "lb.example.com"})
			resolves(s)
			last(s)
		}, "198.51.100.7:80 203.0.113.1:80 (2)"},
		{"but not at another port", func(s *Source) {
			last(s)
			ingress(s, corev1.LoadBalancerIngress{IP: "203.0.113.1"}, corev1.LoadBalancerIngress{Hostname: "lb.example.com"})
			resolves(s)
		}, "203.0.113.1:80 (2)"},
		{"nor outside the networks", func(s *Source) {
			ingress(s, corev1.LoadBalancerIngress{IP: "203.0.113.1"}, corev1.LoadBalancerIngress{Hostname: "lb.example.com"})
			resolves(s)
			last(s)
			s.External.CIDRs = []string{"203.0.113.0/24"}
		}, "203.0.113.1:80 (2)"},
		{"and is nothing if it has nothing", func(s *Source) {
			ingress(s, corev1.LoadBalancerIngress{Hostname: "lb.example.com"})
			resolves(s)
		}, api.ReasonNoExternalAddress},
		{"nodes that aren't known keep it too", func(s *Source) { s.External.Nodes = nil; last(s) }, "198.51.100.7:31234 (2)"},
		{"and so does a ServiceExport that is gone", func(s *Source) { s.External.Kept = true; last(s) }, "198.51.100.7:31234 (2)"},
		{"no nodes are no addresses", func(s *Source) { s.External.Nodes = []nodes.Node{}; last(s) }, api.ReasonNoExternalAddress},
		{"the Service's annotation before all", func(s *Source) {
			ingress(s, corev1.LoadBalancerIngress{IP: "203.0.113.1"})
			s.Service.Annotations = map[string]string{api.AnnotationExternalAddresses: "203.0.113.9, 2001:db8::9"}
		}, "203.0.113.9:80 2001:db8::9:80 (2)"},
		{"the ServiceExport's before the Service's", func(s *Source) {
			s.Service.Annotations = map[string]string{api.AnnotationExternalAddresses: "203.0.113.9"}
			s.Export.Annotations = map[string]string{api.AnnotationExternalAddresses: "gateway.example.com"}
			resolves(s, "203.0.113.10")
		}, "203.0.113.10:80 (2)"},
		{"special addresses are none", func(s *Source) {
			s.Service.Annotations = map[string]string{api.AnnotationExternalAddresses: "gateway.example.com"}
			resolves(s, "127.0.0.1", "169.254.169.254", "203.0.113.10")
		}, "203.0.113.10:80 (2)"},
		{"a ClusterIP Service has none", func(s *Source) {
			s.Service.Spec.Type, s.Service.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 0
		}, api.ReasonNoExternalAddress},
		{"a headless one neither", func(s *Source) {
			s.Service.Spec.Type, s.Service.Spec.ClusterIP, s.Service.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, corev1.ClusterIPNone, 0
			s.Service.Annotations = map[string]string{api.AnnotationExternalAddresses: "203.0.113.9"}
		}, api.ReasonHeadless},
		{"only those in externalCIDRs", func(s *Source) { s.External.CIDRs = []string{"192.0.2.2/32"} }, "192.0.2.2:31234 (2)"},
		{"none is there", func(s *Source) { s.External.CIDRs = []string{"198.51.100.0/24"} }, api.ReasonNotInExternalCIDRs},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := exposed()
			tc.change(&src)
			if got := where(desired(src)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// However many names an annotation lists, few are resolved, and that is said. Rule D90.
func TestTooManyNames(t *testing.T) {
	src := exposed()
	asked := 0
	src.External.Resolve = func(string) []netip.Addr { asked++; return nil }
	src.Export.Annotations = map[string]string{api.AnnotationExternalAddresses: strings.Repeat("a.example.com,", 1000)}
	if d := desired(src); asked != 2*maxExternal || d.LeftOut.Count != 1 || !strings.Contains(d.LeftOut.String(), "must have at most 16 items") {
		t.Errorf("%d are resolved; it says %s", asked, d.LeftOut.String())
	}
}

// At most eight nodes are used, and when one goes only it is replaced. Rule D91.
func TestNodesStay(t *testing.T) {
	src := exposed()
	src.External.Nodes = nil
	for i := range 20 {
		src.External.Nodes = append(src.External.Nodes, nodeAt(fmt.Sprintf("n%02d", i), fmt.Sprint("z", i%3), true, ip(fmt.Sprintf("192.0.2.%d", i+1))))
	}
	used := func() (all []string) {
		for _, at := range desired(src).external[0].Spec.Endpoints {
			if all = append(all, at.Addresses[0]); *at.Zone == "" {
				t.Errorf("%s has no zone", at.Addresses[0])
			}
		}
		if len(all) != 8 {
			t.Errorf("uses %q", all)
		}
		return all
	}
	before := used()
	i := slices.IndexFunc(src.External.Nodes, func(n nodes.Node) bool { return n.IPs[0].String() == before[3] })
	src.External.Nodes[i].Ready = false
	stay := 0
	for _, a := range used() {
		if slices.Contains(before, a) {
			stay++
		}
	}
	if stay != 7 {
		t.Errorf("%d of the other 7 stay", stay)
	}
	slices.Reverse(src.External.Nodes)
	src.External.Nodes[len(src.External.Nodes)-1-i].Ready = true
	if again := used(); !slices.Equal(again, before) {
		t.Errorf("uses %q, before %q", again, before)
	}
}

// Of nodes in externalCIDRs, however few, those are chosen, for each family. Rules D91 and D93.
func TestNodesInExternalCIDRsAreChosen(t *testing.T) {
	src := exposed()
	src.Service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	src.External.Nodes, src.External.CIDRs = nil, []string{"192.0.2.0/24", "2001:db8::/32"}
	for i := range 20 {
		ips := []netip.Addr{ip(fmt.Sprintf("10.0.0.%d", i+1)), ip(fmt.Sprintf("fd00::%d", i+1))}
		switch i {
		case 5, 17:
			ips[0] = ip(fmt.Sprintf("192.0.2.%d", i+1))
		case 11:
			ips[1] = ip("2001:db8::c")
		}
		src.External.Nodes = append(src.External.Nodes, nodeAt(fmt.Sprintf("n%02d", i), fmt.Sprint("z", i%3), true, ips...))
	}
	if got, want := where(desired(src)), "192.0.2.18:31234 192.0.2.6:31234 2001:db8::c:31234 (2)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A name is resolved at once and then every ten seconds; the last good answer stays, a failure is counted, and a change is told. Rule D92.
func TestNamesAreResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // of what follows
		var answer []netip.Addr
		var fails error
		asked, changes := 0, 0
		n := newResolver(func(_ context.Context, network, host string) ([]netip.Addr, error) {
			mu.Lock()
			defer mu.Unlock()
			if asked++; network != "ip" || host != "lb.example.com." {
				t.Errorf("looks up %s of %s", network, host)
			}
			return slices.Clone(answer), fails
		}, func(_ context.Context, users []types.NamespacedName) {
			mu.Lock()
			defer mu.Unlock()
			changes += len(users)
		})
		go func() { _ = n.run(t.Context()) }()
		use := func() string {
			synctest.Wait()
			resolve, done := n.resolve(web)
			got := resolve("lb.example.com")
			done()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return fmt.Sprint(got, asked, changes)
		}
		failures := testutil.ToFloat64(metricResolveFailures)
		for i, c := range []struct {
			what   string
			answer []netip.Addr
			fails  error
			want   string // addresses, how often it was asked, and how many changes were told
		}{
			{"it fails", nil, errors.New("SERVFAIL"), "[] 1 0"},
			{"it answers", []netip.Addr{ip("2001:db8::2"), ip("::ffff:192.0.2.1")}, nil, "[192.0.2.1 2001:db8::2] 2 1"},
			{"the same in another order", []netip.Addr{ip("192.0.2.1"), ip("2001:db8::2")}, nil, "[192.0.2.1 2001:db8::2] 3 1"},
			{"it fails again", nil, errors.New("SERVFAIL"), "[192.0.2.1 2001:db8::2] 4 1"},
			{"it is empty", nil, nil, "[192.0.2.1 2001:db8::2] 5 1"},
			{"it changes", []netip.Addr{ip("192.0.2.3")}, nil, "[192.0.2.3] 6 2"},
		} {
			mu.Lock()
			answer, fails = c.answer, c.fails
			mu.Unlock()
			if i > 0 {
				elapse(resolveEvery)
			}
			if got := use(); got != c.want {
				t.Errorf("%s: %s, want %s", c.what, got, c.want)
			}
		}
		if n := testutil.ToFloat64(metricResolveFailures) - failures; n != 3 {
			t.Errorf("%v failures are counted", n)
		}
		_, done := n.resolve(web) // no longer used
		done()
		elapse(5 * resolveEvery)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if asked != 6 {
			t.Errorf("a name that nobody uses is asked for, %d times in all", asked)
		}
	})
}

// Rule D95.
func TestReachable(t *testing.T) {
	member := func(name, network string, external ...string) clustersetv1alpha1.MemberCluster {
		return clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clustersetv1alpha1.MemberClusterSpec{Network: network, ExternalCIDRs: external}}
	}
	for _, tc := range []struct {
		name    string
		members []clustersetv1alpha1.MemberCluster
		change  func(*Source)
		want    string // the condition's status, reason and a part of its message; "" for none
	}{
		{"one network", []clustersetv1alpha1.MemberCluster{member("beijing", "a"), member("lyon", "a")}, func(*Source) {}, ""},
		{"two", []clustersetv1alpha1.MemberCluster{member("beijing", "", "192.0.2.0/24"), member("lyon", "edge")}, func(*Source) {}, "True ExternalAddresses networks edge) reach it at 192.0.2.1, 192.0.2.2"},
		{"nothing is declared", []clustersetv1alpha1.MemberCluster{member("beijing", "core"), member("lyon", "")}, func(*Source) {}, "False NotInExternalCIDRs states no spec.externalCIDRs"},
		{"it isn't exported there", []clustersetv1alpha1.MemberCluster{member("beijing", ""), member("lyon", "edge")}, func(s *Source) {
			s.Export.Annotations = map[string]string{api.AnnotationExportTo: "turin"}
		}, ""},
		{"headless", []clustersetv1alpha1.MemberCluster{member("beijing", "", "192.0.2.0/24"), member("lyon", "edge")}, func(s *Source) {
			s.Service.Spec.Type, s.Service.Spec.ClusterIP = corev1.ServiceTypeClusterIP, corev1.ClusterIPNone
		}, "False Headless a Service of type LoadBalancer for each pod"},
		{"no address", []clustersetv1alpha1.MemberCluster{member("beijing", "", "192.0.2.0/24"), member("lyon", "edge")}, func(s *Source) {
			s.Service.Spec.Type, s.Service.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 0
		}, "False NoExternalAddress give the Service the type LoadBalancer or NodePort"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := exposed()
			tc.change(&src)
			v := visibility{own: "beijing"}
			v.peers.Store(peersOf(pointers(tc.members), "beijing"))
			export := src.Export.DeepCopy()
			setConditions(export, v.conditions(export.Namespace, desired(src)))
			c := meta.FindStatusCondition(export.Status.Conditions, api.ConditionReachable)
			if c == nil || tc.want == "" {
				if (c == nil) != (tc.want == "") {
					t.Errorf("says %v", export.Status.Conditions)
				}
				return
			}
			words := strings.SplitN(tc.want, " ", 3)
			if string(c.Status) != words[0] || c.Reason != words[1] || !strings.Contains(c.Message, words[2]) {
				t.Errorf("says %s %s %s, want %s", c.Status, c.Reason, c.Message, tc.want)
			}
			if _, changed := setConditions(export, v.conditions(export.Namespace, desired(src))); changed.Len() > 0 {
				t.Error("it changes although nothing changes")
			}
		})
	}
}
