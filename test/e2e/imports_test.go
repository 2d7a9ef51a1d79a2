package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// importedFrom returns nil if a service's ServiceImport is ready and is from exactly these clusters.
func importedFrom(m *fleettest.Member, ns, name string, clusters ...string) error {
	var imp mcsv1beta1.ServiceImport
	if err := m.Get(ns, name, &imp); err != nil {
		return err
	}
	var got []string
	for _, c := range imp.Status.Clusters {
		got = append(got, c.Cluster)
	}
	slices.Sort(got)
	if !slices.Equal(got, slices.Sorted(slices.Values(clusters))) {
		return fmt.Errorf("%s: %s/%s is imported from %v, want %v", m.Spec.Name, ns, name, got, clusters)
	}
	c := fleettest.Condition(imp.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady))
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != string(mcsv1beta1.ServiceImportReasonReady) {
		return fmt.Errorf("%s: %s/%s is not ready: %+v", m.Spec.Name, ns, name, c)
	}
	return nil
}

// importHas returns nil if a ServiceImport's spec is as wanted.
func importHas(m *fleettest.Member, ns, name string, want func(mcsv1beta1.ServiceImportSpec) bool) error {
	var imp mcsv1beta1.ServiceImport
	if err := m.Get(ns, name, &imp); err != nil {
		return err
	}
	if !want(imp.Spec) {
		return fmt.Errorf("%s: ServiceImport %s/%s is %+v", m.Spec.Name, ns, name, imp.Spec)
	}
	return nil
}

