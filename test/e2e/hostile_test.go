package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// Values that the hub's CRDs accept but no cluster should trust are left out and reported. The rest of the record is imported.
func TestHostilePayloads(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("hostile")
	xicheng, minhang, others := f.Member("xicheng"), f.Member("minhang"), f.Members[1:]
	// The exporter reports such a value to the cluster's own users before it sends anything.
	xicheng.Apply(service(ns, "own", httpPort), export(ns, "own", `exportedLabels: {kubernetes.io/service-name: kubernetes}`))
	kube.Eventually(t, func() error {
		var e mcsv1beta1.ServiceExport
		err := xicheng.Get(ns, "own", &e)
		if c := fleettest.Condition(e.Status.Conditions, api.ConditionComplete); err == nil && (c == nil || !strings.Contains(c.Message, "kubernetes.io/service-name")) {
			err = fmt.Errorf("it is %+v", c)
		}
		return err
	})
	minhang.Apply(service(ns, "web", httpPort), exportWith(ns, "web", "clusterset.dev/prefer: none"), slice(ns, "web", port8080, endpoint("10.202.15.1")))
	f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "web", "minhang") })

	var endpoints []string
	for _, a := range []string{"127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::ffff:127.0.0.1", "10.200.15"} {
		endpoints = append(endpoints, endpoint(a))
	}
	list := strings.Join(append(endpoints, endpoint("10.200.15.1", `zone: " padded"`)), ", ")
	attack(t, f,
		exportedService(ns, "web", `type: ClusterSetIP, clusterIPs: ["127.0.0.53"], ports: [{name: http, port: 80}], policy: {prefer: none}, exportedLabels: {"not a key": "1", kubernetes.io/service-name: kubernetes}`),
		exportedEndpoints(ns, "web", "x-0", "addressType: IPv4, ports: [{name: http, port: 8080}, {name: http, port: 8081}, {name: none}], endpoints: ["+list+"]"),
		exportedEndpoints(ns, "web", "x-6", `addressType: IPv6, ports: [{name: http, port: 8080}], endpoints: [{addresses: ["::1"]}, {addresses: ["fe80::1"]}, {addresses: ["10.200.15.2"]}]`),
		exportedService(ns, "bare", "type: Headless"),
		exportedEndpoints(ns, "bare", "x-0", "addressType: IPv4, endpoints: ["+list+"]"))
	for _, m := range others {
		kube.Eventually(t, func() error {
			i, err := m.Imported(ns, "web")
			if err == nil && (i.Global == nil || len(i.Global.Spec.Endpoints) != 1) {
				err = fmt.Errorf("%s: a GlobalService without the good ClusterIP alone: %+v", m.Spec.Name, i.Global)
			}
			return errors.Join(err, importedFrom(m, ns, "web", "minhang", "xicheng"), leadsTo(m, ns, "web", "10.200.15.1", "10.202.15.1"),
				m.ImportSays(ns, "web", api.ConditionComplete, "xicheng"), m.ImportSays(ns, "bare", api.ConditionComplete, "xicheng"))
		})
		m.DNS.Eventually("web."+ns+".svc.global", "A", minhang.ClusterIP(ns, "web", v4))
		m.DNS.Eventually("bare."+ns+".svc.clusterset.local", "A", "10.200.15.1")
		if !m.Agent.Running() || !m.DNS.Running() {
			t.Errorf("%s: something died of it", m.Spec.Name)
		}
	}
	// The agent starts again. It finds records in its namespace for services that its cluster doesn't export, and removes them.
	xicheng.StartAgent()
	f.Eventually(func(m *fleettest.Member) error {
		return errors.Join(importedFrom(m, ns, "web", "minhang"), m.Gone(ns, "bare"), f.Recorded("xicheng", ns, "web", false), f.Recorded("xicheng", ns, "bare", false))
	})
}

// leadsTo returns nil if a service's ClusterSetIP leads to these addresses in a member.
func leadsTo(m *fleettest.Member, ns, name string, want ...string) error {
	var all discoveryv1.EndpointSliceList
	err := m.List(&all, client.InNamespace(ns), client.MatchingLabels{api.LabelKubernetesServiceName: api.DerivedServiceName(ns, name)})
	var got []string
	for _, s := range all.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				got = append(got, e.Addresses...)
			}
		}
	}
	slices.Sort(got)
	if got = slices.Compact(got); err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("%s: the ClusterSetIP of %s leads to %v, want %v", m.Spec.Name, name, got, want)
	}
	return err
}
