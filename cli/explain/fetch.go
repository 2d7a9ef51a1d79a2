package explain

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/manifests"
	"github.com/clusterset/clusterset/internal/merge"
)

// Fetch reads the objects on which the answer depends from a cluster, as a DNS server there sees them. It also reads the other
// services of the namespace, in case the user meant one of them.
func Fetch(ctx context.Context, c *objects.Cluster, key index.ServiceKey) (*Facts, error) {
	f := &Facts{Self: c.Name(ctx)}
	members, err := c.MemberClusters(ctx)
	if err != nil {
		return nil, err
	}
	addAll(f, members)
	reach, err := c.Reachability(ctx)
	if err != nil {
		return nil, err
	}
	f.measured(reach, time.Now())
	in := client.InNamespace(key.Namespace())
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	f.noNamespace = apierrors.IsNotFound(c.Get(ctx, client.ObjectKey{Name: key.Namespace()}, namespace))
	everywhere := client.InNamespace("")
	if !f.noNamespace {
		everywhere = in // otherwise a service of that name in another namespace may be meant
	}
	imports, err := c.ServiceImports(ctx, everywhere)
	if err != nil {
		return nil, err
	}
	addAll(f, imports)
	var globals fabedgev1alpha1.GlobalServiceList
	if err := c.List(ctx, &globals, in); err != nil && !objects.NotServed(err) {
		return nil, c.Words(err)
	}
	addAll(f, globals.Items)
	for label, service := range map[string]string{api.LabelServiceName: key.Name(), discoveryv1.LabelServiceName: api.DerivedServiceName(key.Namespace(), key.Name())} {
		var found discoveryv1.EndpointSliceList
		if err := c.List(ctx, &found, in, client.MatchingLabels{label: service}); err != nil {
			return nil, c.Words(err)
		}
		for i := range found.Items {
			if s := &found.Items[i]; label == api.LabelServiceName || s.Labels[api.LabelServiceName] == "" { // else it is among the imported ones
				f.add(s)
			}
		}
	}
	exports, err := c.ServiceExports(ctx, in)
	if err != nil {
		return nil, err
	}
	for i := range exports {
		f.export(key, &exports[i])
	}
	return f, nil
}

// measured adds what the cluster's agent says of the ways to other clusters, unless it has stopped saying so: then DNS servers take no account
// of it (D51).
func (f *Facts) measured(reach *clustersetv1alpha1.Reachability, now time.Time) {
	switch {
	case reach == nil:
	case now.Sub(reach.Stamp.Time) > objects.ReachabilityAge:
		f.Notes = append(f.Notes, fmt.Sprintf("this cluster's agent last said %s ago which clusters it can reach, so all count as reachable; check that clusterset member runs",
			screen.Age(now.Sub(reach.Stamp.Time))))
	default:
		f.add(reach)
	}
}

// FromManifests returns the Facts in the objects of a directory.
func FromManifests(found []manifests.Located, notes []manifests.Note) *Facts {
	f := &Facts{}
	for _, l := range found {
		f.put(l.Object, l.Source)
	}
	for _, n := range notes {
		f.Notes = append(f.Notes, strings.Join(strings.Fields(n.String()), " "))
	}
	return f
}

// FromObjects returns the Facts in these objects of a cluster.
func FromObjects(all []runtime.Object) *Facts {
	f := &Facts{}
	for _, o := range all {
		f.add(o)
	}
	return f
}

// FetchExports reads the exports of the service from the hub. It sets Conflicts to those among the exports that the cluster self sees, and
// Hidden to why it doesn't see the others. If self is empty, it is assumed to see all.
func (f *Facts) FetchExports(ctx context.Context, hub *objects.Cluster, key index.ServiceKey, self string) error {
	var list clustersetv1alpha1.ExportedServiceList
	err := hub.List(ctx, &list, client.MatchingLabels{api.LabelExportedNamespace: key.Namespace(), api.LabelExportedName: key.Name()})
	if err != nil {
		return hub.Words(err)
	}
	members, err := hub.MemberClusters(ctx)
	if err != nil {
		return err
	}
	records := make([]*clustersetv1alpha1.ExportedService, len(list.Items))
	for i := range list.Items {
		records[i] = &list.Items[i]
	}
	_, member := view.ByName(members)
	f.See(records, member, self)
	return nil
}

