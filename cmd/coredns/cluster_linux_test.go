package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/kube"
)

// clusterObjects are Services of every kind that the plugin kubernetes knows.
var clusterObjects = func() (objects [][]byte) {
	var many []string
	for i := range 90 {
		many = append(many, fmt.Sprintf("{addresses: [10.9.0.%d]}", i+1))
	}
	for _, o := range []string{
		"{apiVersion: v1, kind: Namespace, metadata: {name: shop}}",
		"{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {ports: [{name: http, port: 80}, {name: dns, protocol: UDP, port: 53}]}}",
		"{apiVersion: v1, kind: Service, metadata: {name: idle, namespace: shop}, spec: {ports: [{port: 80}]}}",
		"{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {clusterIP: None, ports: [{name: pg, port: 5432}]}}",
		"{apiVersion: v1, kind: Service, metadata: {name: many, namespace: shop}, spec: {clusterIP: None, ports: [{name: pg, port: 5432}]}}",
		"{apiVersion: v1, kind: Service, metadata: {name: none, namespace: shop}, spec: {clusterIP: None}}",
		"{apiVersion: v1, kind: Service, metadata: {name: elsewhere, namespace: shop}, spec: {type: ExternalName, externalName: www.example.org}}",
		clusterSlice("web-1", "web", "IPv4", "[{name: http, port: 8080}]", "{addresses: [10.8.0.1], hostname: web-0}", "{addresses: [10.8.0.2], conditions: {ready: false}}"),
		clusterSlice("db-1", "db", "IPv4", "[{name: pg, port: 5432}]", "{addresses: [10.8.1.1], hostname: db-0}", "{addresses: [10.8.1.2], hostname: db-1}", "{addresses: [10.8.1.3], targetRef: {kind: Pod, name: db-pod}}"),
		clusterSlice("db-2", "db", "IPv6", "[{name: pg, port: 5432}]", `{addresses: ["fd00::1"], hostname: db-0}`, `{addresses: ["fd00::2"]}`),
		clusterSlice("many-1", "many", "IPv4", "[{name: pg, port: 5432}]", many...),
	} {
		objects = append(objects, []byte(o))
	}
	return objects
}()

func clusterSlice(name, service, family, port string, endpoints ...string) string {
	return fmt.Sprintf("{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: %s, namespace: shop, labels: {kubernetes.io/service-name: %s}}, addressType: %s, ports: %s, endpoints: [%s]}",
		name, service, family, port, strings.Join(endpoints, ", "))
}

const clusterCorefile = `.:DNS {
    bind 127.0.0.1
    errors
    prometheus 127.0.0.1:METRICS
    bufsize 1232
    clusterset clusterset.local svc.global {
        manifests OBJECTS
        OPTIONS
    }
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig KUBECONFIG
        startup_timeout 60s
        STANZA
    }
    erratic {
        drop 0
    }
}
`

// Two processes that differ only in the express path answer the same for a cluster's own zone, and count the same. Rules A70, A71, A72, A73,
// A74, A75, A76, A77 and A78 of docs/spec/answers.md.
func TestExpressAnswersForTheCluster(t *testing.T) {
	control := kube.Start(t)
	control.Apply(t, clusterObjects...)
	for _, stanza := range []string{"pods insecure\nfallthrough in-addr.arpa ip6.arpa\nttl 30", "endpoint_pod_names\nignore empty_service\nnamespaces shop", "noendpoints\nfallthrough"} {
		t.Run(strings.ReplaceAll(stanza, "\n", ", "), func(t *testing.T) {
			corefile := strings.NewReplacer("KUBECONFIG", control.Kubeconfig(), "STANZA", stanza).Replace(clusterCorefile)
			on, off := startExpress(t, corefile, "express auto"), startExpress(t, corefile, "express off")
			expectLog(t, on.log, "for clusterset.local. cluster.local. svc.global.")
			compare(t, on, off, clusterQuery)
			if gauge := `coredns_clusterset_express_zone_enabled{server="dns://127.0.0.1:` + on.dns + `",zone="cluster.local."} 1`; !strings.Contains(metricsText(t, on.metrics), gauge) {
				t.Error("no gauge says that the express path answers for cluster.local")
			}
			for _, option := range []string{"off", "auto"} { // the new instance has a store of its own
				on.reload(t, strings.ReplaceAll(corefile, "OPTIONS", "express "+option))
				compare(t, on, off, clusterQuery)
			}
		})
	}
}

