package join

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/hub/access"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/labels"
)

// MemberName returns a member's name, by its Secret with credentials for the hub, or "" if the cluster isn't a member.
func MemberName(ctx context.Context, member client.Client, key types.NamespacedName) (string, error) {
	secret := &corev1.Secret{}
	if err := member.Get(ctx, key, secret); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return nameIn(secret), nil
}

// nameIn returns the name of the member whose credentials a Secret holds, or "" if it holds none. A Secret that InstallSecret wrote says it
// in a label. One that was copied from the hub need not have it, but its kubeconfig names the member's namespace.
func nameIn(secret *corev1.Secret) string {
	if name := secret.Labels[api.LabelCluster]; name != "" {
		return name
	}
	config, err := clientcmd.Load(secret.Data[api.HubSecretKey])
	if err != nil {
		return ""
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return ""
	}
	name, _ := api.ClusterOfNamespace(current.Namespace)
	return name
}

// Recall adds to the options what a member was before, by its MemberCluster in it: a copy, or that of a hub that it has been until now. They stay as
// they are if there is none, or if the cluster has left.
func (o *Options) Recall(ctx context.Context, member client.Client) error {
	mc := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: o.Cluster}}
	found, err := get(ctx, member, mc)
	if err == nil && found && !mc.Left() && mc.Joined() { // what only describes it says nothing
		o.Joined, o.Previous = mc.JoinedAt(), mc.Spec
	}
	return err
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

// RemoveSecret deletes the Secret with the member's credentials. One that holds something else stays.
func RemoveSecret(ctx context.Context, member client.Client, key types.NamespacedName) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	return removeIf(ctx, member, secret, func(client.Object) bool { return nameIn(secret) != "" })
}

func byJoin(o client.Object) bool { return o.GetLabels()[api.LabelManagedBy] == api.ManagedByJoin }

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
		property := namedProperty(gvk, name)
		_, err := controllerutil.CreateOrUpdate(ctx, member, property, func() error {
			is, _, _ := unstructured.NestedString(property.Object, "spec", "value")
			foreign := property.GetResourceVersion() != "" && !byJoin(property)
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
		if err := removeIf(ctx, member, namedProperty(gvk, name), byJoin); err != nil {
			return err
		}
	}
	return nil
}

func namedProperty(gvk schema.GroupVersionKind, name string) *unstructured.Unstructured {
	property := &unstructured.Unstructured{}
	property.SetGroupVersionKind(gvk)
	property.SetName(name)
	return property
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
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	_, err := get(ctx, hub, ns)
	return string(ns.UID), err
}

// traces are the kinds that our agent writes in a member, and the label that identifies our objects. Owners come first: if an
// agent is interrupted, everything it leaves can be garbage-collected. Namespaces that the importer created aren't included,
// because others may use them by now.
var traces = []struct {
	kind      schema.GroupKind
	managedBy string
}{
	{schema.GroupKind{Group: mcsv1beta1.GroupName, Kind: mcsv1beta1.ServiceExportKindName}, api.ManagedByExporter},
	{schema.GroupKind{Group: mcsv1beta1.GroupName, Kind: mcsv1beta1.ServiceImportKindName}, api.ManagedByImporter},
	{schema.GroupKind{Group: fabedgev1alpha1.GroupName, Kind: "GlobalService"}, api.ManagedByImporter},
	{discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice").GroupKind(), api.ManagedByImporter},
	{corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), api.ManagedByImporter},
	{schema.GroupKind{Group: clustersetv1alpha1.GroupName, Kind: "MemberCluster"}, api.ManagedByImporter},
	{schema.GroupKind{Group: clustersetv1alpha1.GroupName, Kind: "Reachability"}, api.ManagedByImporter},
}

// RemoveTraces deletes everything that our agent wrote in a member that has left: imports, whose names would otherwise be
// answered forever, and the ServiceExports it created for marks. Users' own objects stay. The agent must be stopped first, or
// it rewrites them from what it remembers of the hub.
func RemoveTraces(ctx context.Context, member client.Client) error {
	for _, trace := range traces {
		mapping, err := member.RESTMapper().RESTMapping(trace.kind)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look for %s: %w", trace.kind, err)
		}
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(trace.kind.Kind + "List"))
		if err := member.List(ctx, &list, client.MatchingLabels{api.LabelManagedBy: trace.managedBy}); err != nil {
			return fmt.Errorf("list %s: %w", trace.kind, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			object.SetGroupVersionKind(mapping.GroupVersionKind)
			svc := &corev1.Service{}
			if trace.kind.Kind == "Service" && member.Get(ctx, client.ObjectKeyFromObject(object), svc) == nil && desired.Taken(svc) {
				continue // since the agent was stopped
			}
			if len(object.Finalizers) > 0 && trace.kind.Kind == mcsv1beta1.ServiceImportKindName {
				// It stays for a while, and the API server may give its addresses to anybody once the derived Service is gone (C85).
				if err := member.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"ips":null}}`))); client.IgnoreNotFound(err) != nil {
					return fmt.Errorf("take the addresses from %s %s: %w", trace.kind.Kind, client.ObjectKeyFromObject(object), err)
				}
			}
			if err := client.IgnoreNotFound(member.Delete(ctx, object)); err != nil {
				return fmt.Errorf("delete %s %s: %w", trace.kind.Kind, client.ObjectKeyFromObject(object), err)
			}
		}
	}
	return nil
}
