package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// attack stops a member's agent, because that would remove foreign records, and returns a function that writes manifests to
// the hub with the agent's credentials. When the test ends, the agent runs again and removes what is left of them.
func attack(f *fleettest.Fleet, from string) func(manifests ...string) error {
	f.Helper()
	m := f.Member(from)
	c, err := client.New(m.OnHub(), client.Options{Scheme: fleet.Scheme})
	if err != nil {
		f.Fatal(err)
	}
	m.KillAgent()
	f.Cleanup(func() {
		m.StartAgent()
		f.Settle()
	})
	return func(manifests ...string) error {
		for _, text := range manifests {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(text), o); err != nil {
				return err
			}
			if err := c.Create(context.Background(), o); err != nil {
				return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
		return nil
	}
}

func exportedService(in, ns, name, more string) string {
	return fmt.Sprintf(`
apiVersion: clusterset.dev/v1alpha1
kind: ExportedService
metadata:
  namespace: %s
  name: %s.%s
  labels: {clusterset.dev/cluster: minhang, multicluster.kubernetes.io/source-cluster: minhang, clusterset.dev/service-namespace: %s}
spec: {serviceNamespace: %s, serviceName: %s, exportedAt: "1970-01-02T00:00:00Z", %s}
`, api.MemberNamespace(in), name, ns, ns, ns, name, more)
}

func exportedEndpoints(in, ns, name, suffix, more string) string {
	return fmt.Sprintf(`
apiVersion: clusterset.dev/v1alpha1
kind: ExportedEndpoints
metadata:
  namespace: %s
  name: %s.%s.%s
  labels: {clusterset.dev/cluster: minhang, multicluster.kubernetes.io/source-cluster: minhang, clusterset.dev/service-namespace: %s}
spec: {serviceNamespace: %s, serviceName: %s, %s}
`, api.MemberNamespace(in), name, ns, suffix, ns, ns, name, more)
}

// A member can only write records in its own name: labels and payload that name another cluster don't change that cluster's
// part of a service.
func TestForgedOriginChangesNothing(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("forged")
	victim := f.Member("minhang")
	headless := "clusterIP: None, " + httpPort
	victim.Apply(exported(ns, "db", headless), slice(ns, "db", "1", "IPv4", port8080, endpoint("10.202.14.1", "hostname: db-0")))
	f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "db", "minhang") })
	before := versions(f.Hub, "minhang", ns)

	write := attack(f, "xicheng")
	reserved := `exportedLabels: {multicluster.kubernetes.io/source-cluster: minhang, clusterset.dev/managed-by: someone, team: mine}`
	if err := write(
		exportedService("xicheng", ns, "db", "type: Headless, cluster: minhang, sourceCluster: minhang, ports: [{name: http, port: 80}], "+reserved),
		exportedEndpoints("xicheng", ns, "db", "x-0", `addressType: IPv4, cluster: minhang, ports: [{name: http, port: 8080}], endpoints: [{addresses: ["10.200.14.66"], hostname: db-0, zone: shanghai}]`),
	); err != nil {
		t.Fatal(err)
	}
	others := f.Members[1:]
	for _, m := range others {
		kube.Eventually(t, func() error {
			i, err := m.Imported(ns, "db")
			if err != nil || i.ServiceImport == nil || len(i.Slices) != 2 {
				return fmt.Errorf("%d slices, %w", len(i.Slices), err)
			}
			for _, s := range i.Slices {
				if len(s.Endpoints) == 0 {
					return fmt.Errorf("%s has no endpoints yet", s.Name) // the service may arrive before them
				}
				want := map[string]string{"10.200.14.66": "xicheng", "10.202.14.1": "minhang"}[s.Endpoints[0].Addresses[0]]
				if s.Labels[api.LabelSourceCluster] != want {
					t.Errorf("%s: the slice with %v is said to come from %s", m.Spec.Name, s.Endpoints[0].Addresses, s.Labels[api.LabelSourceCluster])
				}
			}
			l := i.ServiceImport.Labels
			if l[api.LabelManagedBy] != api.ManagedByImporter || l[api.LabelSourceCluster] != "" {
				t.Errorf("%s: labels are %v", m.Spec.Name, l)
			}
			if l["team"] != "mine" {
				return fmt.Errorf("%s: labels are %v", m.Spec.Name, l) // the slices may arrive first
			}
			return importedFrom(m, ns, "db", "xicheng", "minhang")
		})
		for _, zone := range []string{"clusterset.local", "global"} {
			m.DNS.Eventually("db-0.minhang.db."+ns+".svc."+zone, "A", "10.202.14.1")
			m.DNS.Eventually("db-0.xicheng.db."+ns+".svc."+zone, "A", "10.200.14.66")
		}
		m.DNS.Eventually("minhang.db."+ns+".svc.global", "A", "10.202.14.1")
	}
	if now := versions(f.Hub, "minhang", ns); now != before {
		t.Errorf("the other member's records are\n%s, were\n%s", now, before)
	}

	// If an administrator has declared a member's networks, the member can't export other addresses.
	setCIDRs := func(cidrs string) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cidrs":`+cidrs+`}}`))
		if err := f.Hub.Client.Patch(context.Background(), &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "xicheng"}}, patch); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { setCIDRs("null") })
	setCIDRs(`["10.100.0.0/16"]`) // now three parts are left out: this address and the two reserved labels
	for _, m := range others {
		m.DNS.Eventually("db-0.xicheng.db."+ns+".svc.clusterset.local", "A", "NXDOMAIN")
		m.DNS.Eventually("db-0.minhang.db."+ns+".svc.clusterset.local", "A", "10.202.14.1")
		kube.Eventually(t, func() error {
			return m.ImportSays(ns, "db", api.ConditionComplete, "3 parts of the exports of xicheng")
		})
	}
}

