package random

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
)

// communities returns the communities of a cluster. If its MemberCluster names none, it is in "default" (C18).
func (c *View) communities() []string {
	if len(c.In) == 0 {
		return []string{"default"}
	}
	return c.In
}

// peer reports whether two clusters see each other's exports, apart from exports for some clusters only (C18).
func (c *View) peer(o *View) bool {
	return c == o || slices.ContainsFunc(c.communities(), func(name string) bool { return slices.Contains(o.communities(), name) })
}

// communities reports whether the set uses communities (C27).
func (w *World) communities() bool {
	return slices.ContainsFunc(w.Clusters, func(c *View) bool {
		return slices.ContainsFunc(c.In, func(name string) bool { return name != "default" })
	})
}

// exportedTo returns the clusters and communities that an export names. If only is false, it names none because it is for all. The
// Service's annotation counts if the ServiceExport has none (C19).
func exportedTo(s *corev1.Service, e *mcsv1beta1.ServiceExport) (to []string, only bool) {
	text, only := e.Annotations["clusterset.dev/export-to"]
	if !only {
		text, only = s.Annotations["clusterset.dev/export-to"]
	}
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }), only
}

// isFor reports whether a cluster imports the export (C18, C19).
func (p Part) isFor(viewer *View) bool {
	if p.View == viewer || !p.only {
		return p.peer(viewer)
	}
	named := func(name string) bool { return slices.Contains(p.to, name) }
	return p.peer(viewer) && (named(viewer.Name) || slices.ContainsFunc(viewer.communities(), named))
}

// visible returns the parts of a service that a cluster sees, the winner among them first.
func (w *World) visible(viewer *View, key types.NamespacedName) []Part {
	return slices.DeleteFunc(w.Parts(key), func(p Part) bool { return !p.isFor(viewer) })
}

// discreet returns an error if a condition of a ServiceExport names a cluster that its own cluster must not know of, or, as one that differs, one
// whose export it must not see.
func (w *World) discreet() error {
	var errs []error
	for _, key := range w.Keys() {
		for _, p := range w.Parts(key) {
			seen := w.visible(p.View, key)
			for _, said := range p.exports[key].Status.Conditions {
				for _, other := range w.Clusters {
					differs := slices.ContainsFunc(seen, func(o Part) bool { return o.View == other })
					if strings.Contains(said.Message, other.Name) && !differs && (said.Type == "Conflict" || !p.peer(other)) {
						errs = append(errs, fmt.Errorf("%s: ServiceExport %s: the condition %s names %s: %s", p.Name, key, said.Type, other.Name, said.Message))
					}
				}
			}
		}
	}
	return errors.Join(errs...)
}

// readable returns an error unless each cluster's own credentials on the hub can read the records of exactly the clusters that share a
// community with it, and the hub reports that it enforces this (C27). If nothing is to be enforced, the credentials must read all
// records.
func (r *Run) readable(w *World) error {
	var errs []error
	limited := w.communities()
	for i, m := range r.Members {
		said, want := "none", "none"
		var mc clustersetv1alpha1.MemberCluster
		if err := r.Hub.Get("", m.Spec.Name, &mc); err != nil {
			return err
		}
		if c := fleettest.Condition(mc.Status.Conditions, "CommunitiesEnforced"); c != nil {
			said = fmt.Sprint(c.Status, " ", c.Reason)
		}
		if limited {
			want = "True Enforced"
		}
		if said != want {
			errs = append(errs, fmt.Errorf("CommunitiesEnforced of %s is %s, want %s", m.Spec.Name, said, want))
		}
		onHub, err := client.New(m.OnHub(), client.Options{Scheme: fleet.Scheme})
		if err != nil {
			return err
		}
		may := map[string]bool{"": !limited} // by namespace
		for _, of := range w.Clusters {
			may["clusterset-member-"+of.Name] = !limited || w.Clusters[i].peer(of)
		}
		for namespace, want := range may {
			for _, records := range []client.ObjectList{&clustersetv1alpha1.ExportedServiceList{}, &clustersetv1alpha1.ExportedEndpointsList{}} {
				err := onHub.List(context.Background(), records, client.InNamespace(namespace), client.Limit(1))
				if forbidden := apierrors.IsForbidden(err); err != nil && !forbidden || forbidden == want {
					errs = append(errs, fmt.Errorf("%s reads %T in %q: %w; want that it may: %v", m.Spec.Name, records, namespace, err, want))
				}
			}
		}
	}
	return errors.Join(errs...)
}
