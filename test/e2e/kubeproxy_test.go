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
	"github.com/clusterset/clusterset/test/kube"
)

// backends returns what kube-proxy makes of a Service and its slices, for each port that it serves: "http 80/TCP" to the
// sorted "address:port" of its backends. No kube-proxy runs here, because it would change the machine's packet filter. The
// function follows kube-proxy's rules: slices by the label kubernetes.io/service-name, except those marked headless or for
// another proxy; ports by name and protocol; ready endpoints; the Service's families.
func (m *member) backends(ns, name string) (map[string][]string, error) {
	var svc corev1.Service
	if err := m.get(ns, name, &svc); err != nil {
		return nil, err
	}
	if svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone || len(svc.Spec.Selector) > 0 {
		return nil, fmt.Errorf("kube-proxy leaves Service %s/%s alone: %+v", ns, name, svc.Spec)
	}
	var all discoveryv1.EndpointSliceList
	if err := m.list(&all, client.InNamespace(ns), client.MatchingLabels{discoveryv1.LabelServiceName: name}); err != nil {
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
func (m *member) proxied(ns, name string, want map[string][]string) error {
	got, err := m.backends(ns, api.DerivedServiceName(ns, name))
	if err != nil {
		return err
	}
	for _, list := range want {
		slices.Sort(list)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("%s: traffic to %s/%s goes to %v, want %v", m.name, ns, name, got, want)
	}
	return nil
}

// changedNow adds to a slice the time of its endpoints' last change, as the endpointslice controller does: now.
func changedNow(slice string) string {
	return strings.Replace(slice, "labels: {", fmt.Sprintf("annotations: {%s: %q}, labels: {",
		corev1.EndpointsLastChangeTriggerTime, time.Now().UTC().Format(time.RFC3339Nano)), 1)
}

// changesMeasured is the number of changes whose delay until the member's DNS server was measured.
func (m *member) changesMeasured() float64 {
	m.Helper()
	n, err := m.dns.Metrics.Sum("coredns_clusterset_programming_duration_seconds_count", "kind", "EndpointSlice")
	if err != nil {
		m.Fatal(err)
	}
	return n
}

// proxiedService is a service of two clusters for the tests below. Both listen on http, with different target ports; only
// xicheng has admin, and minhang has a port grpc with another number, which loses.
func (f *fleet) proxiedService(ns string) {
	f.Helper()
	a, b := f.member("xicheng"), f.member("minhang")
	a.apply(exported(ns, "web", "ports: [{name: http, port: 80, targetPort: 8080}, {name: admin, port: 9000}, {name: grpc, port: 50, appProtocol: kubernetes.io/h2c}]"),
		slice(ns, "web", "1", "IPv4", "{name: http, port: 8080}, {name: admin, port: 9000}, {name: grpc, port: 50}",
			endpoint("10.200.8.1"), endpoint("10.200.8.2", "conditions: {ready: false}")))
	a.letASecondPass(ns, "web")
	// The tests are about ports: every cluster uses every endpoint.
	a.apply(unranked(ns, "web"))
	b.apply(exported(ns, "web", "ports: [{name: http, port: 80, targetPort: 8888}, {name: grpc, port: 51}]"), unranked(ns, "web"),
		slice(ns, "web", "1", "IPv4", "{name: http, port: 8888}, {name: grpc, port: 51}", endpoint("10.202.8.1"), endpoint("10.202.8.2", "zone: shanghai")))
}

// unranked gives all of an exported service's endpoints the same rank.
func unranked(ns, name string) string {
	return fmt.Sprintf("{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {namespace: %s, name: %s, annotations: {clusterset.dev/prefer: none}}}", ns, name)
}

// In a flat pod network the ClusterSetIP leads to the pods of every cluster that exposes the port with the same number.
func TestDerivedService(t *testing.T) {
	f := cities(t)
	ns := f.namespace("proxy")
	f.proxiedService(ns)
	want := map[string][]string{
		"http 80/TCP":    {"10.200.8.1:8080", "10.202.8.1:8888", "10.202.8.2:8888"},
		"admin 9000/TCP": {"10.200.8.1:9000"},
		"grpc 50/TCP":    {"10.200.8.1:50"},
	}
	f.eventually(func(m *member) error { return m.proxied(ns, "web", want) })
	for _, m := range f.members {
		i, err := m.imported(ns, "web")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(i.derived.Spec.ClusterIPs, i.serviceImport.Spec.IPs) || i.derived.Spec.Type != corev1.ServiceTypeClusterIP {
			t.Errorf("%s: derived Service %+v, ips %v", m.name, i.derived.Spec, i.serviceImport.Spec.IPs)
		}
		if g := i.derived.Spec.Ports[2]; g.AppProtocol == nil || *g.AppProtocol != "kubernetes.io/h2c" {
			t.Errorf("%s: port %+v", m.name, g)
		}
		for _, s := range i.slices {
			// The member's own endpointslice controller must leave them alone, and so must the mirroring controller.
			if s.Labels[discoveryv1.LabelManagedBy] != api.EndpointSliceManagedBy {
				t.Errorf("%s: slice %s is managed by %q", m.name, s.Name, s.Labels[discoveryv1.LabelManagedBy])
			}
		}
	}
	// Endpoints that appear, disappear and change.
	measured := map[string]float64{}
	for _, m := range f.members {
		measured[m.name] = m.changesMeasured()
	}
	f.member("xicheng").apply(changedNow(slice(ns, "web", "1", "IPv4", "{name: http, port: 8080}, {name: admin, port: 9000}, {name: grpc, port: 50}",
		endpoint("10.200.8.2"), endpoint("10.200.8.3"))))
	want["http 80/TCP"] = []string{"10.200.8.2:8080", "10.200.8.3:8080", "10.202.8.1:8888", "10.202.8.2:8888"}
	want["admin 9000/TCP"] = []string{"10.200.8.2:9000", "10.200.8.3:9000"}
	want["grpc 50/TCP"] = []string{"10.200.8.2:50", "10.200.8.3:50"}
	f.eventually(func(m *member) error { return m.proxied(ns, "web", want) })
	// Every cluster's DNS servers export the delay as a metric.
	f.eventually(func(m *member) error {
		if m.changesMeasured() == measured[m.name] {
			return fmt.Errorf("%s: the change's way was not measured", m.name)
		}
		return nil
	})
	// The winner un-exports, and the ports are the other's.
	f.member("xicheng").remove(export(ns, "web", ""))
	f.eventually(func(m *member) error {
		return m.proxied(ns, "web", map[string][]string{
			"http 80/TCP": {"10.202.8.1:8888", "10.202.8.2:8888"}, "grpc 51/TCP": {"10.202.8.1:51", "10.202.8.2:51"},
		})
	})
}

// Where only the service network is routed the ClusterSetIP leads to the exporting Services' ClusterIPs, on their own ports.
func TestClusterIPsDataPath(t *testing.T) {
	f := cities(t)
	ns := f.namespace("routed")
	f.proxiedService(ns)
	m := f.member("chaoyang")
	a, b := f.member("xicheng").clusterIP(ns, "web", v4), f.member("minhang").clusterIP(ns, "web", v4)
	pods := map[string][]string{
		"http 80/TCP": {"10.200.8.1:8080", "10.202.8.1:8888", "10.202.8.2:8888"}, "admin 9000/TCP": {"10.200.8.1:9000"}, "grpc 50/TCP": {"10.200.8.1:50"},
	}
	kube.Eventually(t, soon, func() error { return m.proxied(ns, "web", pods) })
	vip := m.vip(ns, "web", v4)

	t.Cleanup(func() { m.restartAgent() })
	m.restartAgent("--data-path", "clusterips")
	kube.Eventually(t, soon, func() error {
		return m.proxied(ns, "web", map[string][]string{"http 80/TCP": {a + ":80", b + ":80"}, "admin 9000/TCP": {a + ":9000"}, "grpc 50/TCP": {a + ":50"}})
	})
	if now := m.vip(ns, "web", v4); now != vip {
		t.Errorf("the ClusterSetIP was %s and is %s", vip, now)
	}
	m.dns.eventually("web."+ns+".svc.clusterset.local", "A", vip)
	// Readers that select slices by the MCS labels still find the pods.
	i, err := m.imported(ns, "web")
	if err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for _, s := range i.slices {
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

	// A cluster without a ready pod is no target while another has one.
	f.member("xicheng").apply(slice(ns, "web", "1", "IPv4", "{name: http, port: 8080}, {name: admin, port: 9000}, {name: grpc, port: 50}",
		endpoint("10.200.8.1", "conditions: {ready: false}")))
	kube.Eventually(t, soon, func() error {
		return m.proxied(ns, "web", map[string][]string{"http 80/TCP": {b + ":80"}, "admin 9000/TCP": {}, "grpc 50/TCP": {}})
	})

	t.Run("none", func(t *testing.T) {
		m.restartAgent("--data-path", "none")
		kube.Eventually(t, soon, func() error {
			i, err := m.imported(ns, "web")
			if err == nil && (i.derived != nil || i.serviceImport == nil || len(i.serviceImport.Spec.IPs) > 0) {
				err = fmt.Errorf("derived Service %v, import %+v", i.derived, i.serviceImport)
			}
			return errors.Join(err, m.importedFrom(ns, "web", "xicheng", "minhang"))
		})
		// Both names lead to the ranked ClusterIPs: xicheng's is near but has no ready pod.
		m.dns.eventually("web."+ns+".svc.global", "A", b)
		m.dns.eventually("web."+ns+".svc.clusterset.local", "A", b)
	})
}