// A member joins after a service was exported, and claims 1970 as the creation time of its own export, which has another
// type. It doesn't win. The condition of the other cluster's ServiceExport names the member, and so does an Event.
func TestAClaimOf1970NamesItsCluster(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("claims-1970")
	beijing, tianjin, shanghai := f.Member("beijing"), f.Member("tianjin"), f.Member("shanghai")
	if err := clustersetCommand(t.Context(), "leave", "--yes", "--hub-kubeconfig", f.Hub.Plane.Kubeconfig(), "shanghai"); err != nil {
		t.Fatal(err)
	}
	beijing.Apply(exported(ns, "web", httpPort))
	others := []*fleettest.Member{beijing, tianjin}
	vips := map[*fleettest.Member]string{}
	for _, m := range others {
		kube.Eventually(t, func() error { return importedFrom(m, ns, "web", "beijing") })
		vips[m] = m.VIP(ns, "web", v4)
	}
	letASecondPass(beijing, ns, "web")
	if err := shanghai.Join(t.Context(), f.Hub); err != nil {
		t.Fatal(err)
	}
	write := attack(f, "shanghai")
	if err := write(exportedService("shanghai", ns, "web", "type: Headless, ports: [{name: http, port: 80}]")); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error {
		return errors.Join(
			beijing.ExportIs(ns, "web", mcsv1beta1.ServiceExportConditionConflict, "True", "TypeConflict"),
			beijing.HasEvent("ServiceExport", ns, "web", "TypeConflict", "shanghai (1 of 2 clusters) disagrees with beijing"),
		)
	})
	var export mcsv1beta1.ServiceExport
	if err := beijing.Get(ns, "web", &export); err != nil {
		t.Fatal(err)
	}
	if c := fleettest.Condition(export.Status.Conditions, string(mcsv1beta1.ServiceExportConditionConflict)); c == nil || !strings.Contains(c.Message, "shanghai (1 of 2 clusters) disagrees with beijing") {
		t.Errorf("the ServiceExport doesn't name shanghai: %+v", c)
	}
	for _, m := range others {
		kube.Eventually(t, func() error { return importedFrom(m, ns, "web", "beijing", "shanghai") })
		i, err := m.Imported(ns, "web")
		if err != nil || i.ServiceImport.Spec.Type != mcsv1beta1.ClusterSetIP || m.VIP(ns, "web", v4) != vips[m] {
			t.Errorf("%s: the import became %+v, its address was %s; %v", m.Spec.Name, i.ServiceImport.Spec, vips[m], err)
		}
	}
}
