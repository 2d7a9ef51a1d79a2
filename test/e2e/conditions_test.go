package e2e

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

func TestExportConditions(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("conditions")
	a := f.Member("chaoyang")
	// Both functions are called in subtests, but fail the enclosing test.
	expect := func(name, valid, validReason, ready, readyReason string) {
		t.Helper()
		kube.Eventually(t, func() error {
			return errors.Join(
				a.ExportIs(ns, name, mcsv1beta1.ServiceExportConditionValid, valid, validReason),
				a.ExportIs(ns, name, mcsv1beta1.ServiceExportConditionReady, ready, readyReason),
				a.ExportIs(ns, name, mcsv1beta1.ServiceExportConditionConflict, "False", "NoConflicts"))
		})
	}
	notImported := func(name string) {
		t.Helper()
		// A service that was exported later is imported, so this one has had its chance.
		a.Apply(exported(ns, "later-than-"+name, httpPort))
		f.Eventually(func(m *fleettest.Member) error {
			i, err := m.Imported(ns, "later-than-"+name)
			if err == nil && i.ServiceImport == nil {
				err = errors.New("not imported yet")
			}
			return errors.Join(err, m.Gone(ns, name))
		})
	}

	t.Run("NoService until there is one", func(t *testing.T) {
		f := f.For(t)
		a.Apply(export(ns, "later", ""))
		expect("later", "False", "NoService", "False", "Pending")
		notImported("later")
		a.Apply(service(ns, "later", httpPort))
		expect("later", "True", "Valid", "True", "Exported")
		f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "later", "chaoyang") })
	})
	t.Run("InvalidServiceType for an ExternalName", func(t *testing.T) {
		a.Apply(exported(ns, "outside", "type: ExternalName, externalName: example.org"))
		expect("outside", "False", "InvalidServiceType", "False", "Failed")
		notImported("outside")
		kube.Eventually(t, func() error {
			return a.HasEvent("ServiceExport", ns, "outside", "InvalidServiceType", "ExternalName")
		})
	})
	for _, kind := range []string{"NodePort", "LoadBalancer"} {
		t.Run(kind+" is exported as ClusterSetIP", func(t *testing.T) {
			f := f.For(t)
			name := fmt.Sprintf("by-%x", kind[0])
			a.Apply(exported(ns, name, "type: "+kind+", "+httpPort))
			expect(name, "True", "Valid", "True", "Exported")
			f.Eventually(func(m *fleettest.Member) error {
				return errors.Join(importedFrom(m, ns, name, "chaoyang"), importHas(m, ns, name, func(s mcsv1beta1.ServiceImportSpec) bool {
					return s.Type == mcsv1beta1.ClusterSetIP && len(s.IPs) == 1
				}))
			})
		})
	}
	t.Run("Failed where the hub refuses, until it doesn't", func(t *testing.T) {
		f := f.For(t)
		policy := fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: not-today}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [clusterset.dev], apiVersions: ["*"], resources: [exportedservices], operations: [CREATE]}
  matchConditions: [{name: it, expression: "object.metadata.name == 'refused.%s'"}]
  validations: [{expression: "false", message: not today}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: not-today}
spec: {policyName: not-today, validationActions: [Deny]}
`, ns)
		f.Hub.Apply(policy)
		t.Cleanup(func() { f.Hub.Remove(policy) })
		// A policy takes effect a moment after its creation.
		probe := &clustersetv1alpha1.ExportedService{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("shijiazhuang"), Name: "refused." + ns},
			Spec: clustersetv1alpha1.ExportedServiceSpec{
				ServiceNamespace: ns, ServiceName: "refused", Type: mcsv1beta1.ClusterSetIP, ExportedAt: metav1.Now(),
			},
		}
		kube.Eventually(t, func() error {
			if err := f.Hub.Client.Create(t.Context(), probe.DeepCopy(), client.DryRunAll); err == nil {
				return errors.New("the policy has no effect yet")
			}
			return nil
		})
		a.Apply(exported(ns, "refused", httpPort))
		expect("refused", "True", "Valid", "False", "Failed")
		kube.Eventually(t, func() error { return a.HasEvent("ServiceExport", ns, "refused", "Failed", "not today") })
		notImported("refused")
		f.Hub.Remove(policy)
		a.Apply(service(ns, "refused", "ports: [{name: http, port: 81}]")) // a change makes the exporter try again
		kube.Eventually(t, func() error {
			a.Apply(service(ns, "refused", "ports: [{name: http, port: 80}]"))
			a.Apply(service(ns, "refused", "ports: [{name: http, port: 81}]"))
			return a.ExportIs(ns, "refused", mcsv1beta1.ServiceExportConditionReady, "True", "Exported")
		})
	})
}
