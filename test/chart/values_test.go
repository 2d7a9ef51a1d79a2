package chart

import (
	"strings"
	"testing"
)

// What values change, by how often a text is in the manifests and the notes. No key is there twice (objects): that isn't YAML, which Flux and
// kubectl's kustomize refuse.
func TestValuesChangeWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		why, values string
		want        map[string]int
	}{
		{"a label that is chosen for all objects can be chosen for one of them too", `
commonLabels: {team: platform}
dns: {podLabels: {team: network}}
metrics: {serviceMonitor: {enabled: true, labels: {team: network}}, rules: {enabled: true, labels: {team: network}}, dashboards: {enabled: true, labels: {team: network}}}
`, map[string]int{"team: network": 6}},
		{"values that Helm has stored come back as floating-point numbers, which YAML writes as 1e+06", `
member: {maxServices: 1e6, maxNamespaces: 1e6, maxExportsPerNamespace: 1e6, createNamespaces: true}
hub: {enabled: true, maxServices: 1e6}
`, map[string]int{"--max-services=1000000\n": 2, "--max-namespaces=1000000\n": 1, "--max-exports-per-namespace=1000000\n": 1}},
		{"the class of pods", "", map[string]int{"kind: PriorityClass\nmetadata:\n  name: clusterset.clusterset-system\n": 1, "priorityClassName: clusterset.clusterset-system\n": 2}},
		{"a PriorityClass's value can't be changed, so another value makes another object", "priorityClass: {value: 1000000}",
			map[string]int{"kind: PriorityClass\nmetadata:\n  name: clusterset.clusterset-system.1000000\n": 1, "priorityClassName: clusterset.clusterset-system.1000000\n": 2}},
		{"a node that completes no short names (CRI-O's short_name_mode) pulls only images that name their registry", "hub: {enabled: true}",
			map[string]int{"image: \"docker.io/": 3}},
		{"global is a public top-level domain: forward only svc.global", "dns: {zones: [global, clusterset.local]}",
			map[string]int{"\n  svc.global:53 clusterset.local:53 {\n": 1}},
		{"policies let beacons and upstream servers through, and whoever asks the cluster DNS on OpenShift, where its pods listen on 5353", `
networkPolicy: {enabled: true}
member: {beacon: {port: 9500}}
dns: {mode: clusterDNS, service: {clusterIP: 10.96.0.10}, clusterDNS: {upstream: [192.0.2.53, "192.0.2.54:5353", "[2001:db8::53]:5354", "2001:db8::1:54", "tls://192.0.2.55", "tls://192.0.2.56:8853"]}}
`, map[string]int{"{port: 53,": 4, "{port: 54,": 0, "{port: 853,": 2, "{port: 5353,": 4, "{port: 5354,": 2, "{port: 8853,": 2, "{port: 9471,": 1, "{port: 9500,": 1}},
	} {
		namespace := "clusterset-system"
		if strings.Contains(c.values, "clusterDNS") {
			namespace = "kube-system"
		}
		r := render(t, Options{"clusterset", namespace, c.values, newest})
		objects(t, r.Manifests)
		for text, want := range c.want {
			if got := strings.Count(r.Manifests+r.Notes, text); got != want {
				t.Errorf("%s: %q is there %d times, want %d", c.why, text, got, want)
			}
		}
	}
}

// The command line finds pods by this label and program (Pods in cli/objects), which no value changes.
func TestPodsCanBeFound(t *testing.T) {
	all := objects(t, render(t, Options{"clusterset", "clusterset-system", "{nameOverride: names, hub: {enabled: true}}", newest}).Manifests)
	for component, program := range map[string]string{"hub": "/clusterset", "member": "/clusterset", "dns": "/coredns"} {
		template := deployment(t, all, component).Spec.Template
		if label, command := template.Labels["app.kubernetes.io/component"], template.Spec.Containers[0].Command[0]; label != component || command != program {
			t.Errorf("%s is labelled %q and runs %s, want %s", component, label, command, program)
		}
	}
}
