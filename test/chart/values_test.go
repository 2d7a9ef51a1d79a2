package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// A label that is chosen for all objects can be chosen for one of them too. A key that is there twice isn't YAML, which Flux and kubectl's
// kustomize refuse.
func TestLabelsMayOverlap(t *testing.T) {
	manifests := render(t, Options{"clusterset", "clusterset-system", `
commonLabels: {team: platform}
dns: {podLabels: {team: network}}
metrics: {serviceMonitor: {enabled: true, labels: {team: network}}, rules: {enabled: true, labels: {team: network}}, dashboards: {enabled: true, labels: {team: network}}}
`, newest}).Manifests
	network := 0
	for _, document := range strings.Split(manifests, "\n---\n") {
		if err := yaml.UnmarshalStrict([]byte(document), &map[string]any{}); err != nil {
			t.Errorf("%v:\n%s", err, document)
		}
		network += strings.Count(document, "team: network")
	}
	if network < 4 {
		t.Errorf("%d objects have the label that was chosen for them, want four at least", network)
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

// Values that Helm has stored come back as floating-point numbers, which YAML writes as 1e+06.
func TestLargeNumbers(t *testing.T) {
	all := objects(t, render(t, Options{"clusterset", "clusterset-system", `
member: {maxServices: 1e6, maxNamespaces: 1e6, maxExportsPerNamespace: 1e6, createNamespaces: true}
hub: {enabled: true, maxServices: 1e6}
`, newest}).Manifests)
	for component, flags := range map[string][]string{"member": {"max-services", "max-namespaces", "max-exports-per-namespace"}, "hub": {"max-services"}} {
		args := deployment(t, all, component).Spec.Template.Spec.Containers[0].Args
		for _, flag := range flags {
			if want := fmt.Sprintf("--%s=1000000", flag); !slices.Contains(args, want) {
				t.Errorf("%s lacks %s: %q", component, want, args)
			}
		}
	}
}

// A PriorityClass's value can't be changed, so another value makes another object, which the pods name.
func TestPriorityCanChange(t *testing.T) {
	for value, want := range map[string]string{"": "clusterset.clusterset-system", "priorityClass: {value: 1000000}": "clusterset.clusterset-system.1000000"} {
		all := objects(t, render(t, Options{"clusterset", "clusterset-system", value, newest}).Manifests)
		classes := only(all, "PriorityClass")
		if len(classes) != 1 || classes[0].GetName() != want || deployment(t, all, "member").Spec.Template.Spec.PriorityClassName != want {
			t.Errorf("%q: %v, want %s, also of the pods", value, classes, want)
		}
	}
}

// The image's name has its registry: a node that completes no short names (CRI-O's short_name_mode) pulls no other.
func TestImageNamesItsRegistry(t *testing.T) {
	all := objects(t, render(t, Options{"clusterset", "clusterset-system", "hub: {enabled: true}", newest}).Manifests)
	for _, component := range []string{"hub", "member", "dns"} {
		image := deployment(t, all, component).Spec.Template.Spec.Containers[0].Image
		if registry, _, _ := strings.Cut(image, "/"); registry != "docker.io" {
			t.Errorf("the image of %s is %s", component, image)
		}
	}
}

// The NetworkPolicies let through what other values set: beacons on another port, and upstream servers on theirs. Whoever asks the cluster DNS may do
// so on OpenShift too, where its pods listen on 5353.
func TestPoliciesLetOwnPortsThrough(t *testing.T) {
	manifests := render(t, Options{"clusterset", "kube-system", `
networkPolicy: {enabled: true}
member: {beacon: {port: 9500}}
dns: {mode: clusterDNS, service: {clusterIP: 10.96.0.10}, clusterDNS: {upstream: [192.0.2.53, "192.0.2.54:5353", "[2001:db8::53]:5354", "2001:db8::1:54", "tls://192.0.2.55", "tls://192.0.2.56:8853"]}}
`, newest}).Manifests
	for port, want := range map[int]int{53: 4, 54: 0, 853: 2, 5353: 4, 5354: 2, 8853: 2, 9471: 1, 9500: 1} {
		if got := strings.Count(manifests, fmt.Sprintf("- {port: %d, protocol: ", port)); got != want {
			t.Errorf("%d rules for port %d, want %d", got, port, want)
		}
	}
}
