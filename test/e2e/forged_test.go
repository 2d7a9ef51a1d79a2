package e2e

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// attack stops xicheng's agent, because that would remove foreign records, and writes manifests to the hub with the agent's credentials. When
// the test ends, the agent runs again and removes what is left of them.
func attack(t *testing.T, f *fleettest.Fleet, manifests ...string) {
	t.Helper()
	m := f.Member("xicheng")
	c, err := client.New(m.OnHub(), client.Options{Scheme: fleet.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	m.KillAgent()
	t.Cleanup(func() {
		m.StartAgent()
		f.Settle()
	})
	for _, text := range manifests {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), o); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatalf("create %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// forged returns a record of xicheng that claims to be minhang's, and of 1970.
func forged(kind, ns, name, suffix, more string) string {
	return fmt.Sprintf(`
apiVersion: clusterset.dev/v1alpha1
kind: %s
metadata:
  namespace: %s
  name: %s.%s%s
  labels: {clusterset.dev/cluster: minhang, multicluster.kubernetes.io/source-cluster: minhang, clusterset.dev/service-namespace: %s}
spec: {serviceNamespace: %s, serviceName: %s, %s}
`, kind, api.MemberNamespace("xicheng"), name, ns, suffix, ns, ns, name, more)
}

func exportedService(ns, name, more string) string {
	return forged("ExportedService", ns, name, "", `exportedAt: "1970-01-02T00:00:00Z", `+more)
}

func exportedEndpoints(ns, name, suffix, more string) string {
	return forged("ExportedEndpoints", ns, name, "."+suffix, more)
}

// A member can only write records in its own name: labels and payload that name another cluster don't change that cluster's part of a service.
// If an administrator has declared a member's networks, the member can't export other addresses.
func TestForgedOriginChangesNothing(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("forged")
	f.Member("minhang").Apply(exported(ns, "db", headless), slice(ns, "db", port8080, endpoint("10.202.14.1", "hostname: db-0")))
	f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "db", "minhang") })
	before := versions(f.Hub, "minhang", ns)

	attack(t, f,
		exportedService(ns, "db", "type: Headless, cluster: minhang, sourceCluster: minhang, ports: [{name: http, port: 80}], "+
			`exportedLabels: {multicluster.kubernetes.io/source-cluster: minhang, clusterset.dev/managed-by: someone, team: mine}`),
		exportedEndpoints(ns, "db", "x-0", `addressType: IPv4, cluster: minhang, ports: [{name: http, port: 8080}], endpoints: [{addresses: ["10.200.14.66"], hostname: db-0, zone: shanghai}]`))
	name, others := "db."+ns+".svc.", f.Members[1:]
	for _, m := range others {
		kube.Eventually(t, func() error {
			i, err := m.Imported(ns, "db")
			if err != nil || i.ServiceImport == nil {
				return fmt.Errorf("%s: no ServiceImport: %w", m.Spec.Name, err)
			}
			from := map[string]string{}
			for _, s := range i.Slices {
				for _, e := range s.Endpoints {
					from[e.Addresses[0]] = s.Labels[api.LabelSourceCluster]
				}
			}
			got := fmt.Sprint(from, i.ServiceImport.Labels)
			if want := fmt.Sprint(map[string]string{"10.200.14.66": "xicheng", "10.202.14.1": "minhang"}, map[string]string{api.LabelManagedBy: api.ManagedByImporter, "team": "mine"}); got != want {
				return fmt.Errorf("%s: addresses' clusters and labels are %s, want %s", m.Spec.Name, got, want)
			}
			return importedFrom(m, ns, "db", "xicheng", "minhang")
		})
		for _, zone := range []string{"clusterset.local", "global"} {
			m.DNS.Eventually("db-0.minhang."+name+zone, "A", "10.202.14.1")
			m.DNS.Eventually("db-0.xicheng."+name+zone, "A", "10.200.14.66")
		}
		m.DNS.Eventually("minhang."+name+"global", "A", "10.202.14.1")
	}
	if now := versions(f.Hub, "minhang", ns); now != before {
		t.Errorf("the other member's records are\n%s, were\n%s", now, before)
	}

	t.Cleanup(func() { patchMember(f, "xicheng", `{"spec":{"cidrs":null}}`) })
	patchMember(f, "xicheng", `{"spec":{"cidrs":["10.100.0.0/16"]}}`) // now three parts are left out: this address and the two reserved labels
	for _, m := range others {
		m.DNS.Eventually("db-0.xicheng."+name+"clusterset.local", "A", "NXDOMAIN")
		m.DNS.Eventually("db-0.minhang."+name+"clusterset.local", "A", "10.202.14.1")
		kube.Eventually(t, func() error {
			return m.ImportSays(ns, "db", api.ConditionComplete, "3 parts of the exports of xicheng")
		})
	}
}
