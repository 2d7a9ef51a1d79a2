package e2e

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// backends returns what kube-proxy makes of a Service and its slices: for each port, such as "http 80/TCP", the sorted
// "address:port" of its backends. No kube-proxy runs here, because it would change the machine's packet filter. The function
// follows kube-proxy's rules: slices by the label kubernetes.io/service-name, except those marked headless or for another
// proxy; ports by name and protocol; ready endpoints; the Service's families.
func backends(m *fleettest.Member, ns, name string) (map[string][]string, error) {
	var svc corev1.Service
	if err := m.Get(ns, name, &svc); err != nil {
		return nil, err
	}
	if svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone || len(svc.Spec.Selector) > 0 {
		return nil, fmt.Errorf("kube-proxy leaves Service %s/%s alone: %+v", ns, name, svc.Spec)
	}
	var all discoveryv1.EndpointSliceList
	if err := m.List(&all, client.InNamespace(ns), client.MatchingLabels{discoveryv1.LabelServiceName: name}); err != nil {
		return nil, err
	}
	got := map[string][]string{}
	for _, p := range svc.Spec.Ports {
		key := fmt.Sprintf("%s %d/%s", p.Name, p.Port, p.Protocol)
		got[key] = []string{}
		for _, s := range all.Items {
			if _, headless := s.Labels[corev1.IsHeadlessService]; headless || s.Labels["service.kubernetes.io/service-proxy-name"] != "" {
				continue
			}
			if !slices.Contains(svc.Spec.IPFamilies, corev1.IPFamily(s.AddressType)) {
				continue
			}
			for _, ep := range s.Ports {
				if ep.Port == nil || ep.Name == nil || *ep.Name != p.Name || *ep.Protocol != p.Protocol {
					continue
				}
				for _, e := range s.Endpoints {
					if e.Conditions.Ready == nil || *e.Conditions.Ready {
						got[key] = append(got[key], net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*ep.Port))))
					}
				}
			}
		}
		slices.Sort(got[key])
	}
	return got, nil
}

// proxied returns nil if kube-proxy would send traffic for an import's ClusterSetIP to these backends.
func proxied(m *fleettest.Member, ns, name string, want map[string][]string) error {
	got, err := backends(m, ns, api.DerivedServiceName(ns, name))
	if err != nil {
		return err
	}
	for _, list := range want {
		slices.Sort(list)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("%s: traffic to %s/%s goes to %v, want %v", m.Spec.Name, ns, name, got, want)
	}
	return nil
}

// changedNow adds the current time to a slice as the time of its endpoints' last change, like the endpointslice controller.
func changedNow(slice string) string {
	return strings.Replace(slice, "labels: {", fmt.Sprintf("annotations: {%s: %q}, labels: {",
		corev1.EndpointsLastChangeTriggerTime, time.Now().UTC().Format(time.RFC3339Nano)), 1)
}

// changesMeasured returns how many changes have had their delay measured by the member's DNS server.
func changesMeasured(m *fleettest.Member) float64 {
	m.Helper()
	n, err := m.DNS.Metrics.Sum("coredns_clusterset_programming_duration_seconds_count", "kind", "EndpointSlice")
	if err != nil {
		m.Fatal(err)
	}
	return n
}

// proxiedService exports a service from two clusters for the tests below. Both have the port http, with different target
// ports. Only xicheng has admin. minhang's port grpc has another number, and loses.
func proxiedService(f *fleettest.Fleet, ns string) {
	f.Helper()
	a, b := f.Member("xicheng"), f.Member("minhang")
	a.Apply(exported(ns, "web", "ports: [{name: http, port: 80, targetPort: 8080}, {name: admin, port: 9000}, {name: grpc, port: 50, appProtocol: kubernetes.io/h2c}]"),
		slice(ns, "web", "1", "IPv4", "{name: http, port: 8080}, {name: admin, port: 9000}, {name: grpc, port: 50}",
			endpoint("10.200.8.1"), endpoint("10.200.8.2", "conditions: {ready: false}")))
	letASecondPass(a, ns, "web")
	// The tests are about ports, so every cluster uses every endpoint.
	a.Apply(unranked(ns, "web"))
	b.Apply(exported(ns, "web", "ports: [{name: http, port: 80, targetPort: 8888}, {name: grpc, port: 51}]"), unranked(ns, "web"),
		slice(ns, "web", "1", "IPv4", "{name: http, port: 8888}, {name: grpc, port: 51}", endpoint("10.202.8.1"), endpoint("10.202.8.2", "zone: shanghai")))
}

// unranked returns a ServiceExport that gives all of a service's endpoints the same rank.
func unranked(ns, name string) string {
	return fmt.Sprintf("{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {namespace: %s, name: %s, annotations: {clusterset.dev/prefer: none}}}", ns, name)
}

