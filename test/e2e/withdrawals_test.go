package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// When a script deletes all ServiceExports of a cluster, or somebody deletes their CustomResourceDefinition, all are held. The agent
// reports it, and the held exports still follow their Services. A ServiceExport that is deleted alone is un-exported after seconds.
func TestServiceExportsThatGoTogetherAreHeld(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("mass")
	tianjin, beijing := f.Member("tianjin"), f.Member("beijing")
	const services = 14
	name := func(i int) string { return fmt.Sprintf("s%d", i) }
	for i := range services {
		tianjin.Apply(exported(ns, name(i), httpPort), slice(ns, name(i), "1", "IPv4", port8080, endpoint(fmt.Sprintf("10.201.30.%d", i+1))))
	}
	imported := func() (n int, err error) {
		for i := range services {
			if err = importedFrom(beijing, ns, name(i), "tianjin"); err == nil {
				n++
			}
		}
		return n, err
	}
	all := func() error {
		if n, err := imported(); n < services {
			return fmt.Errorf("%d are imported: %w", n, err)
		}
		return nil
	}
	heldAre := func(want int) func() error {
		return func() error {
			n, err := tianjin.Metrics.Sum("clusterset_exporter_services", "state", "held")
			if err == nil && int(n) != want {
				err = fmt.Errorf("%v services are held, want %d", n, want)
			}
			return err
		}
	}
	kube.Eventually(t, all)

	began := time.Now()
	tianjin.Remove(export(ns, name(0), ""))
	kube.Eventually(t, func() error { return beijing.Gone(ns, name(0)) })
	fleettest.Took(t, "a single un-export", began)
	tianjin.Apply(export(ns, name(0), ""))
	kube.Eventually(t, all)

	deleteAll(&tianjin.Cluster, &mcsv1beta1.ServiceExport{}, client.InNamespace(ns))
	kube.Eventually(t, heldAre(services))
	if err := all(); err != nil {
		t.Error(err)
	}
	kube.Eventually(t, func() error {
		return tianjin.HasEvent("Service", ns, name(services-1), "WithdrawalHeld", "--hold-withdrawals=0")
	})
	tianjin.Apply(slice(ns, name(services-1), "1", "IPv4", port8080, endpoint("10.201.30.99")))
	kube.Eventually(t, func() error { return holds(f.Hub, "tianjin", ns, name(services-1), "10.201.30.99") })
	for i := range services {
		tianjin.Apply(export(ns, name(i), ""))
	}
	kube.Eventually(t, func() error { return errors.Join(all(), heldAre(0)()) })

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
		return nil
	})
	kube.Eventually(t, heldAre(services))
	if err := all(); err != nil {
		t.Error(err)
	}
}