// See sets Conflicts to those among the exports of the service that the cluster self sees, and Hidden to why it doesn't see the others.
func (f *Facts) See(records []*clustersetv1alpha1.ExportedService, member func(cluster string) *clustersetv1alpha1.MemberCluster, self string) {
	values := make([]*door.Export, len(records))
	for i, r := range records {
		values[i] = door.CompactService(r, time.Now())
	}
	exports, _ := merge.Exports(values, merge.JoinedBy(member)) // what is left out of them, the ServiceImport's condition says
	sees := merge.Sees(self, member)
	var seen []merge.Export
	var hidden []string
	for _, e := range exports {
		if sight := sees(e.Cluster, e.Spec.ExportTo); sight != merge.Seen {
			hidden = append(hidden, sight.Words(e.Cluster, self))
		} else {
			seen = append(seen, e)
		}
	}
	if more := len(hidden) - shownHidden; more > 0 {
		hidden = append(hidden[:shownHidden], fmt.Sprintf("%d more export it, and not to %s", more, self))
	}
	f.Hidden, f.Conflicts = hidden, nil // the ServiceExport has the same conflicts, but is updated later
	for _, c := range merge.Resolve(seen).Conflicts {
		f.Conflicts = append(f.Conflicts, fmt.Sprintf("%s: %s", c.Reason, c))
	}
}

// shownHidden is how many clusters are named whose exports this one doesn't see.
const shownHidden = 5

// add adds an object, and a note for each part of it that can't be served.
func (f *Facts) add(o runtime.Object) {
	if slice, ok := o.(*discoveryv1.EndpointSlice); ok && slice.Labels[api.LabelServiceName] == "" { // it is for a ClusterIP: DNS servers don't read it
		f.slices = append(f.slices, slice)
		return
	}
	object, errs, _ := index.Convert(o)
	for _, err := range errs {
		name := "?"
		if m, e := meta.Accessor(o); e == nil {
			name = strings.TrimPrefix(m.GetNamespace()+"/"+m.GetName(), "/")
		}
		f.Notes = append(f.Notes, fmt.Sprintf("%s: %v", name, err))
	}
	if object != nil {
		f.put(object, o)
	}
}

func addAll[T any, P interface {
	*T
	runtime.Object
}](f *Facts, all []T) {
	for i := range all {
		f.add(P(&all[i]))
	}
}

func (f *Facts) imported(key index.ServiceKey) *mcsv1beta1.ServiceImport {
	for _, o := range f.imports {
		if o.Namespace == key.Namespace() && o.Name == key.Name() {
			return o
		}
	}
	return nil
}

func (f *Facts) put(object index.Object, source runtime.Object) {
	f.Objects = append(f.Objects, object)
	switch o := source.(type) {
	case *clustersetv1alpha1.MemberCluster:
		f.Members = append(f.Members, *o)
	case *discoveryv1.EndpointSlice:
		f.slices = append(f.slices, o)
	case *mcsv1beta1.ServiceImport:
		f.imports = append(f.imports, o)
	}
}

// export adds the conditions of this cluster's ServiceExport of the service.
func (f *Facts) export(key index.ServiceKey, e *mcsv1beta1.ServiceExport) {
	if e.Name != key.Name() {
		return
	}
	if c := meta.FindStatusCondition(e.Status.Conditions, string(mcsv1beta1.ServiceExportConditionConflict)); c != nil && c.Status == "True" {
		f.Conflicts = append(f.Conflicts, c.Reason+": "+c.Message)
	}
	f.Notes = append(f.Notes, conditions("ServiceExport", e.Status.Conditions)...)
}

// conditions says which conditions of the service's object here aren't as they should be.
func conditions(what string, all []metav1.Condition) (notes []string) {
	for _, p := range (view.Problem{}).Of(all) {
		notes = append(notes, strings.TrimSuffix(fmt.Sprintf("this cluster's %s: %s: %s; %s", what, p.Reason, p.Message, p.Cure), "; "))
	}
	return notes
}
