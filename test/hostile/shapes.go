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
	// Useless means that nothing of it can be imported, so that it may cost next to nothing.
	Useless bool
	// Run writes until the attacker's share of bytes is used up, or the hub doesn't let it.
	Run func(a *Attacker)
}

// Shapes are in the order in which they are written. What was written stays on the hub, so that the last one meets all of it.
var Shapes = []Shape{
	{"IPv4 addresses in records of IPv6", "addresses of an endpoint and endpoints of a record in the CRD; a few errors are kept of a record", true, func(a *Attacker) {
		a.fill("v6", []int{100, 16, 8, 4, 2, 1}, func(name string, perEndpoint int) map[string]any {
			return a.endpoints(name, "IPv6", 100, func(i int) map[string]any {
				return map[string]any{"addresses": repeat(perEndpoint, func(j int) any { return fmt.Sprintf("10.%d.%d.%d", j, i/250, i%250+1) })}
			})
		})
	}},
	{"exported annotations", "their size in the CRD and the admission policy", false, func(a *Attacker) {
		a.fill("notes", []int{1200 << 10, 250 << 10, 60 << 10, 30 << 10, 15 << 10, 4 << 10, 1 << 10}, func(name string, size int) map[string]any {
			return a.service(name, map[string]any{"exportedAnnotations": map[string]any{"example.com/note": strings.Repeat("x", size)}})
		})
	}},
	{"exported labels", "their number in the CRD", false, func(a *Attacker) {
		a.fill("labels", []int{10000, 1000, 256, 64, 16, 4}, func(name string, n int) map[string]any {
			labels := map[string]any{}
			for i := range n {
				labels[fmt.Sprintf("example.com/%050d", i)] = strings.Repeat("v", 60)
			}
			return a.service(name, map[string]any{"exportedLabels": labels})
		})
	}},
	{"labels and annotations of the records themselves", "the admission policy; importers don't keep them", false, func(a *Attacker) {
		a.fill("meta", []int{250 << 10, 60 << 10, 15 << 10, 4 << 10, 1 << 10, 200}, func(name string, size int) map[string]any {
			o := a.service(name, nil)
			o["metadata"].(map[string]any)["annotations"] = map[string]any{"example.com/note": strings.Repeat("x", size)}
			return o
		})
	}},
	{"ports", "their number and names in the CRD", false, func(a *Attacker) {
		a.fill("ports", []int{60000, 5000, 1000, 256, 100, 64, 16}, func(name string, n int) map[string]any {
			return a.service(name, map[string]any{"ports": repeat(n, func(i int) any {
				return map[string]any{"name": fmt.Sprintf("p%062d", i), "port": int64(i%65535 + 1), "protocol": "TCP"}
			})})
		})
	}},
	{"host names, node zones and strings of any length", "their lengths in the CRD", false, func(a *Attacker) {
		a.fill("strings", []int{10000, 1000, 253, 63}, func(name string, n int) map[string]any {
			return a.endpoints(name, "IPv4", 100, func(i int) map[string]any {
				return map[string]any{"addresses": []any{fmt.Sprintf("10.66.0.%d", i+1)}, "hostname": strings.Repeat("h", n), "zone": strings.Repeat("z", n)}
			})
		})
	}},
	{"valid endpoints", "1,000 records of a service and 5,000 services of a cluster are imported; the write budget of a cluster", false, func(a *Attacker) {
		a.fill("valid", []int{100}, func(name string, n int) map[string]any {
			return a.endpoints(name, "IPv4", n, func(i int) map[string]any {
				return map[string]any{"addresses": []any{fmt.Sprintf("10.%d.%d.%d", a.Written%200+1, a.Written/200%250, i+1)}}
			})
		})
	}},
	{"one endpoint of a large service, changed again and again", "the write budget of a cluster", false, func(a *Attacker) { a.flap() }},
	{"heartbeats that say something else each time", "facts of a heartbeat are copied once a minute", false, func(a *Attacker) { a.flip() }},
	{"other Leases, and a heartbeat of a mebibyte", "the quota and the admission policy", false, func(a *Attacker) { a.leases() }},
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

// endpoints returns ExportedEndpoints of a service that takes part of its name from the record's.
func (a *Attacker) endpoints(name, family string, n int, endpoint func(i int) map[string]any) map[string]any {
	of, _, _ := strings.Cut(name, "-")
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
