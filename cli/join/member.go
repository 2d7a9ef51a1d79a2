package join

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/access"
	"github.com/clusterset/clusterset/internal/labels"
)

// MemberName returns a member's name, by the Secret that InstallSecret wrote, or "" if the cluster isn't a member.
func MemberName(ctx context.Context, member client.Client, key types.NamespacedName) (string, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := member.Get(ctx, key, secret); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return secret.Labels[api.LabelCluster], nil
}

// PreviouslyJoined returns when a member joined before, by its own copy of its MemberCluster, or zero if there is none.
func PreviouslyJoined(ctx context.Context, member client.Client, cluster string) (time.Time, error) {
	mc := &clustersetv1alpha1.MemberCluster{}
	err := member.Get(ctx, client.ObjectKey{Name: cluster}, mc)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("get MemberCluster %s: %w", cluster, err)
	case mc.Annotations[api.AnnotationJoined] == "":
		return time.Time{}, nil // the cluster was only described; the copy's own age says nothing
	}
	return mc.JoinedAt(), nil
}

// InstallSecret writes a kubeconfig for the hub into a Secret of the member, for its agent, and creates the Secret's namespace
// if it doesn't exist.
func InstallSecret(ctx context.Context, member client.Client, key types.NamespacedName, cluster string, kubeconfig []byte) error {
	ns := &corev1.Namespace{}
	ns.Name = key.Namespace
	if err := member.Create(ctx, ns, client.FieldOwner(api.FieldManagerCLI)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Namespace %s: %w", key.Namespace, err)
	}
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = key.Namespace, key.Name
	_, err := controllerutil.CreateOrUpdate(ctx, member, secret, func() error {
		secret.Labels = labels.Merge(secret.Labels, access.Managed(cluster), nil)
		if secret.Data == nil {
			secret.Data = make(map[string][]byte, 1)
		}
		secret.Data[api.HubSecretKey] = kubeconfig
		return nil
	})
	if err != nil {
		return fmt.Errorf("install Secret %s: %w", key, err)
	}
	return nil
}

// RemoveSecret deletes the Secret that InstallSecret wrote, unless it lacks our label.
func RemoveSecret(ctx context.Context, member client.Client, key types.NamespacedName) error {
	secret := &corev1.Secret{}
	if err := member.Get(ctx, key, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("get Secret %s: %w", key, err)
	}
	if secret.Labels[api.LabelManagedBy] != api.ManagedByJoin {
		return nil
	}
	if err := client.IgnoreNotFound(member.Delete(ctx, secret)); err != nil {
		return fmt.Errorf("delete Secret %s: %w", key, err)
	}
	return nil
}

// propertyKind is the kind of KEP-2149 that holds a cluster's name for others to read.
var propertyKind = schema.GroupKind{Group: "about.k8s.io", Kind: "ClusterProperty"}

// WriteProperties writes the cluster's name, and the set's if that is given, into the member's ClusterProperties (KEP-2149,
// "Well-known properties"). It does nothing if their CRD isn't installed. Properties that someone else wrote are left alone,
// and reported if they differ.
func WriteProperties(ctx context.Context, member client.Client, cluster, set string) error {
	gvk, ok, err := propertyVersion(member)
	if !ok || err != nil {
		return err
	}
	for name, value := range map[string]string{api.ClusterProperty: cluster, api.ClusterSetProperty: set} {
		if value == "" {
			continue
		}
		property := &unstructured.Unstructured{}
		property.SetGroupVersionKind(gvk)
		property.SetName(name)
		_, err := controllerutil.CreateOrUpdate(ctx, member, property, func() error {
			is, _, _ := unstructured.NestedString(property.Object, "spec", "value")
			foreign := property.GetResourceVersion() != "" && property.GetLabels()[api.LabelManagedBy] != api.ManagedByJoin
			if foreign && is != value {
				return fmt.Errorf("it says %q, not %q; clusterset didn't create it, so it stays: correct it if it is wrong", is, value)
			}
			if foreign {
				return nil
			}
			property.SetLabels(labels.Merge(property.GetLabels(), map[string]string{api.LabelManagedBy: api.ManagedByJoin}, nil))
			return unstructured.SetNestedField(property.Object, value, "spec", "value")
		})
		if err != nil {
			return fmt.Errorf("write ClusterProperty %s: %w", name, err)
		}
	}
	return nil
}

// RemoveProperties deletes the ClusterProperties that WriteProperties wrote.
func RemoveProperties(ctx context.Context, member client.Client) error {
	gvk, ok, err := propertyVersion(member)
	if !ok || err != nil {
		return err
	}
	for _, name := range []string{api.ClusterProperty, api.ClusterSetProperty} {
		property := &unstructured.Unstructured{}
		property.SetGroupVersionKind(gvk)
		if err := member.Get(ctx, client.ObjectKey{Name: name}, property); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return fmt.Errorf("get ClusterProperty %s: %w", name, err)
		}
		if property.GetLabels()[api.LabelManagedBy] != api.ManagedByJoin {
			continue
		}
		if err := client.IgnoreNotFound(member.Delete(ctx, property)); err != nil {
			return fmt.Errorf("delete ClusterProperty %s: %w", name, err)
		}
	}
	return nil
}

func propertyVersion(member client.Client) (schema.GroupVersionKind, bool, error) {
	mapping, err := member.RESTMapper().RESTMapping(propertyKind)
	switch {
	case meta.IsNoMatchError(err):
		return schema.GroupVersionKind{}, false, nil
	case err != nil:
		return schema.GroupVersionKind{}, false, fmt.Errorf("look for ClusterProperty: %w", err)
	}
	return mapping.GroupVersionKind, true, nil
}

// SetID returns an identifier that is unique even if people give two sets the same name: the UID of the hub's kube-system
// namespace, which KEP-2149 suggests for clusters. It is empty on a bare API server, which has no such namespace.
func SetID(ctx context.Context, hub client.Client) (string, error) {
	ns := &corev1.Namespace{}
	if err := hub.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, ns); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("get Namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return string(ns.UID), nil
}
