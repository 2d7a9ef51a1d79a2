package kube

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	mcscrd "sigs.k8s.io/mcs-api/config/crd"
)

// InstallMCS installs ServiceExport and ServiceImport of the Multi-Cluster Services API: v1beta1 is the stored version, v1alpha1 is also served.
func (c *ControlPlane) InstallMCS(t testing.TB) {
	t.Helper()
	c.Apply(t, MCSCRDs()...)
}

// MCSCRDs are the manifests that [ControlPlane.InstallMCS] applies.
func MCSCRDs() [][]byte {
	return [][]byte{mcscrd.ServiceExportCRD, mcscrd.ServiceImportCRD}
}

// servedKinds are the kinds of a CRD that the API server serves, one per version.
func servedKinds(crd *unstructured.Unstructured) []schema.GroupVersionKind {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var kinds []schema.GroupVersionKind
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok || version["served"] != true {
			continue
		}
		name, _ := version["name"].(string)
		kinds = append(kinds, schema.GroupVersionKind{Group: group, Version: name, Kind: kind})
	}
	return kinds
}

// conditionTrue returns nil if obj has the named condition with status True. Otherwise it returns an error with obj's conditions.
func conditionTrue(obj *unstructured.Unstructured, name string) error {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == name && condition["status"] == "True" {
			return nil
		}
	}
	return fmt.Errorf("%s is not %s: conditions %v", describe(obj), name, conditions)
}