// A ServiceImport has the fields that the conformance suite checks, in a cluster that exports and in clusters that don't.
func TestServiceImport(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("imports")
	a, b := f.Member("xicheng"), f.Member("shijiazhuang")
	both := "ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6, IPv4], "
	a.Apply(exported(ns, "web", both+httpPort), exported(ns, "bare", "clusterIP: None"),
		service(ns, "db", "clusterIP: None, ports: [{name: pg, port: 5432}]"),
		slice(ns, "db", "1", "IPv4", "{name: pg, port: 5432}", endpoint("10.200.4.1", "hostname: db-0"), endpoint("10.200.4.2", "hostname: db-1")),
		export(ns, "db", `exportedLabels: {team: shop, kubernetes.io/hostile: "1"}, exportedAnnotations: {example.com/page: "1"}`))
	b.Apply(exported(ns, "late", httpPort))
	f.Eventually(func(m *fleettest.Member) error {
		return errors.Join(importedFrom(m, ns, "web", "xicheng"), importedFrom(m, ns, "db", "xicheng"),
			importedFrom(m, ns, "bare", "xicheng"), importedFrom(m, ns, "late", "shijiazhuang"))
	})

	t.Run("ports are there where there are none", func(t *testing.T) {
		f := f.For(t)
		f.Eventually(func(m *fleettest.Member) error {
			raw := &unstructured.Unstructured{}
			raw.SetAPIVersion("multicluster.x-k8s.io/v1beta1")
			raw.SetKind("ServiceImport")
			if err := m.Get(ns, "bare", raw); err != nil {
				return err
			}
			if ports, there, err := unstructured.NestedSlice(raw.Object, "spec", "ports"); !there || len(ports) != 0 || err != nil {
				return fmt.Errorf("spec is %v", raw.Object["spec"])
			}
			return nil
		})
	})
	t.Run("ips and ipFamilies go together, as far as the cluster has them", func(t *testing.T) {
		f := f.For(t)
		f.Eventually(func(m *fleettest.Member) error {
			i, err := m.Imported(ns, "web")
			if err != nil || i.ServiceImport == nil || i.Derived == nil {
				return fmt.Errorf("%+v, %w", i, err)
			}
			spec := i.ServiceImport.Spec
			want := []string{"IPv6", "IPv4"}
			if !m.Spec.DualStack {
				want = want[1:]
			}
			if fmt.Sprint(spec.IPFamilies) != fmt.Sprint(want) || len(spec.IPs) != len(want) {
				return fmt.Errorf("families %v, ips %v", spec.IPFamilies, spec.IPs)
			}
			for n, ip := range spec.IPs {
				if fleettest.FamilyOf(ip) != spec.IPFamilies[n] || !slices.Contains(i.Derived.Spec.ClusterIPs, ip) {
					return fmt.Errorf("families %v, ips %v, the derived Service's %v", spec.IPFamilies, spec.IPs, i.Derived.Spec.ClusterIPs)
				}
			}
			return nil
		})
	})
	t.Run("a Headless one has no ips and its slices have the hostnames", func(t *testing.T) {
		f := f.For(t)
		f.Eventually(func(m *fleettest.Member) error {
			i, err := m.Imported(ns, "db")
			if err != nil {
				return err
			}
			spec, status := i.ServiceImport.Spec, i.ServiceImport.Status
			if spec.Type != mcsv1beta1.Headless || len(spec.IPs) > 0 || status.EndpointSliceObjects != mcsv1beta1.EndpointSliceObjectsPresent {
				return fmt.Errorf("%+v, %+v", spec, status)
			}
			if len(i.Slices) != 1 || len(i.Slices[0].Endpoints) != 2 || i.Slices[0].AddressType != discoveryv1.AddressTypeIPv4 {
				return fmt.Errorf("slices are %+v", i.Slices)
			}
			s := i.Slices[0]
			for k, want := range map[string]string{
				"multicluster.kubernetes.io/service-name":   "db",
				"multicluster.kubernetes.io/source-cluster": "xicheng",
				"endpointslice.kubernetes.io/managed-by":    api.EndpointSliceManagedBy,
			} {
				if s.Labels[k] != want {
					return fmt.Errorf("label %s is %q, want %q", k, s.Labels[k], want)
				}
			}
			if !metav1.IsControlledBy(&s, i.ServiceImport) {
				return fmt.Errorf("owners are %v", s.OwnerReferences)
			}
			var hosts []string
			for _, e := range s.Endpoints {
				if e.Hostname != nil {
					hosts = append(hosts, *e.Hostname)
				}
				if e.NodeName != nil || e.TargetRef != nil {
					return fmt.Errorf("an endpoint refers to another cluster's objects: %+v", e)
				}
			}
			slices.Sort(hosts)
			if !slices.Equal(hosts, []string{"db-0", "db-1"}) {
				return fmt.Errorf("hostnames are %v", hosts)
			}
			return nil
		})
	})
	t.Run("labels and annotations come from spec alone, but for reserved ones", func(t *testing.T) {
		f := f.For(t)
		f.Eventually(func(m *fleettest.Member) error {
			var imp mcsv1beta1.ServiceImport
			if err := m.Get(ns, "db", &imp); err != nil {
				return err
			}
			if imp.Labels["team"] != "shop" || imp.Annotations["example.com/page"] != "1" || imp.Labels["kubernetes.io/hostile"] != "" {
				return fmt.Errorf("labels %v, annotations %v", imp.Labels, imp.Annotations)
			}
			return nil
		})
		a.Apply(export(ns, "db", "exportedLabels: {team: stock}"))
		f.Eventually(func(m *fleettest.Member) error {
			var imp mcsv1beta1.ServiceImport
			if err := m.Get(ns, "db", &imp); err != nil {
				return err
			}
			if _, stays := imp.Annotations["example.com/page"]; imp.Labels["team"] != "stock" || stays {
				return fmt.Errorf("labels %v, annotations %v", imp.Labels, imp.Annotations)
			}
			return nil
		})
		var export mcsv1beta1.ServiceExport
		if err := a.Get(ns, "db", &export); err != nil {
			t.Fatal(err)
		}
		// The own metadata of the Service and of the ServiceExport isn't exported.
		patched := export.DeepCopy()
		patched.Labels = map[string]string{"own": "1"}
		if err := a.Client.Update(t.Context(), patched); err != nil {
			t.Fatal(err)
		}
		b.Apply(exported(ns, "marker", httpPort))
		f.Eventually(func(m *fleettest.Member) error {
			var imp mcsv1beta1.ServiceImport
			err := errors.Join(importedFrom(m, ns, "marker", "shijiazhuang"), m.Get(ns, "db", &imp))
			if keys := slices.Sorted(maps.Keys(imp.Labels)); err == nil && !slices.Equal(keys, []string{api.LabelManagedBy, "team"}) {
				return fmt.Errorf("labels are %v", imp.Labels)
			}
			return err
		})
	})
	t.Run("says whether it has slices", func(t *testing.T) {
		f := f.For(t)
		f.Eventually(func(m *fleettest.Member) error {
			var imp mcsv1beta1.ServiceImport
			err := m.Get(ns, "late", &imp)
			if err == nil && imp.Status.EndpointSliceObjects != mcsv1beta1.EndpointSliceObjectsAbsent {
				err = fmt.Errorf("endpointSliceObjects is %q of a service without", imp.Status.EndpointSliceObjects)
			}
			return err
		})
	})
}

