package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// The README's first promise, in the default namespace: one annotation in one cluster, and both names answer in every
// cluster.
func TestAnnotatedServiceAnswersInEveryMember(t *testing.T) {
	f := cities(t)
	web := annotated("default", "web", httpPort)
	a := f.Member("xicheng")
	began := time.Now()
	a.Apply(web, slice("default", "web", "1", "IPv4", port8080, endpoint("10.200.0.1")))
	t.Cleanup(func() { a.Remove(web) })
	ip := a.ClusterIP("default", "web", v4)
	for _, m := range f.Members {
		vip := m.VIP("default", "web", v4)
		if vip == ip {
			t.Errorf("%s: the ClusterSetIP is the ClusterIP of the exporting Service", m.Spec.Name)
		}
		m.DNS.Eventually("web.default.svc.global", "A", ip)
		m.DNS.Eventually("web.default.svc.clusterset.local", "A", vip)
	}
	fleettest.Took(t, "an annotated Service's way into every member's DNS", began)
	kube.Eventually(t, func() error { return a.ExportIs("default", "web", "Ready", "True", "Exported") })

	a.Apply(service("default", "web", httpPort))
	began = time.Now()
	f.Eventually(func(m *fleettest.Member) error {
		return errors.Join(
			m.Gone("default", "web"),
			m.DNS.Answers("web.default.svc.global", "A", "NXDOMAIN"),
			m.DNS.Answers("web.default.svc.clusterset.local", "A", "NXDOMAIN"))
	})
	fleettest.Took(t, "its way out when the annotation goes", began)
}

// The same with the Multi-Cluster Services API, from a cluster that isn't the first, and with a second exporter later.
func TestServiceExportAnswersInEveryMember(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("export")
	global, mcs := "web."+ns+".svc.global", "web."+ns+".svc.clusterset.local"
	south, north := f.Member("minhang"), f.Member("chaoyang")
	south.Apply(exported(ns, "web", httpPort))
	vips := map[string]string{}
	for _, m := range f.Members {
		vips[m.Spec.Name] = m.VIP(ns, "web", v4)
		m.DNS.Eventually(global, "A", south.ClusterIP(ns, "web", v4))
		m.DNS.Eventually(mcs, "A", vips[m.Spec.Name])
	}
	north.Apply(exported(ns, "web", httpPort))
	for _, m := range f.Members {
		if m.Spec.Region == "north" {
			m.DNS.Eventually(global, "A", north.ClusterIP(ns, "web", v4))
		} else {
			m.DNS.Eventually(global, "A", south.ClusterIP(ns, "web", v4))
		}
		m.DNS.Eventually(mcs, "A", vips[m.Spec.Name])
	}
}

// FabDNS's own example, unchanged, queried in each city and from two locations that export nothing.
func TestFabDNSFourCities(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("cities")
	ip, ip6 := map[string]string{}, map[string]string{}
	for _, m := range f.Members {
		// Only chaoyang's Service has IPv6.
		families := "ipFamilyPolicy: SingleStack, ipFamilies: [IPv4], "
		if m.Spec.Name == "chaoyang" {
			families = "ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv4, IPv6], "
		}
		m.Apply(annotated(ns, "nginx", families+httpPort))
		ip[m.Spec.Name] = m.ClusterIP(ns, "nginx", v4)
	}
	ip6["chaoyang"] = f.Member("chaoyang").ClusterIP(ns, "nginx", v6)
	name := "nginx." + ns + ".svc.global"

	beijing := []string{ip["xicheng"], ip["chaoyang"]}
	north := []string{ip["xicheng"], ip["chaoyang"], ip["shijiazhuang"]}
	all := []string{ip["xicheng"], ip["chaoyang"], ip["shijiazhuang"], ip["minhang"]}
	f.Member("xicheng").DNS.Eventually(name, "A", beijing...)
	f.Member("chaoyang").DNS.Eventually(name, "A", beijing...)
	f.Member("minhang").DNS.Eventually(name, "A", ip["minhang"])
	f.Member("shijiazhuang").DNS.Eventually(name, "A", ip["shijiazhuang"])

	f.Member("xicheng").DNS.Eventually(name, "AAAA", ip6["chaoyang"])
	f.Member("minhang").DNS.Eventually(name, "AAAA", "NODATA")
	f.Member("shijiazhuang").DNS.Eventually(name, "AAAA", "NODATA")

	at := f.Member("minhang")
	at.DNSAt(fleet.Location{Cluster: "heping", Zone: "tianjin", Region: "north"}).Eventually(name, "A", north...)
	west := at.DNSAt(fleet.Location{Cluster: "chengguan", Zone: "lhasa", Region: "west"})
	west.Eventually(name, "A", all...)
	west.Eventually(name, "AAAA", ip6["chaoyang"])

	// A cluster's own name selects it, from every location.
	for city, addr := range ip {
		at.DNS.Eventually(city+"."+name, "A", addr)
	}
	at.DNS.Eventually("atlantis."+name, "A", "NXDOMAIN")

	// Both clusters in Beijing un-export: Beijing is then served by its region. When that un-exports too, any remaining
	// cluster serves it.
	f.Member("xicheng").Remove(service(ns, "nginx", ""))
	f.Member("chaoyang").Remove(service(ns, "nginx", ""))
	f.Member("xicheng").DNS.Eventually(name, "A", ip["shijiazhuang"])
	f.Member("shijiazhuang").Remove(service(ns, "nginx", ""))
	f.Member("xicheng").DNS.Eventually(name, "A", ip["minhang"])
}

