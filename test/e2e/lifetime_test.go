package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// The ServiceExport of a marked Service belongs to the Service. It is deleted with the Service and, where controllers run, with the namespace.
// The other clusters still have that, so they can export.
func TestNamespaceDeletion(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("deletion")
	a := f.Member("xicheng") // has a namespace controller and a garbage collector
	a.Apply(annotated(ns, "web", fabDNS, httpPort))
	f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "web", "xicheng") })
	var export mcsv1beta1.ServiceExport
	var svc corev1.Service
	if err := errors.Join(a.Get(ns, "web", &export), a.Get(ns, "web", &svc)); err != nil || !metav1.IsControlledBy(&export, &svc) {
		t.Errorf("the ServiceExport's owners are %v: %v", export.OwnerReferences, err)
	}
	began := time.Now()
	a.Remove("{apiVersion: v1, kind: Namespace, metadata: {name: " + ns + "}}")
	f.Eventually(func(m *fleettest.Member) error { return m.Gone(ns, "web") })
	kube.Eventually(t, func() error {
		if err := a.Get("", ns, &corev1.Namespace{}); err == nil {
			return errors.New("the namespace is still being deleted: something is written into it, or holds it")
		}
		return nil
	})
	fleettest.Took(t, "the deletion of a namespace with an export", began)
	f.Member("minhang").Apply(exported(ns, "web", httpPort))
	f.Eventually(func(m *fleettest.Member) error {
		if m == a {
			return m.Gone(ns, "web")
		}
		return importedFrom(m, ns, "web", "minhang")
	})
}

// A service whose namespace other clusters don't have says so where it is exported (C77 of docs/spec/control-plane.md). They import it as soon
// as they have the namespace.
func TestNamespaceMissingElsewhere(t *testing.T) {
	f := outages(t)
	beijing := f.Member("beijing")
	ns := fleettest.Numbered("missing-elsewhere")
	beijing.Namespace(ns)
	beijing.Apply(exported(ns, "web", httpPort))
	kube.Eventually(t, func() error {
		return errors.Join(
			beijing.ExportIs(ns, "web", mcsv1beta1.ServiceExportConditionType(api.ConditionImported), "False", api.ReasonNamespaceMissing),
			beijing.HasEvent("ServiceExport", ns, "web", api.ReasonNamespaceMissing, "shanghai, tianjin", "kubectl create namespace "+ns))
	})
	for _, m := range f.Members[1:] {
		m.DNS.Eventually("web."+ns+".svc.clusterset.local", "A", "NXDOMAIN")
		m.Namespace(ns)
		m.DNS.Eventually("web."+ns+".svc.global", "A", beijing.ClusterIP(ns, "web", v4))
	}
}

// When somebody deletes the CustomResourceDefinition of ServiceExports, with all of them, all exports are held.
func TestServiceExportsThatGoTogetherAreHeld(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("mass")
	tianjin, beijing := f.Member("tianjin"), f.Member("beijing")
	const services = 14
	for i := range services {
		tianjin.Apply(exported(ns, fmt.Sprint("s", i), httpPort), slice(ns, fmt.Sprint("s", i), port8080, endpoint(fmt.Sprintf("10.201.30.%d", i+1))))
	}
	all := func() error {
		var errs []error
		for i := range services {
			errs = append(errs, importedFrom(beijing, ns, fmt.Sprint("s", i), "tianjin"))
		}
		return errors.Join(errs...)
	}
	kube.Eventually(t, all)
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName("serviceexports.multicluster.x-k8s.io")
	if err := tianjin.Client.Delete(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := join.InstallMemberCRDs(context.Background(), join.At(tianjin.Plane.Config())); err != nil {
			t.Error(err)
		}
		tianjin.RestartAgent()
	})
	kube.Eventually(t, func() error {
		if err := tianjin.Get("", crd.GetName(), crd.DeepCopy()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the CustomResourceDefinition is still there: %w", err)
		}
		return metricIs(tianjin.Metrics, services, "clusterset_exporter_services", "state", "held")
	})
	if err := all(); err != nil {
		t.Error(err)
	}
}
