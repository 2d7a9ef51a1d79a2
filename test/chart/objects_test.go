package chart

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// objects returns the objects in manifests. A duplicate key is an error here, because the API server wouldn't notice it.
func objects(t *testing.T, manifests string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, document := range separator.Split(manifests, -1) {
		var object map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if object != nil {
			all = append(all, &unstructured.Unstructured{Object: object})
		}
	}
	return all
}

// only returns the objects of some kinds.
func only(all []*unstructured.Unstructured, kinds ...string) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool { return !slices.Contains(kinds, o.GetKind()) })
}

// encode converts objects back to manifests.
func encode(t *testing.T, all []*unstructured.Unstructured) [][]byte {
	t.Helper()
	var manifests [][]byte
	for _, o := range all {
		content, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, content)
	}
	return manifests
}

// as converts an object to a typed one.
func as[T any](t *testing.T, o *unstructured.Unstructured) *T {
	t.Helper()
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed); err != nil {
		t.Fatal(err)
	}
	return typed
}

// deployment returns the Deployment of a component, or nil if there is none.
func deployment(t *testing.T, all []*unstructured.Unstructured, component string) *appsv1.Deployment {
	t.Helper()
	for _, o := range only(all, "Deployment", "DaemonSet") { // whose pods are described alike
		if o.GetLabels()["app.kubernetes.io/component"] == component {
			return as[appsv1.Deployment](t, o)
		}
	}
	return nil
}

var components = []string{"dns", "member", "hub"}

var policyKinds = []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

var rbacKinds = []string{"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}

// identity returns the user name and groups that a token of the Deployment's account would have.
func identity(d *appsv1.Deployment) (user string, groups []string) {
	return "system:serviceaccount:" + d.Namespace + ":" + d.Spec.Template.Spec.ServiceAccountName,
		[]string{"system:serviceaccounts", "system:serviceaccounts:" + d.Namespace}
}
