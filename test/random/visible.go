package random

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
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

// conditions returns an error if conditions of a ServiceExport are wrong, or if they name clusters whose exports its own cluster must
// not know of.
func (w *World) conditions() error {
	var errs []error
	for _, key := range w.Keys() {
		for _, p := range w.Parts(key) {
			all := p.exports[key].Status.Conditions
			for kind, want := range map[string]string{"Conflict": w.conflict(p, key), "clusterset.dev/Visible": w.importers(p), "clusterset.dev/Reachable": w.reachable(p)} {
				got := "none"
				if c := fleettest.Condition(all, kind); c != nil {
					got = fmt.Sprintf("%s %s, naming %s", c.Status, c.Reason, w.named(p, c.Message))
				}
				if got != want {
					errs = append(errs, fmt.Errorf("%s: ServiceExport %s: the condition %s is %s; want %s", p.Name, key, kind, got, want))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// named returns the other clusters that a message to a part's owner names.
func (w *World) named(p Part, message string) (names []string) {
	for _, c := range w.Clusters {
		if c.Name != p.Name && strings.Contains(message, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// conflict returns the expected condition Conflict of an export (C16). It names the winner and the clusters that differ.
func (w *World) conflict(p Part, key types.NamespacedName) string {
	seen := w.visible(p.View, key)
	var reasons []string
	named := map[string]bool{}
	for _, of := range []struct {
		reason string
		value  func(Part) string
	}{
		{"IPFamilyConflict", func(p Part) string {
			return fmt.Sprint(slices.Sorted(slices.Values(p.service.Spec.IPFamilies)))
		}},
		{"PortConflict", func(p Part) string {
			ports := map[string]bool{}
			for _, q := range p.service.Spec.Ports {
				ports[fmt.Sprint(q.Name, q.Protocol, q.Port)] = true
			}
			return fmt.Sprint(slices.Sorted(maps.Keys(ports)))
		}},
		{"TypeConflict", func(p Part) string { return fmt.Sprint(p.headless()) }},
	} {
		differ := slices.DeleteFunc(slices.Clone(seen), func(o Part) bool { return of.value(o) == of.value(seen[0]) })
		if len(differ) > 0 {
			reasons = append(reasons, of.reason)
			for _, o := range append(differ, seen[0]) {
				named[o.Name] = o.Name != p.Name
			}
		}
	}
	if reasons == nil {
		return "False NoConflicts, naming []"
	}
	maps.DeleteFunc(named, func(_ string, other bool) bool { return !other })
	var names []string
	for _, c := range w.Clusters {
		if named[c.Name] {
			names = append(names, c.Name)
		}
	}
	return fmt.Sprintf("True %s, naming %s", strings.Join(reasons, ","), names)
}

// importers returns the expected condition Visible of an export (C19).
func (w *World) importers(p Part) string {
	if !p.only && !w.communities() {
		return "none"
	}
	var names []string
	for _, c := range w.Clusters {
		if c != p.View && p.isFor(c) {
			names = append(names, c.Name)
		}
	}
	if names == nil {
		return "False " + map[bool]string{true: api.ReasonNoPeers, false: api.ReasonAlone}[p.only] + ", naming []"
	}
	return fmt.Sprintf("True Peers, naming %s", names)
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
