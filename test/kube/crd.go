package kube

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	mcscrd "sigs.k8s.io/mcs-api/config/crd"
)

// InstallMCS installs the ServiceExport and ServiceImport of the Multi-Cluster
// Services API: v1beta1 is stored, v1alpha1 served beside it.
func (c *ControlPlane) InstallMCS(t testing.TB) {
	t.Helper()
	c.Apply(t, MCSCRDs()...)
}

// MCSCRDs are the manifests that [ControlPlane.InstallMCS] applies.
func MCSCRDs() [][]byte {
	return [][]byte{mcscrd.ServiceExportCRD, mcscrd.ServiceImportCRD}
}

// servedKinds are the kinds a CRD makes the API server serve, one per version.
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

// conditionTrue returns an error that says what obj's conditions are, unless
// the one named is true.
func conditionTrue(obj *unstructured.Unstructured, name string) error {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == name && condition["status"] == "True" {
			return nil
		}
	}
	return fmt.Errorf("%s is not %s: conditions %v", describe(obj), name, conditions)
}