// An import keeps its addresses for its whole life, whatever changes around it.
func TestClusterSetIPIsStable(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("stable")
	a, b := f.Member("chaoyang"), f.Member("minhang")
	a.Apply(exported(ns, "web", httpPort))
	vips, uids := map[string]string{}, map[string]string{}
	state := func(m *fleettest.Member) (vip, uid string) {
		var imp mcsv1beta1.ServiceImport
		if err := m.Get(ns, "web", &imp); err != nil {
			return err.Error(), ""
		}
		return strings.Join(imp.Spec.IPs, " "), string(imp.UID)
	}
	for _, m := range f.Members {
		m.VIP(ns, "web", v4)
		vips[m.Spec.Name], uids[m.Spec.Name] = state(m)
	}
	same := func(m *fleettest.Member) error {
		if vip, uid := state(m); vip != vips[m.Spec.Name] || uid != uids[m.Spec.Name] {
			return fmt.Errorf("ips %s of %s, were %s of %s", vip, uid, vips[m.Spec.Name], uids[m.Spec.Name])
		}
		return nil
	}
	check := func(t *testing.T, clusters ...string) {
		t.Helper()
		f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "web", clusters...) })
		for _, m := range f.Members {
			if err := same(m); err != nil {
				t.Errorf("%s: %v", m.Spec.Name, err)
			}
		}
	}
	b.Apply(exported(ns, "web", "ports: [{name: http, port: 80}, {name: more, port: 81}]"))
	check(t, "chaoyang", "minhang")
	f.Eventually(func(m *fleettest.Member) error {
		return importHas(m, ns, "web", func(s mcsv1beta1.ServiceImportSpec) bool { return len(s.Ports) == 2 })
	})
	a.Remove(export(ns, "web", "")) // the oldest export, which wins
	check(t, "minhang")
	for _, m := range f.Members {
		m.KillAgent()
		m.StartAgent()
	}
	f.Settle()
	check(t, "minhang")
	// A user changes one of the importer's objects, and deletes another.
	derived := api.DerivedServiceName(ns, "web")
	i, err := a.Imported(ns, "web")
	if err != nil {
		t.Fatal(err)
	}
	i.ServiceImport.Spec.Ports = []mcsv1beta1.ServicePort{{Name: "wrong", Port: 1}}
	if err := a.Client.Update(t.Context(), i.ServiceImport); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error {
		return importHas(a, ns, "web", func(s mcsv1beta1.ServiceImportSpec) bool { return len(s.Ports) == 2 && s.Ports[0].Port == 80 })
	})
	a.Remove(service(ns, derived, ""))
	kube.Eventually(t, func() error {
		i, err := a.Imported(ns, "web")
		if err != nil || i.Derived == nil || !slices.Equal(i.Derived.Spec.ClusterIPs[:1], i.ServiceImport.Spec.IPs) {
			text, _ := json.Marshal(i.Derived)
			return fmt.Errorf("the derived Service is %s, ips %v, %w", text, i.ServiceImport.Spec.IPs, err)
		}
		return nil
	})
}