// A StatefulSet's pods have their own names in every cluster. xicheng has pods and a real endpointslice controller.
// minhang's slice is made by hand.
func TestHeadlessHostnames(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("stateful")
	headless := `clusterIP: None, selector: {app: db}, ports: [{name: pg, port: 5432}]`
	a, b := f.Member("xicheng"), f.Member("minhang")
	a.Apply(exported(ns, "db", headless))
	pod(a, ns, "db-0", "db", "10.200.1.10")
	pod(a, ns, "db-1", "db", "10.200.1.11")
	b.Apply(exported(ns, "db", `clusterIP: None, ports: [{name: pg, port: 5432}]`),
		slice(ns, "db", "1", "IPv4", "{name: pg, port: 5432}",
			endpoint("10.202.1.10", "hostname: db-0"),
			endpoint("10.202.1.11", "hostname: db-1", "conditions: {ready: false}"),
			endpoint("10.202.1.12")))
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
		f.Member("chaoyang").DNS.Eventually(name, "A", "10.200.1.10", "10.200.1.11")
		b.DNS.Eventually(name, "A", "10.202.1.10", "10.202.1.12")
	}
	f.Member("chaoyang").DNS.Eventually("minhang.db."+ns+".svc.clusterset.local", "A", "NODATA")
	f.Member("chaoyang").DNS.Eventually("minhang.db."+ns+".svc.global", "A", "10.202.1.10", "10.202.1.12")

	// A pod that isn't ready any more disappears. After the last pod of a tier, the next tier answers. A pod that is ready
	// again returns.
	name := "db." + ns + ".svc.clusterset.local"
	began := time.Now()
	podReady(a, ns, "db-0", false)
	b.DNS.Eventually("db-0.xicheng."+name, "A", "NXDOMAIN")
	fleettest.Took(t, "a pod's not being ready", began)
	a.DNS.Eventually(name, "A", "10.200.1.11")
	podReady(a, ns, "db-1", false)
	a.DNS.Eventually(name, "A", "10.202.1.10", "10.202.1.12")
	podReady(a, ns, "db-1", true)
	a.DNS.Eventually(name, "A", "10.200.1.11")
}

func TestSRV(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("srv")
	a, b := f.Member("xicheng"), f.Member("shijiazhuang")
	// As in the conformance suite: two protocols with the same port number.
	a.Apply(exported(ns, "hello", "ports: [{name: tcp, port: 42}, {name: udp, port: 42, protocol: UDP}]"))
	// The target port differs from the port.
	ports := "{name: pg, port: 15432}"
	headless := "clusterIP: None, ports: [{name: pg, port: 5432, targetPort: 15432}]"
	a.Apply(exported(ns, "db", headless), slice(ns, "db", "1", "IPv4", ports, endpoint("10.200.2.10", "hostname: db-0"), endpoint("10.200.2.11")))
	b.Apply(exported(ns, "db", headless), slice(ns, "db", "1", "IPv4", ports, endpoint("10.203.2.10", "hostname: db-0")))
	for _, m := range f.Members {
		for _, zone := range []string{"clusterset.local", "global"} {
			hello, db := "hello."+ns+".svc."+zone, "db."+ns+".svc."+zone
			m.DNS.Eventually(hello, "SRV", "0 100 42 "+hello+".")
			m.DNS.Eventually("_tcp._tcp."+hello, "SRV", "0 100 42 "+hello+".")
			m.DNS.Eventually("_udp._udp."+hello, "SRV", "0 100 42 "+hello+".")
			m.DNS.Eventually("_tcp._udp."+hello, "SRV", "NXDOMAIN")
			m.DNS.Eventually("_tcp._tcp."+hello, "A", "NODATA")

			want := []string{"0 50 15432 db-0.xicheng." + db + ".", "0 50 15432 10-200-2-11.xicheng." + db + "."}
			switch m.Spec.Name {
			case "shijiazhuang": // in its own zone
				want = []string{"0 100 15432 db-0.shijiazhuang." + db + "."}
			case "minhang": // all others are in another region
				want = []string{
					"0 33 15432 db-0.xicheng." + db + ".", "0 33 15432 10-200-2-11.xicheng." + db + ".",
					"0 33 15432 db-0.shijiazhuang." + db + ".",
				}
			}
			m.DNS.Eventually(db, "SRV", want...)
			m.DNS.Eventually("_pg._tcp."+db, "SRV", want...)
		}
	}
	// The reply contains the targets' addresses.
	r, err := b.DNS.Reply("_pg._tcp.db."+ns+".svc.clusterset.local", "SRV")
	if err != nil {
		t.Fatal(err)
	}
	if extra := fmt.Sprint(r.Extra); len(r.Answer) != 1 || !strings.Contains(extra, "10.203.2.10") {
		t.Errorf("the reply is\n%v", r)
	}
}

