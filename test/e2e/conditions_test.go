package e2e

import (
	"errors"
	"fmt"
	"testing"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/kube"
)

func TestExportConditions(t *testing.T) {
	f := cities(t)
	ns := f.namespace("conditions")
	a := f.member("chaoyang")
	// Both are called in subtests, and fail the test around them.
	expect := func(name, valid, validReason, ready, readyReason string) {
		t.Helper()
		kube.Eventually(t, soon, func() error {
			return errors.Join(
				a.exportIs(ns, name, mcsv1beta1.ServiceExportConditionValid, valid, validReason),
				a.exportIs(ns, name, mcsv1beta1.ServiceExportConditionReady, ready, readyReason),
				a.exportIs(ns, name, mcsv1beta1.ServiceExportConditionConflict, "False", "NoConflicts"))
		})
	}
	notImported := func(name string) {
		t.Helper()
		// A service exported later is imported, so this one had its chance.
		a.apply(exported(ns, "later-than-"+name, httpPort))
		f.eventually(func(m *member) error {
			i, err := m.imported(ns, "later-than-"+name)
			if err == nil && i.serviceImport == nil {
				err = errors.New("not imported yet")
			}
			return errors.Join(err, m.gone(ns, name))
		})
	}

	t.Run("NoService until there is one", func(t *testing.T) {
		f := f.of(t)
		a.apply(export(ns, "later", ""))
		expect("later", "False", "NoService", "False", "Pending")
		notImported("later")
		a.apply(service(ns, "later", httpPort))
		expect("later", "True", "Valid", "True", "Exported")
		f.eventually(func(m *member) error { return m.importedFrom(ns, "later", "chaoyang") })
	})
	t.Run("InvalidServiceType for an ExternalName", func(t *testing.T) {
		a.apply(exported(ns, "outside", "type: ExternalName, externalName: example.org"))
		expect("outside", "False", "InvalidServiceType", "False", "Failed")
		notImported("outside")
		kube.Eventually(t, soon, func() error {
			return a.hasEvent("ServiceExport", ns, "outside", "InvalidServiceType", "ExternalName")
		})
	})
	for _, kind := range []string{"NodePort", "LoadBalancer"} {
		t.Run(kind+" is exported as ClusterSetIP", func(t *testing.T) {
			f := f.of(t)
			name := fmt.Sprintf("by-%x", kind[0])
			a.apply(exported(ns, name, "type: "+kind+", "+httpPort))
			expect(name, "True", "Valid", "True", "Exported")
			f.eventually(func(m *member) error {
				return errors.Join(m.importedFrom(ns, name, "chaoyang"), m.importHas(ns, name, func(s mcsv1beta1.ServiceImportSpec) bool {
					return s.Type == mcsv1beta1.ClusterSetIP && len(s.IPs) == 1
				}))
			})
		})
	}
	t.Run("Failed where the hub refuses, until it doesn't", func(t *testing.T) {
		f := f.of(t)
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
		f.hub.apply(policy)
		t.Cleanup(func() { f.hub.remove(policy) })
		// A policy takes effect a moment after its creation.
		probe := fmt.Sprintf(`
apiVersion: clusterset.dev/v1alpha1
kind: ExportedService
metadata: {namespace: %s, name: refused.%s}
spec: {serviceName: refused, serviceNamespace: %s, type: ClusterSetIP, exportedAt: "2026-01-01T00:00:00Z"}
`, api.MemberNamespace("shijiazhuang"), ns, ns)
		kube.Eventually(t, soon, func() error {
			if err := f.hub.Plane.ApplyContext(t.Context(), []byte(probe)); err == nil {
				f.hub.remove(probe)
				return errors.New("the policy has no effect yet")
			}
			return nil
		})
		a.apply(exported(ns, "refused", httpPort))
		expect("refused", "True", "Valid", "False", "Failed")
		kube.Eventually(t, soon, func() error { return a.hasEvent("ServiceExport", ns, "refused", "Failed", "not today") })
		notImported("refused")
		f.hub.remove(policy)
		a.apply(service(ns, "refused", "ports: [{name: http, port: 81}]")) // a change makes the exporter try again
		kube.Eventually(t, soon, func() error {
			a.apply(service(ns, "refused", "ports: [{name: http, port: 80}]"))
			a.apply(service(ns, "refused", "ports: [{name: http, port: 81}]"))
			return a.exportIs(ns, "refused", mcsv1beta1.ServiceExportConditionReady, "True", "Exported")
		})
	})
}
