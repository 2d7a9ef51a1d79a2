package kube_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/clusterset/clusterset/test/kube"
)

// A kind and an object of it in one file, the object first.
const kindAndObject = `# Only a comment.
---
apiVersion: example.test/v1
kind: Widget
metadata: {name: one}
size: 3
status: {ready: true}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.test}
spec:
  group: example.test
  names: {plural: widgets, kind: Widget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func TestApply(t *testing.T) {
	t.Parallel()
	cp := kube.Start(t)
	dyn, err := dynamic.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	get := func(t *testing.T, gvr schema.GroupVersionResource, name string) *unstructured.Unstructured {
		t.Helper()
		obj, err := dyn.Resource(gvr).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	widgets := schema.GroupVersionResource{Group: "example.test", Version: "v1", Resource: "widgets"}

	t.Run("installs a kind before objects of it", func(t *testing.T) {
		cp.Apply(t, []byte(kindAndObject))
		if size := get(t, widgets, "one").Object["size"]; size != int64(3) {
			t.Errorf("size is %v", size)
		}
	})
	t.Run("writes status only when asked to", func(t *testing.T) {
		if status, ok := get(t, widgets, "one").Object["status"]; ok {
			t.Errorf("status is %v", status)
		}
		cp.ApplyStatus(t, []byte("{apiVersion: example.test/v1, kind: Widget, metadata: {name: one}, status: {ready: true}}"))
		if ready, _, _ := unstructured.NestedBool(get(t, widgets, "one").Object, "status", "ready"); !ready {
			t.Error("status was not written")
		}
	})
	t.Run("can be repeated", func(t *testing.T) {
		before := get(t, widgets, "one").GetResourceVersion()
		cp.Apply(t, []byte(kindAndObject))
		if after := get(t, widgets, "one").GetResourceVersion(); after != before {
			t.Errorf("applying the same again changed the object from %s to %s", before, after)
		}
	})
	t.Run("takes lists apart", func(t *testing.T) {
		cp.Apply(t, []byte(`{"apiVersion":"v1","kind":"List","items":[
			{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}},
			{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}]}`))
		configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
		get(t, configMaps, "a")
		get(t, configMaps, "b")
	})
	t.Run("serves both versions of the MCS API", func(t *testing.T) {
		cp.InstallMCS(t)
		cp.Apply(t, []byte("{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, metadata: {name: web}}"))
		get(t, schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceexports"}, "web")
		cp.Apply(t, []byte("{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: web}, spec: {type: ClusterSetIP, ports: [{port: 80}]}}"))
		get(t, schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "serviceimports"}, "web")
	})
	t.Run("names the object it cannot apply", func(t *testing.T) {
		err := cp.ApplyContext(t.Context(), []byte("{apiVersion: example.test/v1, kind: Gadget, metadata: {name: two}}"))
		if err == nil || err.Error() != `find resource of Gadget two: no matches for kind "Gadget" in version "example.test/v1"` {
			t.Errorf("got %v", err)
		}
	})
	t.Run("deletes what exists", func(t *testing.T) {
		cp.Delete(t, []byte(kindAndObject))
		cp.Delete(t, []byte(kindAndObject))
	})
}
