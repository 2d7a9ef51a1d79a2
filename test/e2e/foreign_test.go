package e2e

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// An object of another owner stays unchanged, down to its resourceVersion, even if it has the very name that clusterset would
// use. Events tell its users. When it is deleted, the import is created.
// Rule C36 of docs/spec/control-plane.md.
func TestForeignObjectsAreLeftAlone(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("foreign")
	a, b := f.Member("shijiazhuang"), f.Member("xicheng")
	derived := api.DerivedServiceName(ns, "by-derived")
	foreign := []string{
		fmt.Sprintf("{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {namespace: %s, name: by-import}, spec: {type: ClusterSetIP, ips: [10.9.9.1], ports: [{port: 7}]}}", ns),
		fmt.Sprintf("{apiVersion: dns.fabedge.io/v1alpha1, kind: GlobalService, metadata: {namespace: %s, name: by-global, labels: {fabedge.io/created-by: service-hub}}, spec: {type: ClusterIP, ports: [{port: 7}], endpoints: [{cluster: elsewhere, addresses: [10.9.9.2]}]}}", ns),
		service(ns, derived, "ports: [{port: 7}]"),
		fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  namespace: %s
  name: another-implementation
  labels: {multicluster.kubernetes.io/service-name: by-import, multicluster.kubernetes.io/source-cluster: elsewhere, endpointslice.kubernetes.io/managed-by: other.example.com}
addressType: IPv4
endpoints: [{addresses: [10.9.9.3]}]
`, ns),
	}
	b.Apply(foreign...)
	objects := map[string]client.Object{
		"by-import": &mcsv1beta1.ServiceImport{}, "by-global": &fabedgev1alpha1.GlobalService{},
		derived: &corev1.Service{}, "another-implementation": &discoveryv1.EndpointSlice{},
	}
	versions := func() string {
		all := map[string]string{}
		for name, o := range objects {
			if err := b.Get(ns, name, o); err != nil {
				t.Error(err)
			}
			all[name] = o.GetResourceVersion()
		}
		return fmt.Sprint(all)
	}
	before := versions()
	names := []string{"by-import", "by-global", "by-derived"}
	for _, name := range names {
		a.Apply(exported(ns, name, httpPort), slice(ns, name, port8080, endpoint("10.203.7.1")))
	}
	kube.Eventually(t, func() error {
		return errors.Join(
			b.HasEvent("ServiceImport", ns, "by-import", "ForeignObject", "which clusterset didn't write and leaves alone"),
			b.HasEvent("GlobalService", ns, "by-global", "ForeignObject"),
			b.HasEvent("Service", ns, derived, "ForeignObject"))
	})
	for _, kind := range []string{"ServiceImport", "GlobalService", "Service"} {
		if err := metricIs(b.Metrics, 1, "clusterset_importer_foreign_objects", "kind", kind); err != nil {
			t.Error(err)
		}
	}
	// Their names still have the same answers.
	b.DNS.Eventually("by-import."+ns+".svc.clusterset.local", "A", "10.9.9.1")
	b.DNS.Eventually("by-global."+ns+".svc.global", "A", "10.9.9.2")
	// The rest of each service is imported, and clusters without such an object import as usual.
	kube.Eventually(t, func() error {
		i, err := b.Imported(ns, "by-global")
		if err == nil && i.Derived == nil {
			err = errors.New("by-global has no derived Service")
		}
		errs := []error{err, importedFrom(b, ns, "by-global", "shijiazhuang")}
		for _, name := range names {
			errs = append(errs, importedFrom(a, ns, name, "shijiazhuang"))
		}
		return errors.Join(errs...)
	})
	a.Remove(export(ns, "by-derived", ""))
	kube.Eventually(t, func() error { return a.Gone(ns, "by-derived") })
	if now := versions(); now != before {
		t.Errorf("they were written to: the versions are %s, were %s", now, before)
	}

	b.Remove(foreign...)
	f.Eventually(func(m *fleettest.Member) error {
		return errors.Join(importedFrom(m, ns, "by-import", "shijiazhuang"), importedFrom(m, ns, "by-global", "shijiazhuang"))
	})
	for _, name := range names[:2] {
		b.DNS.Eventually(name+"."+ns+".svc.global", "A", a.ClusterIP(ns, name, v4))
	}
	if err := b.Get(ns, derived, &corev1.Service{}); !apierrors.IsNotFound(err) {
		t.Errorf("the derived Service of a service nobody exports: %v", err)
	}
}
