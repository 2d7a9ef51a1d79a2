package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// The README's first promise: one annotation in one cluster, and both names answer in every cluster. Then FabDNS's own example, unchanged,
// queried in each city and from two locations that export nothing.
func TestFabDNSFourCities(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("cities")
	global, mcs := "nginx."+ns+".svc.global", "nginx."+ns+".svc.clusterset.local"
	const dual = "ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv4, IPv6], "
	chaoyang, at := f.Member("chaoyang"), f.Member("minhang")
	began := time.Now()
	chaoyang.Apply(annotated(ns, "nginx", fabDNS, dual+httpPort))
	ip, ip6 := map[string]string{"chaoyang": chaoyang.ClusterIP(ns, "nginx", v4)}, chaoyang.ClusterIP(ns, "nginx", v6)
	vips := map[*fleettest.Member]string{}
	for _, m := range f.Members {
		vips[m] = m.VIP(ns, "nginx", v4)
		m.DNS.Eventually(global, "A", ip["chaoyang"])
		m.DNS.Eventually(mcs, "A", vips[m])
		if m.Spec.DualStack {
			m.DNS.Eventually(mcs, "AAAA", m.VIP(ns, "nginx", v6))
		} else {
			m.DNS.Eventually(mcs, "AAAA", "NODATA") // this cluster has no such addresses
		}
	}
	fleettest.Took(t, "an annotated Service's way into every member's DNS", began)
	kube.Eventually(t, func() error { return chaoyang.ExportIs(ns, "nginx", "Ready", "True", "Exported") })

	for _, m := range f.Members {
		if m.Spec.Name != "chaoyang" { // only chaoyang's Service has IPv6
			m.Apply(annotated(ns, "nginx", fabDNS, "ipFamilyPolicy: SingleStack, ipFamilies: [IPv4], "+httpPort))
			ip[m.Spec.Name] = m.ClusterIP(ns, "nginx", v4)
		}
	}
	beijing := []string{ip["xicheng"], ip["chaoyang"]}
	north := append([]string{ip["shijiazhuang"]}, beijing...)
	f.Member("xicheng").DNS.Eventually(global, "A", beijing...)
	chaoyang.DNS.Eventually(global, "A", beijing...)
	at.DNS.Eventually(global, "A", ip["minhang"])
	f.Member("shijiazhuang").DNS.Eventually(global, "A", ip["shijiazhuang"])
	f.Member("xicheng").DNS.Eventually(global, "AAAA", ip6)
	at.DNS.Eventually(global, "AAAA", "NODATA")
	at.DNSAt(fleet.Location{Cluster: "heping", Zone: "tianjin", Region: "north"}).Eventually(global, "A", north...)
	west := at.DNSAt(fleet.Location{Cluster: "chengguan", Zone: "lhasa", Region: "west"})
	west.Eventually(global, "A", append(north, ip["minhang"])...)
	west.Eventually(global, "AAAA", ip6)

	// A cluster's own name selects it, from every location.
	for city, addr := range ip {
		at.DNS.Eventually(city+"."+global, "A", addr)
	}
	at.DNS.Eventually("atlantis."+global, "A", "NXDOMAIN")
	for _, m := range f.Members {
		m.DNS.Eventually(mcs, "A", vips[m])
	}

	// Both clusters in Beijing un-export, one by its annotation alone: Beijing is then served by its region, and without that by any other.
	f.Member("xicheng").Remove(service(ns, "nginx", ""))
	chaoyang.Apply(service(ns, "nginx", dual+httpPort))
	f.Member("xicheng").DNS.Eventually(global, "A", ip["shijiazhuang"])
	f.Member("shijiazhuang").Remove(service(ns, "nginx", ""))
	f.Member("xicheng").DNS.Eventually(global, "A", ip["minhang"])
	at.Remove(service(ns, "nginx", ""))
	f.Eventually(func(m *fleettest.Member) error {
		return errors.Join(m.Gone(ns, "nginx"), m.DNS.Answers(global, "A", "NXDOMAIN"), m.DNS.Answers(mcs, "A", "NXDOMAIN"))
	})
}