func TestDualStack(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("dual")
	both := "ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6, IPv4], "
	a, b := f.Member("xicheng"), f.Member("chaoyang")
	for _, m := range []*fleettest.Member{a, b} {
		m.Apply(exported(ns, "web", both+httpPort))
		m.Apply(exported(ns, "pods", "clusterIP: None, "+both+httpPort))
	}
	a.Apply(slice(ns, "pods", "4", "IPv4", port8080, endpoint("10.200.3.10")), slice(ns, "pods", "6", "IPv6", port8080, endpoint("fd00:200::10")))
	b.Apply(slice(ns, "pods", "4", "IPv4", port8080, endpoint("10.201.3.10")))
	for _, m := range f.Members {
		web, pods := "web."+ns+".svc.", "pods."+ns+".svc."
		vip := m.VIP(ns, "web", v4)
		m.DNS.Eventually(web+"clusterset.local", "A", vip)
		if m.Spec.DualStack {
			m.DNS.Eventually(web+"clusterset.local", "AAAA", m.VIP(ns, "web", v6))
		} else {
			m.DNS.Eventually(web+"clusterset.local", "AAAA", "NODATA") // this cluster has no such addresses
		}
		m.DNS.Eventually(web+"global", "A", a.ClusterIP(ns, "web", v4), b.ClusterIP(ns, "web", v4))
		m.DNS.Eventually(web+"global", "AAAA", a.ClusterIP(ns, "web", v6), b.ClusterIP(ns, "web", v6))
		for _, zone := range []string{"clusterset.local", "global"} {
			m.DNS.Eventually(pods+zone, "A", "10.200.3.10", "10.201.3.10")
			m.DNS.Eventually(pods+zone, "AAAA", "fd00:200::10")
		}
	}

	// A service with IPv6 alone can't have a ClusterSetIP in a cluster without IPv6. The cluster reports it, and the name
	// leads to the exporter.
	a.Apply(exported(ns, "six", "ipFamilyPolicy: SingleStack, ipFamilies: [IPv6], "+httpPort))
	for _, m := range f.Members {
		if m.Spec.DualStack {
			m.DNS.Eventually("six."+ns+".svc.clusterset.local", "AAAA", m.VIP(ns, "six", v6))
			continue
		}
		kube.Eventually(t, func() error {
			var imp mcsv1beta1.ServiceImport
			if err := m.Get(ns, "six", &imp); err != nil {
				return err
			}
			c := fleettest.Condition(imp.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady))
			if c == nil || c.Reason != string(mcsv1beta1.ServiceImportReasonIPFamilyNotSupported) || len(imp.Spec.IPs) > 0 {
				return fmt.Errorf("Ready is %+v, ips %v", c, imp.Spec.IPs)
			}
			return nil
		})
		m.DNS.Eventually("six."+ns+".svc.clusterset.local", "AAAA", a.ClusterIP(ns, "six", v6))
	}
}

// An endpoint that isn't a pod (a VM, a database in the basement) is exported through an EndpointSlice that a user writes,
// with its zone and readiness.
func TestSelectorlessService(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("vm")
	a := f.Member("minhang")
	a.Apply(exported(ns, "vm", "clusterIP: None, "+httpPort),
		slice(ns, "vm", "1", "IPv4", port8080,
			endpoint("192.0.2.10", "zone: shanghai"),
			endpoint("192.0.2.11", "zone: hebei", "hostname: basement"),
			endpoint("192.0.2.12", "conditions: {ready: false}")))
	name := "vm." + ns + ".svc.clusterset.local"
	f.Member("minhang").DNS.Eventually(name, "A", "192.0.2.10")
	// An endpoint's own zone takes precedence over its cluster's, but its region is always its cluster's. So hebei in the
	// south isn't the hebei of shijiazhuang, and neither endpoint is near.
	f.Member("shijiazhuang").DNS.Eventually(name, "A", "192.0.2.10", "192.0.2.11")
	f.Member("xicheng").DNS.Eventually("basement.minhang."+name, "A", "192.0.2.11")

	// In a ClusterIP service, the same endpoints are the backends of the ClusterSetIP; see TestDerivedService.
	began := time.Now()
	a.Apply(slice(ns, "vm", "1", "IPv4", port8080, endpoint("192.0.2.12"), endpoint("192.0.2.13", "conditions: {ready: true}")))
	f.Eventually(func(m *fleettest.Member) error { return m.DNS.Answers(name, "A", "192.0.2.12", "192.0.2.13") })
	fleettest.Took(t, "a hand-made slice's change", began)
	a.Remove(slice(ns, "vm", "1", "IPv4", port8080))
	f.Eventually(func(m *fleettest.Member) error { return m.DNS.Answers(name, "A", "NXDOMAIN") })
}
