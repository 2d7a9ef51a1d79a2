package join_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

const propertyCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusterproperties.about.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, for a test"}
spec:
  group: about.k8s.io
  scope: Cluster
  names: {kind: ClusterProperty, plural: clusterproperties, singular: clusterproperty}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {value: {type: string}}}
`

func TestWhatIsPutIntoAMember(t *testing.T) {
	t.Parallel()
	member := kube.Start(t)
	ctx := t.Context()
	c := newClient(t, member.Config())
	key := types.NamespacedName{Namespace: api.SystemNamespace, Name: api.HubSecret}
	kubeconfigIn := func() string {
		secret := &corev1.Secret{}
		if err := c.Get(ctx, key, secret); err != nil {
			return err.Error()
		}
		return string(secret.Data[api.HubSecretKey])
	}

	t.Run("the Secret is installed, updated, renewed and removed", func(t *testing.T) {
		for _, content := range []string{"first", "second"} {
			if err := join.InstallSecret(ctx, c, key, "beijing", []byte(content)); err != nil || kubeconfigIn() != content {
				t.Fatalf("%q, %v", kubeconfigIn(), err)
			}
		}
		store := connect.SecretStore{Client: c, Key: key}
		if err := store.Save(ctx, []byte("renewed")); err != nil || kubeconfigIn() != "renewed" {
			t.Errorf("%q, %v", kubeconfigIn(), err)
		}
		if err := join.RemoveSecret(ctx, c, key); err != nil {
			t.Error(err)
		}
		if err := c.Get(ctx, key, &corev1.Secret{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Secret is left: %v", err)
		}
		if err := store.Save(ctx, []byte("renewed")); err == nil {
			t.Error("a renewal made the Secret of a cluster that has left")
		}
	})
	t.Run("someone else's Secret stays", func(t *testing.T) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		if err := c.Create(ctx, secret); err != nil {
			t.Fatal(err)
		}
		if err := join.RemoveSecret(ctx, c, key); err != nil {
			t.Error(err)
		}
		if err := c.Get(ctx, key, secret); err != nil {
			t.Error(err)
		}
	})
	t.Run("ClusterProperties hold the names where their CRD is installed", func(t *testing.T) {
		if err := join.WriteProperties(ctx, c, "beijing", "the-set"); err != nil {
			t.Errorf("without the CRD: %v", err)
		}
		member.Apply(t, []byte(propertyCRD))
		kube.Eventually(t, func() error { // the REST mapper needs a moment to discover the kind
			return join.WriteProperties(ctx, c, "beijing", "the-set")
		})
		if got := property(t, c, api.ClusterProperty) + " " + property(t, c, api.ClusterSetProperty); got != "beijing the-set" {
			t.Errorf("got %q", got)
		}
		if err := join.RemoveProperties(ctx, c); err != nil || property(t, c, api.ClusterProperty) != "" {
			t.Errorf("%q is left, %v", property(t, c, api.ClusterProperty), err)
		}
		member.Apply(t, []byte("{apiVersion: about.k8s.io/v1alpha1, kind: ClusterProperty, metadata: {name: cluster.clusterset.k8s.io}, spec: {value: theirs}}"))
		if err := join.WriteProperties(ctx, c, "beijing", ""); err == nil {
			t.Error("no word about someone else's property that says otherwise")
		}
		if err := join.RemoveProperties(ctx, c); err != nil || property(t, c, api.ClusterProperty) != "theirs" {
			t.Errorf("someone else's says %q, %v", property(t, c, api.ClusterProperty), err)
		}
	})
}

// property returns a ClusterProperty's value, or "" if there is none.
func property(t *testing.T, c client.Client, name string) string {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("about.k8s.io/v1alpha1")
	o.SetKind("ClusterProperty")
	if err := c.Get(t.Context(), types.NamespacedName{Name: name}, o); err != nil {
		if apierrors.IsNotFound(err) {
			return ""
		}
		t.Fatal(err)
	}
	value, _, _ := unstructured.NestedString(o.Object, "spec", "value")
	return value
}
