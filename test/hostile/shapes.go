package hostile

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/clusterset/clusterset/api"
)

// Shape is one way to misuse a member's credential.
type Shape struct {
	// What is written, and what limits it, in the words of the table.
	What, Bound string
	// Refused means that the hub takes nothing of it. It takes the whole share of any other shape, or the table would show what nobody did.
	Refused bool
	// Run writes until the attacker's share of bytes is used up, or the hub doesn't let it.
	Run func(a *Attacker)
}

// Honest is what a large honest cluster exports, with everything that it is permitted: records can't be told from a thief's if they are valid.
// What hostile records cost is compared with this.
var Honest = Shape{What: "an honest cluster, with as many services and as much memory as one may have", Bound: "`--max-services`, `--max-record-memory`", Run: func(a *Attacker) {
	a.fill(filling{prefix: "honest", sizes: []int{honestEndpoints}, per: 1, endpoints: func(service, name string, n, endpoints int) map[string]any {
		return a.endpoints(service, name, "IPv4", endpoints, func(i int) map[string]any {
			return map[string]any{
				"addresses": []any{fmt.Sprintf("10.%d.%d.%d", n/250+1, n%250, i+1)}, "zone": "zone-1", "conditions": map[string]any{"ready": true},
			}
		})
	}})
}}

// honestEndpoints is how many endpoints each service of Honest has: 4,900 of them then take what --max-record-memory permits (size of internal/door).
const honestEndpoints = 16

// Shapes are in the order in which they are written.
var Shapes = []Shape{
	{What: "IPv4 addresses in records of IPv6", Bound: "addresses of an endpoint and endpoints of a record in the CRD; a few errors are kept of a record", Run: func(a *Attacker) {
		a.fill(filling{prefix: "v6", sizes: []int{100, 16, 8, 4, 2, 1}, endpoints: func(service, name string, _, perEndpoint int) map[string]any {
			return a.endpoints(service, name, "IPv6", 100, func(i int) map[string]any {
				return map[string]any{"addresses": repeat(perEndpoint, func(j int) any { return fmt.Sprintf("10.%d.%d.%d", j, i/250, i%250+1) })}
			})
		}})
	}},
	{What: "exported annotations", Bound: "their size in the CRD and the admission policy", Run: func(a *Attacker) {
		a.fill(filling{prefix: "notes", sizes: []int{1200 << 10, 250 << 10, 60 << 10, 30 << 10, 15 << 10, 4 << 10, 1 << 10}, service: func(name string, size int) map[string]any {
			return a.service(name, map[string]any{"exportedAnnotations": map[string]any{"example.com/note": strings.Repeat("x", size)}})
		}})
	}},
	{What: "exported labels", Bound: "their number in the CRD", Run: func(a *Attacker) {
		a.fill(filling{prefix: "labels", sizes: []int{10000, 1000, 256, 64, 16, 4}, service: func(name string, n int) map[string]any {
			labels := map[string]any{}
			for i := range n {
				labels[fmt.Sprintf("example.com/%050d", i)] = strings.Repeat("v", 60)
			}
			return a.service(name, map[string]any{"exportedLabels": labels})
		}})
	}},
	{What: "labels and annotations of the records themselves", Bound: "the admission policy; importers don't keep them", Run: func(a *Attacker) {
		a.fill(filling{prefix: "meta", sizes: []int{250 << 10, 60 << 10, 15 << 10, 4 << 10, 1 << 10, 200}, service: func(name string, size int) map[string]any {
			o := a.service(name, nil)
			o["metadata"].(map[string]any)["annotations"] = map[string]any{"example.com/note": strings.Repeat("x", size)}
			return o
		}})
	}},
	{What: "ports", Bound: "their number and names in the CRD", Run: func(a *Attacker) {
		a.fill(filling{prefix: "ports", sizes: []int{60000, 5000, 1000, 256, 100, 64, 16}, service: func(name string, n int) map[string]any {
			return a.service(name, map[string]any{"ports": repeat(n, func(i int) any {
				return map[string]any{"name": fmt.Sprintf("p%062d", i), "port": int64(i%65535 + 1), "protocol": "TCP"}
			})})
		}})
	}},
	{What: "host names, node zones and strings of any length", Bound: "their lengths in the CRD", Run: func(a *Attacker) {
		a.fill(filling{prefix: "strings", sizes: []int{10000, 1000, 253, 63}, endpoints: func(service, name string, _, n int) map[string]any {
			return a.endpoints(service, name, "IPv4", 100, func(i int) map[string]any {
				return map[string]any{"addresses": []any{fmt.Sprintf("10.66.0.%d", i+1)}, "hostname": strings.Repeat("h", n), "zone": strings.Repeat("z", n)}
			})
		}})
	}},
	{What: "valid endpoints", Bound: "the memory that records of a cluster may take; the write budget of a cluster", Run: func(a *Attacker) {
		a.fill(filling{prefix: "valid", sizes: []int{100}, endpoints: func(service, name string, n, endpoints int) map[string]any {
			return a.endpoints(service, name, "IPv4", endpoints, func(i int) map[string]any {
				return map[string]any{"addresses": []any{fmt.Sprintf("10.%d.%d.%d", n/250%200+1, n%250, i+1)}}
			})
		}})
	}},
	{What: "one endpoint of a large service, changed again and again", Bound: "the write budget of a cluster", Run: func(a *Attacker) { a.flap() }},
	{What: "reports that say something else each time", Bound: "a report is copied once a minute", Run: func(a *Attacker) {
		a.flip(func(i int) []string { return []string{fmt.Sprintf("10.79.0.%d:9444", i%2+1)} })
	}},
	{What: "beacons at addresses of others, other ones each time", Bound: "only four that lie in the cluster's networks are dialled; a report is copied once a minute", Run: func(a *Attacker) {
		a.flip(func(i int) []string {
			return []string{fmt.Sprintf("127.0.0.1:%d", i%60000+1), "169.254.169.254:80", fmt.Sprintf("10.50.0.%d:6443", i%250+1), "[ff02::1]:9444", fmt.Sprintf("10.50.1.%d:22", i%250+1), "nowhere.invalid:9444"}
		})
	}},
	{What: "other Leases, and a heartbeat of a mebibyte", Bound: "its Role and the admission policy", Refused: true, Run: func(a *Attacker) { a.leases() }},
}

