package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// communities are those that a cluster is in, though its MemberCluster may name none (C18).
func (c *clusterView) communities() []string {
	if len(c.in) == 0 {
		return []string{"default"}
	}
	return c.in
}

// peer says whether two clusters see each other's exports, as far as these are for all (C18).
func (c *clusterView) peer(o *clusterView) bool {
	return c == o || slices.ContainsFunc(c.communities(), func(name string) bool { return slices.Contains(o.communities(), name) })
}

// communities says whether the set has any (C27).
func (w *world) communities() bool {
	return slices.ContainsFunc(w.clusters, func(c *clusterView) bool {
		return slices.ContainsFunc(c.in, func(name string) bool { return name != "default" })
	})
}

// exportedTo returns whom an export names; only is false if it names nobody because it is for all. If the ServiceExport doesn't say, the
// Service does (C19).
func exportedTo(s *corev1.Service, e *mcsv1beta1.ServiceExport) (to []string, only bool) {
	text, only := e.Annotations["clusterset.dev/export-to"]
	if !only {
		text, only = s.Annotations["clusterset.dev/export-to"]
	}
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }), only
}

// isFor says whether a cluster imports the export (C18, C19).
func (p exportedPart) isFor(viewer *clusterView) bool {
	if p.clusterView == viewer || !p.only {
		return p.peer(viewer)
	}
	named := func(name string) bool { return slices.Contains(p.to, name) }
	return p.peer(viewer) && (named(viewer.name) || slices.ContainsFunc(viewer.communities(), named))
}

// visible returns a service's parts that a cluster sees, the winner among them first.
func (w *world) visible(viewer *clusterView, key types.NamespacedName) []exportedPart {
	return slices.DeleteFunc(w.parts(key), func(p exportedPart) bool { return !p.isFor(viewer) })
}

// conditions returns an error about a ServiceExport whose conditions say something else than is so, or that name clusters of which its
// own cluster isn't to know what they export.
func (w *world) conditions() error {
	var errs []error
	for _, key := range w.keys() {
		for _, p := range w.parts(key) {
			all := p.exports[key].Status.Conditions
			for kind, want := range map[string]string{"Conflict": w.conflict(p, key), "clusterset.dev/Visible": w.importers(p)} {
				got := "none"
				if c := condition(all, kind); c != nil {
					got = fmt.Sprintf("%s %s, naming %s", c.Status, c.Reason, w.named(p, c.Message))
				}
				if got != want {
					errs = append(errs, fmt.Errorf("%s: ServiceExport %s: the condition %s is %s; want %s", p.name, key, kind, got, want))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// named are the other clusters that a message to a part's owner names.
func (w *world) named(p exportedPart, message string) (names []string) {
	for _, c := range w.clusters {
		if c.name != p.name && strings.Contains(message, c.name) {
			names = append(names, c.name)
		}
	}
	return names
}

// conflict is the condition Conflict of an export (C16), which names who wins and who differs.
func (w *world) conflict(p exportedPart, key types.NamespacedName) string {
	seen := w.visible(p.clusterView, key)
	var reasons []string
	named := map[string]bool{}
	for _, of := range []struct {
		reason string
		value  func(exportedPart) string
	}{
		{"IPFamilyConflict", func(p exportedPart) string {
			return fmt.Sprint(slices.Sorted(slices.Values(p.service.Spec.IPFamilies)))
		}},
		{"PortConflict", func(p exportedPart) string {
			ports := map[string]bool{}
			for _, q := range p.service.Spec.Ports {
				ports[fmt.Sprint(q.Name, q.Protocol, q.Port)] = true
			}
			return fmt.Sprint(slices.Sorted(maps.Keys(ports)))
		}},
		{"TypeConflict", func(p exportedPart) string { return fmt.Sprint(p.headless()) }},
	} {
		differ := slices.DeleteFunc(slices.Clone(seen), func(o exportedPart) bool { return of.value(o) == of.value(seen[0]) })
		if len(differ) > 0 {
			reasons = append(reasons, of.reason)
			for _, o := range append(differ, seen[0]) {
				named[o.name] = o.name != p.name
			}
		}
	}
	if reasons == nil {
		return "False NoConflicts, naming []"
	}
	maps.DeleteFunc(named, func(_ string, other bool) bool { return !other })
	var names []string
	for _, c := range w.clusters {
		if named[c.name] {
			names = append(names, c.name)
		}
	}
	return fmt.Sprintf("True %s, naming %s", strings.Join(reasons, ","), names)
}

// importers is the condition Visible of an export (C19).
func (w *world) importers(p exportedPart) string {
	if p.tooOld || !p.only && !w.communities() {
		return "none"
	}
	var names []string
	for _, c := range w.clusters {
		if c != p.clusterView && p.isFor(c) {
			names = append(names, c.name)
		}
	}
	if names == nil {
		return "False NoPeers, naming []"
	}
	return fmt.Sprintf("True Peers, naming %s", names)
}

// readable returns an error unless each cluster's own credentials on the hub read the records of exactly those clusters that it shares a
// community with, and the hub says that this is enforced (C27).
func (r *randomRun) readable(w *world) error {
	var errs []error
	limited := w.communities()
	for i, m := range r.members {
		said, want := "none", "none"
		var mc clustersetv1alpha1.MemberCluster
		if err := r.hub.get("", m.name, &mc); err != nil {
			return err
		}
		if c := condition(mc.Status.Conditions, "CommunitiesEnforced"); c != nil {
			said = fmt.Sprint(c.Status, " ", c.Reason)
		}
		switch {
		case limited && r.tooOld == "":
			want = "True Enforced"
		case limited && r.tooOld == m.name:
			want = "False AgentTooOld"
		case limited:
			want = "False WaitsForAgents"
		}
		if said != want {
			errs = append(errs, fmt.Errorf("CommunitiesEnforced of %s is %s, want %s", m.name, said, want))
		}
		onHub, err := dynamic.NewForConfig(m.onHub())
		if err != nil {
			return err
		}
		everybody := !limited || r.tooOld != ""
		may := map[string]bool{"": everybody} // by namespace
		for _, of := range w.clusters {
			may["clusterset-member-"+of.name] = everybody || w.clusters[i].peer(of)
		}
		for _, kind := range []string{"exportedservices", "exportedendpoints"} {
			records := onHub.Resource(schema.GroupVersionResource{Group: "clusterset.dev", Version: "v1alpha1", Resource: kind})
			for namespace, want := range may {
				_, err := records.Namespace(namespace).List(context.Background(), metav1.ListOptions{Limit: 1})
				if forbidden := apierrors.IsForbidden(err); err != nil && !forbidden || forbidden == want {
					errs = append(errs, fmt.Errorf("%s reads %s in %q: %w; want that it may: %v", m.name, kind, namespace, err, want))
				}
			}
		}
	}
	return errors.Join(errs...)
}
