package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/kube"
)

// The README's first promise, in the default namespace: one annotation in one cluster, and both names answer in all.
func TestAnnotatedServiceAnswersInEveryMember(t *testing.T) {
	f := cities(t)
	web := annotated("default", "web", httpPort)
	a := f.member("xicheng")
	began := time.Now()
	a.apply(web, slice("default", "web", "1", "IPv4", port8080, endpoint("10.200.0.1")))
	t.Cleanup(func() { a.remove(web) })
	ip := a.clusterIP("default", "web", v4)
	for _, m := range f.members {
		vip := m.vip("default", "web", v4)
		if vip == ip {
			t.Errorf("%s: the ClusterSetIP is the ClusterIP of the exporting Service", m.name)
		}
		m.dns.eventually("web.default.svc.global", "A", ip)
		m.dns.eventually("web.default.svc.clusterset.local", "A", vip)
	}
	took(t, "an annotated Service's way into every member's DNS", began)
	kube.Eventually(t, soon, func() error { return a.exportIs("default", "web", "Ready", "True", "Exported") })

	a.apply(service("default", "web", httpPort))
	began = time.Now()
	f.eventually(func(m *member) error {
		return errors.Join(
			m.gone("default", "web"),
			m.dns.answers("web.default.svc.global", "A", "NXDOMAIN"),
			m.dns.answers("web.default.svc.clusterset.local", "A", "NXDOMAIN"))
	})
	took(t, "its way out when the annotation goes", began)
}

// The same with the Multi-Cluster Services API, from a cluster that is not the first, and with a second exporter that
// follows.
func TestServiceExportAnswersInEveryMember(t *testing.T) {
	f := cities(t)
	ns := f.namespace("export")
	global, mcs := "web."+ns+".svc.global", "web."+ns+".svc.clusterset.local"
	south, north := f.member("minhang"), f.member("chaoyang")
	south.apply(exported(ns, "web", httpPort))
	vips := map[string]string{}
	for _, m := range f.members {
		vips[m.name] = m.vip(ns, "web", v4)
		m.dns.eventually(global, "A", south.clusterIP(ns, "web", v4))
		m.dns.eventually(mcs, "A", vips[m.name])
	}
	north.apply(exported(ns, "web", httpPort))
	for _, m := range f.members {
		if m.region == "north" {
			m.dns.eventually(global, "A", north.clusterIP(ns, "web", v4))
		} else {
			m.dns.eventually(global, "A", south.clusterIP(ns, "web", v4))
		}
		m.dns.eventually(mcs, "A", vips[m.name])
	}
}