// service returns an ExportedService with additional fields in its spec.
func (a *Attacker) service(name string, more map[string]any) map[string]any {
	spec := map[string]any{
		"serviceNamespace": a.Namespace, "serviceName": name, "exportedAt": "1970-01-02T00:00:00Z", "type": "Headless",
		"ports": []any{map[string]any{"name": "http", "port": int64(80), "protocol": "TCP"}},
	}
	for k, v := range more {
		spec[k] = v
	}
	return a.record("ExportedService", name+"."+a.Namespace, spec)
}

// endpoints returns ExportedEndpoints of a service.
func (a *Attacker) endpoints(of, name, family string, n int, endpoint func(i int) map[string]any) map[string]any {
	return a.record("ExportedEndpoints", of+"."+a.Namespace+"."+name, map[string]any{
		"serviceNamespace": a.Namespace, "serviceName": of, "addressType": family,
		"ports":     []any{map[string]any{"name": "http", "port": int64(8080), "protocol": "TCP"}},
		"endpoints": repeat(n, func(i int) any { return endpoint(i) }),
	})
}

func (a *Attacker) record(kind, name string, spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "clusterset.dev/v1alpha1", "kind": kind,
		"metadata": map[string]any{"namespace": api.MemberNamespace(a.Cluster), "name": name, "labels": map[string]any{"clusterset.dev/service-namespace": a.Namespace}},
		"spec":     spec,
	}
}

func repeat(n int, item func(i int) any) []any {
	items := make([]any, n)
	for i := range items {
		items[i] = item(i)
	}
	return items
}

func object(content map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: content}
}