// clusterQuery returns a random query for the cluster's own zone.
func clusterQuery(random *rand.Rand) *dns.Msg {
	services := strings.Fields("web idle db many none elsewhere missing kubernetes")
	names := strings.Fields(`S.shop.svc S.shop.svc S.shop.svc _http._tcp.S.shop.svc _pg._tcp.S.shop.svc db-0.S.shop.svc web-0.S.shop.svc db-pod.S.shop.svc 10-8-1-3.S.shop.svc
		fd00--2.S.shop.svc kubernetes.default.svc a.b.c.S.shop.svc z.pin._zone.S.shop.svc S.shop.svc.cluster.local.shop.svc S.nowhere.svc shop.svc svc www.example.org www.example.org.svc 10-8-1-3.shop.pod dns-version ns.dns`)
	types := []uint16{dns.TypeA, dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeSRV, dns.TypeTXT, dns.TypeHTTPS, dns.TypeMX, dns.TypePTR}
	name := strings.ReplaceAll(names[random.IntN(len(names))], "S", services[random.IntN(len(services))]) + ".cluster.local."
	if random.IntN(6) == 0 {
		at := random.IntN(len(name))
		name = strings.ToUpper(name[:at]) + name[at:]
	}
	q := new(dns.Msg).SetQuestion(name, types[random.IntN(len(types))])
	if random.IntN(2) == 0 {
		q.SetEdns0(uint16(random.IntN(5000)), random.IntN(2) == 0) //nolint:gosec // small
	}
	return q
}

// CoreDNS's plugin kubernetes makes PTR records of all slices. If one lacks the name of its Service, the record can't be packed, and the client
// gets no reply at all. Our Corefile hides imported slices from it, so that a pod has its own name alone. Rule D23 of docs/spec/data-path.md.
func TestReverseLookupsBesideImportedSlices(t *testing.T) {
	control := kube.Start(t)
	control.Apply(t, clusterObjects...)
	unused := api.UnusedServiceName("shop", "db")
	slice := clusterSlice("imported-here-db-1", unused, "IPv4", "[{name: pg, port: 5432}]", "{addresses: [10.8.1.1], hostname: db-0}", "{addresses: [10.9.1.1], hostname: db-0}")
	control.Apply(t, []byte(strings.Replace(slice, "labels: {", `labels: {service.kubernetes.io/headless: "", multicluster.kubernetes.io/service-name: db, `, 1)))
	const own = "db-0.db.shop.svc.cluster.local."
	imported := "db-0." + unused + ".shop.svc.cluster.local."
	for _, test := range []struct{ stanza, here, there string }{
		{"ttl 5", own + " " + imported, imported},
		{"labels !multicluster.kubernetes.io/service-name", own, ""},
	} {
		corefile := strings.NewReplacer("KUBECONFIG", control.Kubeconfig(), "STANZA", test.stanza).Replace(clusterCorefile)
		s := startExpress(t, corefile, "express auto")
		for address, want := range map[string]string{"10.8.1.1": test.here, "10.9.1.1": test.there} {
			name, err := dns.ReverseAddr(address)
			if err != nil {
				t.Fatal(err)
			}
			kube.Eventually(t, func() error {
				reply, err := dns.Exchange(new(dns.Msg).SetQuestion(name, dns.TypePTR), "127.0.0.1:"+s.dns)
				if err != nil {
					return err
				}
				var got []string
				for _, r := range reply.Answer {
					got = append(got, r.(*dns.PTR).Ptr)
				}
				slices.Sort(got)
				if strings.Join(got, " ") != want {
					return fmt.Errorf("with %q %s is %q, want %q", test.stanza, address, got, want)
				}
				return nil
			})
		}
	}
}