// FabDNS's own example, unchanged, asked in each city and from two locations that export nothing.
func TestFabDNSFourCities(t *testing.T) {
	f := cities(t)
	ns := f.namespace("cities")
	ip, ip6 := map[string]string{}, map[string]string{}
	for _, m := range f.members {
		// Only chaoyang's Service has IPv6.
		families := "ipFamilyPolicy: SingleStack, ipFamilies: [IPv4], "
		if m.name == "chaoyang" {
			families = "ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv4, IPv6], "
		}
		m.apply(annotated(ns, "nginx", families+httpPort))
		ip[m.name] = m.clusterIP(ns, "nginx", v4)
	}
	ip6["chaoyang"] = f.member("chaoyang").clusterIP(ns, "nginx", v6)
	name := "nginx." + ns + ".svc.global"

	beijing := []string{ip["xicheng"], ip["chaoyang"]}
	north := []string{ip["xicheng"], ip["chaoyang"], ip["shijiazhuang"]}
	all := []string{ip["xicheng"], ip["chaoyang"], ip["shijiazhuang"], ip["minhang"]}
	f.member("xicheng").dns.eventually(name, "A", beijing...)
	f.member("chaoyang").dns.eventually(name, "A", beijing...)
	f.member("minhang").dns.eventually(name, "A", ip["minhang"])
	f.member("shijiazhuang").dns.eventually(name, "A", ip["shijiazhuang"])

	f.member("xicheng").dns.eventually(name, "AAAA", ip6["chaoyang"])
	f.member("minhang").dns.eventually(name, "AAAA", "NODATA")
	f.member("shijiazhuang").dns.eventually(name, "AAAA", "NODATA")

	at := f.member("minhang")
	at.dnsAt(location{Cluster: "heping", Zone: "tianjin", Region: "north"}).eventually(name, "A", north...)
	west := at.dnsAt(location{Cluster: "chengguan", Zone: "lhasa", Region: "west"})
	west.eventually(name, "A", all...)
	west.eventually(name, "AAAA", ip6["chaoyang"])

	// A cluster's own name selects it, from every location.
	for city, addr := range ip {
		at.dns.eventually(city+"."+name, "A", addr)
	}
	at.dns.eventually("atlantis."+name, "A", "NXDOMAIN")

	// The two in Beijing un-export: Beijing is then served by its region, then by any remaining cluster.
	f.member("xicheng").remove(service(ns, "nginx", ""))
	f.member("chaoyang").remove(service(ns, "nginx", ""))
	f.member("xicheng").dns.eventually(name, "A", ip["shijiazhuang"])
	f.member("shijiazhuang").remove(service(ns, "nginx", ""))
	f.member("xicheng").dns.eventually(name, "A", ip["minhang"])
}

// A StatefulSet's pods have their own names in every cluster. xicheng has pods, with a real endpointslice controller;
// minhang's slice is made by hand.
func TestHeadlessHostnames(t *testing.T) {
	f := cities(t)
	ns := f.namespace("stateful")
	headless := `clusterIP: None, selector: {app: db}, ports: [{name: pg, port: 5432}]`
	a, b := f.member("xicheng"), f.member("minhang")
	a.apply(exported(ns, "db", headless))
	a.pod(ns, "db-0", "db", "10.200.1.10")
	a.pod(ns, "db-1", "db", "10.200.1.11")
	b.apply(exported(ns, "db", `clusterIP: None, ports: [{name: pg, port: 5432}]`),
		slice(ns, "db", "1", "IPv4", "{name: pg, port: 5432}",
			endpoint("10.202.1.10", "hostname: db-0"),
			endpoint("10.202.1.11", "hostname: db-1", "conditions: {ready: false}"),
			endpoint("10.202.1.12")))
	for _, zone := range []string{"clusterset.local", "global"} {
		name := "db." + ns + ".svc." + zone
		for _, m := range f.members {
			m.dns.eventually("db-0.xicheng."+name, "A", "10.200.1.10")
			m.dns.eventually("db-1.xicheng."+name, "A", "10.200.1.11")
			m.dns.eventually("db-0.minhang."+name, "A", "10.202.1.10")
			m.dns.eventually("db-1.minhang."+name, "A", "NXDOMAIN")           // not ready
			m.dns.eventually("10-202-1-12.minhang."+name, "A", "10.202.1.12") // without a hostname
			m.dns.eventually("db-0.chaoyang."+name, "A", "NXDOMAIN")
		}
		a.dns.eventually(name, "A", "10.200.1.10", "10.200.1.11")
		f.member("chaoyang").dns.eventually(name, "A", "10.200.1.10", "10.200.1.11")
		b.dns.eventually(name, "A", "10.202.1.10", "10.202.1.12")
	}
	f.member("chaoyang").dns.eventually("minhang.db."+ns+".svc.clusterset.local", "A", "NODATA")
	f.member("chaoyang").dns.eventually("minhang.db."+ns+".svc.global", "A", "10.202.1.10", "10.202.1.12")

	// A pod that is no longer ready disappears, a deleted one disappears, and after the last of a tier the next tier
	// answers.
	name := "db." + ns + ".svc.clusterset.local"
	began := time.Now()
	a.podReady(ns, "db-0", false)
	b.dns.eventually("db-0.xicheng."+name, "A", "NXDOMAIN")
	took(t, "a pod's not being ready", began)
	a.dns.eventually(name, "A", "10.200.1.11")
	a.podReady(ns, "db-1", false)
	a.dns.eventually(name, "A", "10.202.1.10", "10.202.1.12")
	a.podReady(ns, "db-1", true)
	a.dns.eventually(name, "A", "10.200.1.11")
}

