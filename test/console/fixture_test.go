package console

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// cluster is a cluster that exists only in the hub's records.
type cluster struct {
	name, zones, region, phase, version string
	drain                               bool
}

// cities are the clusters of the set that most tests use, and that the pictures show.
var cities = []cluster{
	{name: "beijing-1", zones: "cn-north-1a", region: "cn-north"},
	{name: "beijing-2", zones: "cn-north-1b", region: "cn-north"},
	{name: "tianjin", zones: "cn-north-1b", region: "cn-north", drain: true},
	{name: "shijiazhuang", zones: "cn-north-2a", region: "cn-north"},
	{name: "shanghai-1", zones: "cn-east-1a", region: "cn-east"},
	{name: "shanghai-2", zones: "cn-east-1b", region: "cn-east"},
	{name: "hangzhou", zones: "cn-east-1b", region: "cn-east"},
	{name: "nanjing", zones: "cn-east-2a", region: "cn-east", phase: "Suspect"},
	{name: "guangzhou", zones: "cn-south-1a", region: "cn-south"},
	{name: "shenzhen", zones: "cn-south-1a, cn-south-1b", region: "cn-south"},
	{name: "xiamen", zones: "cn-south-2a", region: "cn-south", version: "v0.11.4"},
	{name: "nanning", zones: "cn-south-2b", region: "cn-south", phase: "Expired"},
}

// exported is a service of the set, with its number of ready endpoints in each cluster that exports it.
type exported struct {
	name, kind, policy string
	by                 map[string]int
	more               map[string]string // by cluster: fields of the ExportedService's spec that replace its ports
}

var services = []exported{
	{name: "shop/web", by: map[string]int{"beijing-1": 3, "beijing-2": 2, "tianjin": 2, "shanghai-1": 4, "hangzhou": 2, "guangzhou": 3, "nanning": 2}},
	{name: "shop/cart", by: map[string]int{"beijing-2": 3, "shanghai-1": 3, "shenzhen": 2}, policy: "{prefer: zone region, boundary: region, minReady: 2}"},
	{name: "shop/checkout", by: map[string]int{"beijing-1": 2, "shanghai-2": 2}},
	{name: "shop/inventory", by: map[string]int{"shijiazhuang": 2, "hangzhou": 3, "xiamen": 1}},
	{name: "payments/api", by: map[string]int{"beijing-1": 4, "shanghai-1": 4, "guangzhou": 4}, policy: "{prefer: cluster zone region}"},
	{name: "payments/ledger", by: map[string]int{"beijing-1": 1}},
	{name: "payments/fraud", kind: "Headless", by: map[string]int{"shanghai-1": 2, "shanghai-2": 2}},
	{name: "search/query", by: map[string]int{"beijing-1": 2, "beijing-2": 2, "shanghai-1": 2, "shanghai-2": 2, "hangzhou": 2, "guangzhou": 2, "shenzhen": 2, "xiamen": 2}},
	{name: "search/index", kind: "Headless", by: map[string]int{"hangzhou": 3, "nanjing": 3}},
	{name: "media/images", by: map[string]int{"guangzhou": 2, "shenzhen": 3}, policy: "{prefer: none}"},
	{name: "media/transcode", by: map[string]int{"nanjing": 2}},
	{
		name: "infra/metrics", by: map[string]int{"beijing-1": 1, "shanghai-1": 1, "guangzhou": 1, "xiamen": 1},
		more: map[string]string{"shanghai-1": "ports: [{name: http, protocol: TCP, port: 9090}]"},
	},
	{name: "infra/traces", by: map[string]int{"tianjin": 2, "beijing-2": 0}},
	{name: "infra/queue", kind: "Headless", by: map[string]int{"xiamen": 0}},
}

// records returns the hub's records of the clusters and services, as kubectl get -o yaml prints them, with the MemberClusters'
// statuses.
func records(clusters []cluster, services []exported) string {
	var b strings.Builder
	for _, c := range clusters {
		zones := "zone: " + quote(c.zones)
		if strings.Contains(c.zones, ",") {
			zones = "zones: [" + c.zones + "]"
		}
		phase, version := c.phase, c.version
		if phase == "" {
			phase = "Ready"
		}
		if version == "" {
			version = "v0.12.0"
		}
		silent := ""
		if phase != "Ready" {
			silent = `, lastHeartbeatTime: "2026-11-22T11:58:00Z"`
		}
		n := 0
		for _, s := range services {
			if _, by := s.by[c.name]; by {
				n++
			}
		}
		fmt.Fprintf(&b, `---
apiVersion: clusterset.dev/v1alpha1
kind: MemberCluster
metadata: {name: %s, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {%s, region: %s, drain: %v}
status: {phase: %s, agentVersion: %s, exportedServices: %d%s}
`, c.name, zones, quote(c.region), c.drain, phase, quote(version), n, silent)
	}
	for i, s := range services {
		ns, name, _ := strings.Cut(s.name, "/")
		for j, c := range clusters {
			ready, by := s.by[c.name]
			if !by {
				continue
			}
			spec := fmt.Sprintf("type: ClusterSetIP, clusterIPs: [10.%d.%d.10]", 60+j%190, 1+i%250)
			if s.kind == "Headless" {
				spec = "type: Headless"
			}
			ports := "ports: [{name: http, protocol: TCP, port: 80}]"
			if s.more[c.name] != "" {
				ports = s.more[c.name]
			}
			if s.policy != "" {
				ports += ", policy: " + s.policy
			}
			var endpoints []string
			for e := range ready + 1 {
				endpoints = append(endpoints, fmt.Sprintf("{addresses: [10.%d.%d.%d], conditions: {ready: %v}}", 60+j%190, 100+i%150, e+1, e < ready))
			}
			fmt.Fprintf(&b, `---
apiVersion: clusterset.dev/v1alpha1
kind: ExportedService
metadata: {namespace: clusterset-member-%[1]s, name: %[3]s.%[2]s}
spec: {serviceNamespace: %[2]s, serviceName: %[3]s, %[4]s, ipFamilies: [IPv4], %[5]s, exportedAt: "2026-%02[6]d-01T00:00:00Z"}
---
apiVersion: clusterset.dev/v1alpha1
kind: ExportedEndpoints
metadata: {namespace: clusterset-member-%[1]s, name: %[3]s.%[2]s.x-0}
spec: {serviceNamespace: %[2]s, serviceName: %[3]s, addressType: IPv4, ports: [{name: http, protocol: TCP, port: 8080}], endpoints: [%[7]s]}
`, c.name, ns, name, spec, ports, 1+j%9, strings.Join(endpoints, ", "))
		}
	}
	return b.String()
}

// files writes manifests into a temporary folder.
func files(t testing.TB, manifests string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hub.yaml"), []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// theSet starts a console that reads the cities from files.
func theSet(t testing.TB) *consoled {
	t.Helper()
	return start(t, "--manifests", files(t, records(cities, services)))
}
