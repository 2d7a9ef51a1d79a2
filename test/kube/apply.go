package kube

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/clusterset/clusterset/test/poll"
)

// fieldManager owns the fields that tests apply. Conflicts are forced: a test states the wanted object, even if another manager owns its fields.
const fieldManager = "clusterset-test"

// Apply server-side applies manifests: YAML or JSON, any number of documents, any kind the API server knows or one of the manifests defines.
// Namespaced objects that name no namespace go to "default". Kinds with a status subresource lose their status here; see
// [ControlPlane.ApplyStatus].
func (c *ControlPlane) Apply(t testing.TB, manifests ...[]byte) {
	t.Helper()
	if err := c.ApplyContext(t.Context(), manifests...); err != nil {
		t.Fatal(err)
	}
}

// ApplyContext is [ControlPlane.Apply] outside of a test.
func (c *ControlPlane) ApplyContext(ctx context.Context, manifests ...[]byte) error {
	objs, err := decode(manifests...)
	if err != nil {
		return err
	}
	// CRDs come first. All are applied before the first is waited for, because the API server establishes them concurrently.
	crds := 0
	for crds < len(objs) && isCRD(objs[crds]) {
		crds++
	}
	for _, obj := range objs[:crds] {
		if err := c.resources.apply(ctx, obj); err != nil {
			return err
		}
	}
	for _, obj := range objs[:crds] {
		if err := c.resources.established(ctx, obj); err != nil {
			return err
		}
	}
	for _, obj := range objs[crds:] {
		if err := c.resources.apply(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// ApplyStatus applies only the status of existing objects: what a controller that doesn't run in the test would have written.
func (c *ControlPlane) ApplyStatus(t testing.TB, manifests ...[]byte) {
	t.Helper()
	objs, err := decode(manifests...)
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objs {
		if err := c.resources.apply(t.Context(), obj, "status"); err != nil {
			t.Fatal(err)
		}
	}
}

// Delete deletes the objects that manifests name, last first, and ignores those that don't exist. It doesn't wait for finalizers, nor for the
// work of the controller manager: emptying namespaces, deleting dependents.
func (c *ControlPlane) Delete(t testing.TB, manifests ...[]byte) {
	t.Helper()
	if err := c.DeleteContext(t.Context(), manifests...); err != nil {
		t.Fatal(err)
	}
}

// DeleteContext is [ControlPlane.Delete] outside of a test.
func (c *ControlPlane) DeleteContext(ctx context.Context, manifests ...[]byte) error {
	objs, err := decode(manifests...)
	if err != nil {
		return err
	}
	for _, obj := range slices.Backward(objs) {
		r, err := c.resources.Of(obj)
		if meta.IsNoMatchError(err) {
			continue // its kind is gone, and the object with it
		}
		if err != nil {
			return err
		}
		policy := metav1.DeletePropagationBackground
		err = r.Delete(ctx, obj.GetName(), metav1.DeleteOptions{PropagationPolicy: &policy})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s: %w", describe(obj), err)
		}
	}
	return nil
}

// Resources finds the resource that serves an object's kind, and applies objects there.
type Resources struct {
	client    dynamic.Interface
	discovery *restmapper.DeferredDiscoveryRESTMapper
}

// NewResources returns the resources of an API server, for whom a client configuration is of.
func NewResources(cfg *rest.Config) (*Resources, error) {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make dynamic client: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make discovery client: %w", err)
	}
	return &Resources{client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))}, nil
}

// Mapping finds the resource of obj.
func (m *Resources) Mapping(obj *unstructured.Unstructured) (*meta.RESTMapping, error) {
	gvk := obj.GroupVersionKind()
	mapping, err := m.discovery.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		// Another client, such as Helm, may have installed the kind since the last discovery.
		m.discovery.Reset()
		mapping, err = m.discovery.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("find resource of %s: %w", describe(obj), err)
	}
	return mapping, nil
}

// Of returns the resource of obj. It sets the namespace "default" if obj is namespaced and names none.
func (m *Resources) Of(obj *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	mapping, err := m.Mapping(obj)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return m.client.Resource(mapping.Resource), nil
	}
	if obj.GetNamespace() == "" {
		obj.SetNamespace(metav1.NamespaceDefault)
	}
	return m.client.Resource(mapping.Resource).Namespace(obj.GetNamespace()), nil
}

// Get returns obj as it is now.
func (m *Resources) Get(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	r, err := m.Of(obj)
	if err != nil {
		return nil, err
	}
	return r.Get(ctx, obj.GetName(), metav1.GetOptions{})
}

func (m *Resources) apply(ctx context.Context, obj *unstructured.Unstructured, subresource ...string) error {
	r, err := m.Of(obj)
	if err != nil {
		return err
	}
	// kubectl get -o yaml prints these fields, and an apply rejects them.
	obj.SetManagedFields(nil)
	obj.SetResourceVersion("")
	// Where other programs keep the processors, an API server gives up a write that etcd has not answered within 34 seconds.
	for range 4 {
		_, err = r.Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}, subresource...)
		if !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", describe(obj), err)
	}
	return nil
}

// established waits until the kind that crd defines can be used, in every version that it serves. Discovery follows the Established condition
// with a delay; until then objects of the kind have no resource.
func (m *Resources) established(ctx context.Context, crd *unstructured.Unstructured) error {
	err := poll.Within(ctx, 30*time.Second, func(ctx context.Context) error {
		live, err := m.Get(ctx, crd)
		if err != nil {
			return err
		}
		if err := conditionTrue(live, "Established"); err != nil {
			return err
		}
		for _, gvk := range servedKinds(live) {
			if _, err := m.discovery.RESTMapping(gvk.GroupKind(), gvk.Version); err != nil {
				m.discovery.Reset() // so that the next try asks again
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", describe(crd), err)
	}
	return nil
}