func TestSRV(t *testing.T) {
	f := cities(t)
	ns := f.namespace("srv")
	a, b := f.member("xicheng"), f.member("shijiazhuang")
	// As in the conformance suite: two protocols with the same port number.
	a.apply(exported(ns, "hello", "ports: [{name: tcp, port: 42}, {name: udp, port: 42, protocol: UDP}]"))
	// The target port differs from the port.
	ports := "{name: pg, port: 15432}"
	headless := "clusterIP: None, ports: [{name: pg, port: 5432, targetPort: 15432}]"
	a.apply(exported(ns, "db", headless), slice(ns, "db", "1", "IPv4", ports, endpoint("10.200.2.10", "hostname: db-0"), endpoint("10.200.2.11")))
	b.apply(exported(ns, "db", headless), slice(ns, "db", "1", "IPv4", ports, endpoint("10.203.2.10", "hostname: db-0")))
	for _, m := range f.members {
		for _, zone := range []string{"clusterset.local", "global"} {
			hello, db := "hello."+ns+".svc."+zone, "db."+ns+".svc."+zone
			m.dns.eventually(hello, "SRV", "0 100 42 "+hello+".")
			m.dns.eventually("_tcp._tcp."+hello, "SRV", "0 100 42 "+hello+".")
			m.dns.eventually("_udp._udp."+hello, "SRV", "0 100 42 "+hello+".")
			m.dns.eventually("_tcp._udp."+hello, "SRV", "NXDOMAIN")
			m.dns.eventually("_tcp._tcp."+hello, "A", "NODATA")

			want := []string{"0 50 15432 db-0.xicheng." + db + ".", "0 50 15432 10-200-2-11.xicheng." + db + "."}
			switch m.name {
			case "shijiazhuang": // in its own zone
				want = []string{"0 100 15432 db-0.shijiazhuang." + db + "."}
			case "minhang": // all others are in another region
				want = []string{
					"0 33 15432 db-0.xicheng." + db + ".", "0 33 15432 10-200-2-11.xicheng." + db + ".",
					"0 33 15432 db-0.shijiazhuang." + db + ".",
				}
			}
			m.dns.eventually(db, "SRV", want...)
			m.dns.eventually("_pg._tcp."+db, "SRV", want...)
		}
	}
	// The reply contains the targets' addresses.
	r, err := b.dns.reply("_pg._tcp.db."+ns+".svc.clusterset.local", "SRV")
	if err != nil {
		t.Fatal(err)
	}
	if extra := fmt.Sprint(r.Extra); len(r.Answer) != 1 || !strings.Contains(extra, "10.203.2.10") {
		t.Errorf("the reply is\n%v", r)
	}
}