// In a flat pod network, the ClusterSetIP leads to the pods of every cluster that exposes the port with the same number.
func TestDerivedService(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("proxy")
	proxiedService(f, ns)
	want := map[string][]string{
		"http 80/TCP":    {"10.200.8.1:8080", "10.202.8.1:8888", "10.202.8.2:8888"},
		"admin 9000/TCP": {"10.200.8.1:9000"},
		"grpc 50/TCP":    {"10.200.8.1:50"},
	}
	f.Eventually(func(m *fleettest.Member) error { return proxied(m, ns, "web", want) })
	for _, m := range f.Members {
		i, err := m.Imported(ns, "web")
		if err != nil {
			t.Fatal(err)
		}
		if i.ServiceImport.Spec.IPs[0] != i.Derived.Spec.ClusterIP || i.Derived.Spec.Type != corev1.ServiceTypeClusterIP {
			t.Errorf("%s: derived Service %+v, ips %v", m.Spec.Name, i.Derived.Spec, i.ServiceImport.Spec.IPs)
		}
		if g := i.Derived.Spec.Ports[2]; g.AppProtocol == nil || *g.AppProtocol != "kubernetes.io/h2c" {
			t.Errorf("%s: port %+v", m.Spec.Name, g)
		}
		for _, s := range i.Slices {
			// The member's own endpointslice controller must leave them alone, and so must the mirroring controller.
			if s.Labels[discoveryv1.LabelManagedBy] != api.EndpointSliceManagedBy {
				t.Errorf("%s: slice %s is managed by %q", m.Spec.Name, s.Name, s.Labels[discoveryv1.LabelManagedBy])
			}
		}
	}
	// Endpoints appear, disappear and become ready.
	measured := map[string]float64{}
	for _, m := range f.Members {
		measured[m.Spec.Name] = changesMeasured(m)
	}
	f.Member("xicheng").Apply(changedNow(slice(ns, "web", "1", "IPv4", "{name: http, port: 8080}, {name: admin, port: 9000}, {name: grpc, port: 50}",
		endpoint("10.200.8.2"), endpoint("10.200.8.3"))))
	want["http 80/TCP"] = []string{"10.200.8.2:8080", "10.200.8.3:8080", "10.202.8.1:8888", "10.202.8.2:8888"}
	want["admin 9000/TCP"] = []string{"10.200.8.2:9000", "10.200.8.3:9000"}
	want["grpc 50/TCP"] = []string{"10.200.8.2:50", "10.200.8.3:50"}
	f.Eventually(func(m *fleettest.Member) error { return proxied(m, ns, "web", want) })
	// Every cluster's DNS servers export the delay as a metric.
	f.Eventually(func(m *fleettest.Member) error {
		if changesMeasured(m) == measured[m.Spec.Name] {
			return fmt.Errorf("%s: the change's way was not measured", m.Spec.Name)
		}
		return nil
	})
	// The winner un-exports, so the ports are the other cluster's.
	f.Member("xicheng").Remove(export(ns, "web", ""))
	f.Eventually(func(m *fleettest.Member) error {
		return proxied(m, ns, "web", map[string][]string{
			"http 80/TCP": {"10.202.8.1:8888", "10.202.8.2:8888"}, "grpc 51/TCP": {"10.202.8.1:51", "10.202.8.2:51"},
		})
	})
}

// Where only the service network is routed, the ClusterSetIP leads to the exporting Services' ClusterIPs, on the Services'
// own ports.
func TestClusterIPsDataPath(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("routed")
	proxiedService(f, ns)
	m := f.Member("chaoyang")
	a, b := f.Member("xicheng").ClusterIP(ns, "web", v4), f.Member("minhang").ClusterIP(ns, "web", v4)
	pods := map[string][]string{
		"http 80/TCP": {"10.200.8.1:8080", "10.202.8.1:8888", "10.202.8.2:8888"}, "admin 9000/TCP": {"10.200.8.1:9000"}, "grpc 50/TCP": {"10.200.8.1:50"},
	}
	kube.Eventually(t, func() error { return proxied(m, ns, "web", pods) })
	vip := m.VIP(ns, "web", v4)

	t.Cleanup(func() { m.RestartAgent() })
	m.RestartAgent("--data-path", "clusterips")
	kube.Eventually(t, func() error {
		return proxied(m, ns, "web", map[string][]string{"http 80/TCP": {a + ":80", b + ":80"}, "admin 9000/TCP": {a + ":9000"}, "grpc 50/TCP": {a + ":50"}})
	})
	if now := m.VIP(ns, "web", v4); now != vip {
		t.Errorf("the ClusterSetIP was %s and is %s", vip, now)
	}
	m.DNS.Eventually("web."+ns+".svc.clusterset.local", "A", vip)
	// Readers that select slices by the MCS labels still find the pods.
	i, err := m.Imported(ns, "web")
	if err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for _, s := range i.Slices {
		for _, e := range s.Endpoints {
			if s.Labels[api.LabelServiceName] == "web" {
				addresses = append(addresses, e.Addresses...)
			}
		}
	}
	slices.Sort(addresses)
	if !slices.Equal(addresses, []string{"10.200.8.1", "10.200.8.2", "10.202.8.1", "10.202.8.2"}) {
		t.Errorf("the slices of the import have %v", addresses)
	}

	// A cluster without a ready pod isn't used while another has one.
	f.Member("xicheng").Apply(slice(ns, "web", "1", "IPv4", "{name: http, port: 8080}, {name: admin, port: 9000}, {name: grpc, port: 50}",
		endpoint("10.200.8.1", "conditions: {ready: false}")))
	kube.Eventually(t, func() error {
		return proxied(m, ns, "web", map[string][]string{"http 80/TCP": {b + ":80"}, "admin 9000/TCP": {}, "grpc 50/TCP": {}})
	})

	t.Run("none", func(t *testing.T) {
		m.RestartAgent("--data-path", "none")
		kube.Eventually(t, func() error {
			i, err := m.Imported(ns, "web")
			if err == nil && (i.Derived != nil || i.ServiceImport == nil || len(i.ServiceImport.Spec.IPs) > 0) {
				err = fmt.Errorf("derived Service %v, import %+v", i.Derived, i.ServiceImport)
			}
			return errors.Join(err, importedFrom(m, ns, "web", "xicheng", "minhang"))
		})
		// Both names lead to the ranked ClusterIPs: xicheng's is near but has no ready pod.
		m.DNS.Eventually("web."+ns+".svc.global", "A", b)
		m.DNS.Eventually("web."+ns+".svc.clusterset.local", "A", b)
	})
}
