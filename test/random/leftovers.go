package random

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// leftovers returns an error if the importer's objects are left for a service that nobody exports to that cluster, or a cluster's
// records are left on the hub for a service that it doesn't export (C5, C18, C19, C30 of docs/spec/control-plane.md).
func (r *Run) leftovers(w *World) error {
	var left []string
	for i, m := range r.Members {
		for _, ns := range r.Script.Namespaces {
			for _, list := range []client.ObjectList{
				&mcsv1beta1.ServiceImportList{}, &fabedgev1alpha1.GlobalServiceList{}, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{},
			} {
				if err := m.List(list, client.InNamespace(ns), client.MatchingLabels{"clusterset.dev/managed-by": "importer"}); err != nil {
					return err
				}
				for _, o := range ObjectsOf(list) {
					if o.GetLabels()[extendsLabel] != "" {
						continue // see Extending
					}
					key := types.NamespacedName{Namespace: ns, Name: o.GetName()}
					if of := o.GetLabels()["multicluster.kubernetes.io/service-name"]; of != "" {
						key.Name = of
					}
					from := o.GetLabels()["multicluster.kubernetes.io/source-cluster"]
					if !slices.ContainsFunc(w.visible(w.Clusters[i], key), func(p Part) bool { return from == "" || p.Name == from }) {
						left = append(left, fmt.Sprintf("%s: %T %s", m.Spec.Name, o, client.ObjectKeyFromObject(o)))
					}
				}
			}
		}
	}
	for _, list := range []client.ObjectList{&clustersetv1alpha1.ExportedServiceList{}, &clustersetv1alpha1.ExportedEndpointsList{}} {
		if err := r.Hub.List(list); err != nil {
			return err
		}
		for _, o := range ObjectsOf(list) {
			labels := o.GetLabels()
			if s, ok := o.(*clustersetv1alpha1.ExportedService); ok && !s.Exports() {
				continue
			}
			key := types.NamespacedName{Namespace: labels["clusterset.dev/service-namespace"], Name: labels["clusterset.dev/service-name"]}
			if !slices.ContainsFunc(w.Parts(key), func(p Part) bool { return o.GetNamespace() == "clusterset-member-"+p.Name }) {
				left = append(left, fmt.Sprintf("hub: %T %s", o, client.ObjectKeyFromObject(o)))
			}
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%d objects belong to services that nobody exports:\n%s", len(left), strings.Join(left[:min(8, len(left))], "\n"))
	}
	return nil
}

// ObjectsOf returns the objects of a list.
func ObjectsOf(list client.ObjectList) (all []client.Object) {
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		all = append(all, o.(client.Object))
		return nil
	})
	return all
}