func TestDualStack(t *testing.T) {
	f := cities(t)
	ns := f.namespace("dual")
	both := "ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6, IPv4], "
	a, b := f.member("xicheng"), f.member("chaoyang")
	for _, m := range []*member{a, b} {
		m.apply(exported(ns, "web", both+httpPort))
		m.apply(exported(ns, "pods", "clusterIP: None, "+both+httpPort))
	}
	a.apply(slice(ns, "pods", "4", "IPv4", port8080, endpoint("10.200.3.10")), slice(ns, "pods", "6", "IPv6", port8080, endpoint("fd00:200::10")))
	b.apply(slice(ns, "pods", "4", "IPv4", port8080, endpoint("10.201.3.10")))
	for _, m := range f.members {
		web, pods := "web."+ns+".svc.", "pods."+ns+".svc."
		vip := m.vip(ns, "web", v4)
		m.dns.eventually(web+"clusterset.local", "A", vip)
		if m.dualStack {
			m.dns.eventually(web+"clusterset.local", "AAAA", m.vip(ns, "web", v6))
		} else {
			m.dns.eventually(web+"clusterset.local", "AAAA", "NODATA") // this cluster has no such addresses
		}
		m.dns.eventually(web+"global", "A", a.clusterIP(ns, "web", v4), b.clusterIP(ns, "web", v4))
		m.dns.eventually(web+"global", "AAAA", a.clusterIP(ns, "web", v6), b.clusterIP(ns, "web", v6))
		for _, zone := range []string{"clusterset.local", "global"} {
			m.dns.eventually(pods+zone, "A", "10.200.3.10", "10.201.3.10")
			m.dns.eventually(pods+zone, "AAAA", "fd00:200::10")
		}
	}

	// A service with IPv6 alone can't have a ClusterSetIP in a cluster without IPv6, which reports it; its name leads to the
	// exporter.
	a.apply(exported(ns, "six", "ipFamilyPolicy: SingleStack, ipFamilies: [IPv6], "+httpPort))
	for _, m := range f.members {
		if m.dualStack {
			m.dns.eventually("six."+ns+".svc.clusterset.local", "AAAA", m.vip(ns, "six", v6))
			continue
		}
		kube.Eventually(t, soon, func() error {
			var imp mcsv1beta1.ServiceImport
			if err := m.get(ns, "six", &imp); err != nil {
				return err
			}
			c := condition(imp.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady))
			if c == nil || c.Reason != string(mcsv1beta1.ServiceImportReasonIPFamilyNotSupported) || len(imp.Spec.IPs) > 0 {
				return fmt.Errorf("Ready is %+v, ips %v", c, imp.Spec.IPs)
			}
			return nil
		})
		m.dns.eventually("six."+ns+".svc.clusterset.local", "AAAA", a.clusterIP(ns, "six", v6))
	}
}

// An endpoint that is no pod (a VM, a database in the basement) is exported by an EndpointSlice that a user writes, with its
// zone and readiness.
func TestSelectorlessService(t *testing.T) {
	f := cities(t)
	ns := f.namespace("vm")
	a := f.member("minhang")
	a.apply(exported(ns, "vm", "clusterIP: None, "+httpPort),
		slice(ns, "vm", "1", "IPv4", port8080,
			endpoint("192.0.2.10", "zone: shanghai"),
			endpoint("192.0.2.11", "zone: hebei", "hostname: basement"),
			endpoint("192.0.2.12", "conditions: {ready: false}")))
	name := "vm." + ns + ".svc.clusterset.local"
	f.member("minhang").dns.eventually(name, "A", "192.0.2.10")
	// An endpoint's own zone takes precedence over its cluster's, but its region is always its cluster's: hebei in the south
	// is not the hebei of shijiazhuang, and neither is near.
	f.member("shijiazhuang").dns.eventually(name, "A", "192.0.2.10", "192.0.2.11")
	f.member("xicheng").dns.eventually("basement.minhang."+name, "A", "192.0.2.11")

	// As a ClusterIP service the same endpoints are the backends of the ClusterSetIP; see TestDerivedService.
	began := time.Now()
	a.apply(slice(ns, "vm", "1", "IPv4", port8080, endpoint("192.0.2.12"), endpoint("192.0.2.13", "conditions: {ready: true}")))
	f.eventually(func(m *member) error { return m.dns.answers(name, "A", "192.0.2.12", "192.0.2.13") })
	took(t, "a hand-made slice's change", began)
	a.remove(slice(ns, "vm", "1", "IPv4", port8080))
	f.eventually(func(m *member) error { return m.dns.answers(name, "A", "NXDOMAIN") })
}
