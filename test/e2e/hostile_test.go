package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// Values that the hub's CRDs accept but no cluster should trust are left out and reported. The rest of the record
// is imported.
func TestHostilePayloads(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("hostile")
	victim := f.Member("minhang")
	victim.Apply(exported(ns, "web", httpPort), unranked(ns, "web"), slice(ns, "web", "1", "IPv4", port8080, endpoint("10.202.15.1")))
	f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "web", "minhang") })
	others := f.Members[1:]
	write := attack(f, "xicheng")

	t.Run("the hub refuses what can't be", func(t *testing.T) {
		for what, manifest := range map[string]string{
			"a name that isn't the service's": strings.Replace(exportedService("xicheng", ns, "a", "type: Headless"), "name: a."+ns, "name: b."+ns, 1),
			"an upper-case name":              exportedService("xicheng", ns, "Web", "type: Headless"),
			"a name with a dot":               exportedService("xicheng", ns, "a.b", "type: Headless"),
			"a port too high":                 exportedService("xicheng", ns, "a", "type: ClusterSetIP, ports: [{port: 65536}]"),
			"an unknown type":                 exportedService("xicheng", ns, "a", "type: ExternalName"),
			"names in place of addresses":     exportedEndpoints("xicheng", ns, "a", "x-0", "addressType: FQDN, endpoints: [{addresses: [example.org]}]"),
			"too many endpoints": exportedEndpoints("xicheng", ns, "a", "x-0", "addressType: IPv4, endpoints: ["+
				strings.Repeat(`{addresses: ["10.200.15.1"]}, `, 100)+`{addresses: ["10.200.15.1"]}]`),
			"too many addresses":      exportedEndpoints("xicheng", ns, "a", "x-0", `addressType: IPv4, endpoints: [{addresses: ["10.200.15.1", "10.200.15.2", "10.200.15.3", "10.200.15.4", "10.200.15.5"]}]`),
			"a word as an address":    exportedEndpoints("xicheng", ns, "a", "x-0", `addressType: IPv4, endpoints: [{addresses: [nonsense]}]`),
			"an address with a zone":  exportedEndpoints("xicheng", ns, "a", "x-0", `addressType: IPv6, endpoints: [{addresses: ["fd00::1%eth0"]}]`),
			"an upper-case host name": exportedEndpoints("xicheng", ns, "a", "x-0", `addressType: IPv4, endpoints: [{addresses: ["10.200.15.1"], hostname: UPPER.case}]`),
			"a long zone":             exportedEndpoints("xicheng", ns, "a", "x-0", `addressType: IPv4, endpoints: [{addresses: ["10.200.15.1"], zone: `+strings.Repeat("z", 64)+`}]`),
			"long annotations":        exportedService("xicheng", ns, "a", "type: Headless, exportedAnnotations: {note: "+strings.Repeat("v", 17<<10)+"}"),
		} {
			if err := write(manifest); !apierrors.IsInvalid(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})

	addresses := []string{"127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::ffff:127.0.0.1", "10.200.15"}
	var endpoints []string
	for _, a := range addresses {
		endpoints = append(endpoints, fmt.Sprintf("{addresses: [%q]}", a))
	}
	endpoints = append(endpoints, `{addresses: ["10.200.15.1"], zone: " padded"}`)
	if err := write(
		exportedService("xicheng", ns, "web", `type: ClusterSetIP, clusterIPs: ["127.0.0.53"], ports: [{name: http, port: 80}], policy: {prefer: none}, exportedLabels: {"not a key": "1", kubernetes.io/service-name: kubernetes}`),
		exportedEndpoints("xicheng", ns, "web", "x-0", "addressType: IPv4, ports: [{name: http, port: 8080}, {name: http, port: 8081}, {name: none}], endpoints: ["+strings.Join(endpoints, ", ")+"]"),
		exportedEndpoints("xicheng", ns, "web", "x-6", `addressType: IPv6, ports: [{name: http, port: 8080}], endpoints: [{addresses: ["::1"]}, {addresses: ["fe80::1"]}, {addresses: ["10.200.15.2"]}]`),
		exportedService("xicheng", ns, "bare", "type: Headless"),
		exportedEndpoints("xicheng", ns, "bare", "x-0", "addressType: IPv4, endpoints: ["+strings.Join(endpoints, ", ")+"]"),
	); err != nil {
		t.Fatal(err)
	}
	for _, m := range others {
		t.Run(m.Spec.Name+" leaves it out", func(t *testing.T) {
			kube.Eventually(t, func() error {
				i, err := m.Imported(ns, "web")
				if err != nil {
					return err
				}
				return errors.Join(importedFrom(m, ns, "web", "minhang", "xicheng"),
					proxied(m, ns, "web", map[string][]string{"http 80/TCP": {"10.200.15.1:8080", "10.202.15.1:8080"}}),
					checkNotNil(i.Global != nil && len(i.Global.Spec.Endpoints) == 1, "GlobalService with the good ClusterIP alone"),
					m.ImportSays(ns, "web", api.ConditionComplete, "xicheng"),
					m.ImportSays(ns, "bare", api.ConditionComplete, "xicheng"))
			})
			m.DNS.Eventually("web."+ns+".svc.global", "A", victim.ClusterIP(ns, "web", v4))
			m.DNS.Eventually("bare."+ns+".svc.clusterset.local", "A", "10.200.15.1")
		})
	}

	for _, m := range others {
		if !m.Agent.Running() || !m.DNS.Running() {
			t.Errorf("%s: something died of it", m.Spec.Name)
		}
	}
	// The agent starts again. It finds records in its namespace for services that its cluster doesn't export, and removes
	// them.
	f.Member("xicheng").StartAgent()
	for _, name := range []string{"web", "bare"} {
		kube.Eventually(t, func() error { return f.Recorded("xicheng", ns, name, false) })
	}
	f.Eventually(func(m *fleettest.Member) error {
		return errors.Join(importedFrom(m, ns, "web", "minhang"), m.Gone(ns, "bare"))
	})
	// The exporter reports such a value to the cluster's own users before it sends anything.
	a := f.Member("xicheng")
	a.Apply(service(ns, "own", httpPort), export(ns, "own", `exportedLabels: {kubernetes.io/service-name: kubernetes}`))
	kube.Eventually(t, func() error {
		var e mcsv1beta1.ServiceExport
		if err := a.Get(ns, "own", &e); err != nil {
			return err
		}
		c := fleettest.Condition(e.Status.Conditions, api.ConditionComplete)
		if c == nil || !strings.Contains(c.Message, "kubernetes.io/service-name") {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}
