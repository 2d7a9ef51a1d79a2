// Package objects reads objects from API servers for the interactive commands (`clusterset status`, `explain`, `drain`, `doctor`),
// in the version that is served, and turns errors into one line that says what to do.
//
// It is the thin edge of the packages view, explain and doctor, which are pure.
package objects

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/mcs"
)

// Cluster is an API server that a command uses.
type Cluster struct {
	client.Client
	Config *rest.Config
	// What is its part, for messages: "cluster" or "hub".
	What string
	// Server is its address, Flags those that chose it.
	Server, Flags string
	// Rights says what to do about a missing right. If it is empty, the advice for read-only commands is used.
	Rights string
}

// Open returns a cluster. It sends no request yet.
func Open(config *rest.Config, what, flags string) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{} // users can do nothing about a deprecated v1alpha1
	c := &Cluster{Config: config, What: what, Server: config.Host, Flags: flags}
	var err error
	if c.Client, err = connect.NewClient(config); err != nil {
		return nil, c.Words(err)
	}
	return c, nil
}

// MemberClusters lists the MemberClusters.
func (c *Cluster) MemberClusters(ctx context.Context) ([]clustersetv1alpha1.MemberCluster, error) {
	var list clustersetv1alpha1.MemberClusterList
	if err := c.List(ctx, &list); err != nil {
		return nil, c.Words(err)
	}
	return list.Items, nil
}

// HubMembers lists the MemberClusters of the hub. It is an error if one is a copy: an importer made it, so this is a member. A member that is
// the hub itself has no copies.
func (c *Cluster) HubMembers(ctx context.Context) ([]clustersetv1alpha1.MemberCluster, error) {
	all, err := c.MemberClusters(ctx)
	for i := range all {
		if all[i].Labels[api.LabelManagedBy] == api.ManagedByImporter {
			return nil, fmt.Errorf("%s is a member and not the hub: its MemberCluster %s is a copy; use the hub's kubeconfig with %s", c.Server, all[i].Name, c.Flags)
		}
	}
	return all, err
}

// ReachabilityAge is the age at which a Reachability no longer counts (D51).
const ReachabilityAge = 10 * time.Minute

// Reachability returns which clusters the cluster's agent can reach, however long ago it said so; nil if that isn't known: the agent doesn't
// measure, or the object may not be read.
func (c *Cluster) Reachability(ctx context.Context) (*clustersetv1alpha1.Reachability, error) {
	o := &clustersetv1alpha1.Reachability{}
	err := c.Get(ctx, client.ObjectKey{Name: clustersetv1alpha1.ReachabilityName}, o)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), NotServed(err):
		return nil, nil
	case err != nil:
		return nil, c.Words(err)
	}
	return o, nil
}

// ServiceImports lists ServiceImports. If the kind isn't served, there are none.
func (c *Cluster) ServiceImports(ctx context.Context, options ...client.ListOption) ([]mcsv1beta1.ServiceImport, error) {
	return listMCS[mcsv1beta1.ServiceImport](ctx, c, "ServiceImport", options)
}

// ServiceExports lists ServiceExports. If the kind isn't served, there are none.
func (c *Cluster) ServiceExports(ctx context.Context, options ...client.ListOption) ([]mcsv1beta1.ServiceExport, error) {
	return listMCS[mcsv1beta1.ServiceExport](ctx, c, "ServiceExport", options)
}

// Name returns the cluster's name in its set, from its ClusterProperty (KEP-2149, "Well-known properties"), from the Secret that join created, or
// from its agent's Reachability: the Secret may be elsewhere or without the label, and few may read Secrets. It is "" if none of them has it. A
// failure to read them is no error.
func (c *Cluster) Name(ctx context.Context) string {
	if mapping, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: "about.k8s.io", Kind: "ClusterProperty"}); err == nil {
		property := &unstructured.Unstructured{}
		property.SetGroupVersionKind(mapping.GroupVersionKind)
		if c.Get(ctx, client.ObjectKey{Name: api.ClusterProperty}, property) == nil {
			if name, _, _ := unstructured.NestedString(property.Object, "spec", "value"); name != "" {
				return name
			}
		}
	}
	secret := &metav1.PartialObjectMetadata{} // without the credentials
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if c.Get(ctx, client.ObjectKey{Namespace: api.SystemNamespace, Name: api.HubSecret}, secret) == nil && secret.Labels[api.LabelCluster] != "" {
		return secret.Labels[api.LabelCluster]
	}
	if r, err := c.Reachability(ctx); err == nil && r != nil {
		return r.Cluster
	}
	return ""
}

// listMCS lists a kind of the Multi-Cluster Services API in version v1beta1, or in v1alpha1, which has the same fields, if v1beta1
// isn't served.
func listMCS[T any](ctx context.Context, c *Cluster, kind string, options []client.ListOption) ([]T, error) {
	list := &unstructured.UnstructuredList{}
	var err error
	for _, version := range mcs.Versions {
		list.SetGroupVersionKind(mcs.Version(version).Kind(kind + "List"))
		if err = c.List(ctx, list, options...); !NotServed(err) {
			break
		}
	}
	switch {
	case NotServed(err):
		return nil, nil
	case err != nil:
		return nil, c.Words(err)
	}
	items := make([]T, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &items[i]); err != nil {
			return nil, fmt.Errorf("read %s %s/%s: %w", kind, list.Items[i].GetNamespace(), list.Items[i].GetName(), err)
		}
	}
	return items, nil
}

// NotServed reports whether an API server doesn't know the requested kind.
func NotServed(err error) bool {
	return err != nil && (meta.IsNoMatchError(err) || errors.As(err, new(*meta.NoKindMatchError)))
}
