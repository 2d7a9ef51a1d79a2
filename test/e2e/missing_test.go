package e2e

import (
	"testing"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/kube"
)

// A service whose namespace other clusters don't have says so where it is exported (C77 of docs/spec/control-plane.md).
func TestNamespaceMissingElsewhere(t *testing.T) {
	f := outages(t)
	beijing := f.Member("beijing")
	const ns = "missing-elsewhere"
	beijing.Namespace(ns)
	beijing.Apply(exported(ns, "web", httpPort))
	kube.Eventually(t, func() error {
		return beijing.ExportIs(ns, "web", mcsv1beta1.ServiceExportConditionType(api.ConditionImported), "False", api.ReasonNamespaceMissing)
	})
	kube.Eventually(t, func() error {
		return beijing.HasEvent("ServiceExport", ns, "web", api.ReasonNamespaceMissing, "shanghai, tianjin", "kubectl create namespace "+ns)
	})
}