// A StatefulSet's pods have their own names in every cluster. xicheng has pods and a real endpointslice controller; minhang's slice is made by
// hand.
func TestHeadlessHostnames(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("stateful")
	const headless, ports = "clusterIP: None, ports: [{name: pg, port: 5432}]", "{name: pg, port: 5432}"
	a, b := f.Member("xicheng"), f.Member("minhang")
	a.Apply(exported(ns, "db", "selector: {app: db}, "+headless))
	pod(a, ns, "db-0", "10.200.1.10", true)
	pod(a, ns, "db-1", "10.200.1.11", true)
	byHand := slice(ns, "db", ports, endpoint("10.202.1.10", "hostname: db-0"), endpoint("10.202.1.11", "hostname: db-1", "conditions: {ready: false}"), endpoint("10.202.1.12"))
	b.Apply(exported(ns, "db", headless), byHand)
	for _, zone := range []string{"clusterset.local", "global"} {
		name := "db." + ns + ".svc." + zone
		for _, m := range f.Members {
			m.DNS.Eventually("db-0.xicheng."+name, "A", "10.200.1.10")
			m.DNS.Eventually("db-1.xicheng."+name, "A", "10.200.1.11")
			m.DNS.Eventually("db-0.minhang."+name, "A", "10.202.1.10")
			m.DNS.Eventually("db-1.minhang."+name, "A", "NXDOMAIN")           // not ready
			m.DNS.Eventually("10-202-1-12.minhang."+name, "A", "10.202.1.12") // without a hostname
			m.DNS.Eventually("db-0.chaoyang."+name, "A", "NXDOMAIN")
		}
		a.DNS.Eventually(name, "A", "10.200.1.10", "10.200.1.11")
		b.DNS.Eventually("_pg._tcp."+name, "SRV", "0 50 5432 db-0.minhang."+name+".", "0 50 5432 10-202-1-12.minhang."+name+".")
	}

	// A pod that isn't ready any more disappears. After the last pod of a tier, the next tier answers. A pod that is ready again returns.
	name := "db." + ns + ".svc.clusterset.local"
	began := time.Now()
	pod(a, ns, "db-0", "10.200.1.10", false)
	b.DNS.Eventually("db-0.xicheng."+name, "A", "NXDOMAIN")
	fleettest.Took(t, "a pod's not being ready", began)
	pod(a, ns, "db-1", "10.200.1.11", false)
	a.DNS.Eventually(name, "A", "10.202.1.10", "10.202.1.12")
	pod(a, ns, "db-1", "10.200.1.11", true)
	a.DNS.Eventually(name, "A", "10.200.1.11")

	// Every cluster's DNS servers measure how long ago an endpoint changed, from the time that its cluster's controller states.
	measured := func(m *fleettest.Member) float64 {
		n, err := m.DNS.Metrics.Sum("coredns_clusterset_programming_duration_seconds_count", "kind", "EndpointSlice")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := map[string]float64{}
	for _, m := range f.Members {
		before[m.Spec.Name] = measured(m)
	}
	b.Apply(strings.Replace(slice(ns, "db", ports, endpoint("10.202.1.13")), "labels: {", fmt.Sprintf("annotations: {%s: %q}, labels: {",
		corev1.EndpointsLastChangeTriggerTime, time.Now().UTC().Format(time.RFC3339Nano)), 1))
	f.Eventually(func(m *fleettest.Member) error {
		if measured(m) == before[m.Spec.Name] {
			return errors.New("the change's way was not measured")
		}
		return nil
	})
}

// pod creates a pod, or changes its readiness. To the endpointslice controller it looks as if a kubelet ran it: a pod of a StatefulSet, behind
// the headless Service db. It needs a member with controllers.
func pod(m *fleettest.Member, ns, name, ip string, ready bool) {
	m.Helper()
	manifest := fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: %s, name: %s, labels: {app: db}}
spec: {nodeName: node-1, hostname: %s, subdomain: db, terminationGracePeriodSeconds: 0, containers: [{name: c, image: example.invalid/c}]}
`, ns, name, name)
	m.Apply(fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: node-1, labels: {topology.kubernetes.io/zone: %s, topology.kubernetes.io/region: %s}}}", m.Spec.Zone, m.Spec.Region), manifest)
	m.Plane.ApplyStatus(m, fmt.Appendf(nil, `
apiVersion: v1
kind: Pod
metadata: {namespace: %s, name: %s}
status: {phase: Running, podIP: %s, podIPs: [{ip: %s}], conditions: [{type: Ready, status: %q}]}
`, ns, name, ip, ip, map[bool]string{true: "True", false: "False"}[ready]))
}
