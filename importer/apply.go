package importer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/labels"
	"github.com/clusterset/clusterset/internal/policy"
)

// sliceWriters is how many slices of one service are written in parallel.
const sliceWriters = 8

// apply writes what differs. The derived Service comes first, because the API server chooses its addresses and the ServiceImport is then written
// once, with them; then the slices, which the ServiceImport owns; at last its status, which says what couldn't be written. A derived Service that
// goes is deleted once the ServiceImport doesn't have its addresses any more. An object is still written if one it doesn't depend on fails.
func (r *reconciler) apply(ctx context.Context, in desired.Input, out desired.Output, cur desired.Current) error {
	if imp := cur.ServiceImport; imp != nil && !desired.Owned(imp) {
		// Slices and a derived Service of ours would belong to a ServiceImport that isn't ours.
		mine := cur
		mine.Global = nil
		err := r.removeAll(ctx, mine)
		r.report.notExtended(ctx, in.Key, in.Extended, "the ServiceImport of that name isn't the agent's; delete or rename it")
		return errors.Join(&foreignError{kindOf(imp), imp}, err, r.applyGlobal(ctx, out, cur))
	}
	derived, derivedErr := r.applyDerived(ctx, in, out, cur)
	was := cur.ServiceImport
	imp, importErr := r.applyImport(ctx, was, out.ImportWith(derived, ""))
	errs := []error{derivedErr, importErr}
	switch {
	case importErr == nil:
		errs = append(errs, r.applySlices(ctx, out, cur, r.ownerOf(imp)))
		if out.Derived == nil && cur.Derived != nil {
			errs = append(errs, r.local.remove(ctx, cur.Derived))
		}
	case was != nil && was.Spec.Type == out.ServiceImport.Spec.Type && (out.Derived != nil || len(was.Spec.IPs) == 0):
		// The update was refused. Its owner and type are the same; else the slices would be of another type than it, or not be behind its addresses.
		errs = append(errs, r.applySlices(ctx, out, cur, r.ownerOf(was)))
	}
	errs = append(errs, r.applyExtending(ctx, in, out, cur), r.applyGlobal(ctx, out, cur))
	blocked := blocked(errors.Join(errs...))
	if importErr != nil {
		imp = was
	}
	if importErr == nil || imp != nil && blocked != "" {
		errs = append(errs, r.applyImportStatus(ctx, imp, out.ImportWith(derived, blocked)))
	}
	err := errors.Join(errs...)
	if err == nil {
		r.report.refused(ctx, in.Key, "")
	}
	return err
}

// applyDerived creates or updates the derived Service. It returns the resulting Service, nil if none is wanted.
//
// The derived Service has no owner. It is created before the ServiceImport, which would otherwise be written twice, first
// without addresses. If someone deletes the ServiceImport, the addresses stay for its replacement.
func (r *reconciler) applyDerived(ctx context.Context, in desired.Input, out desired.Output, cur desired.Current) (*corev1.Service, error) {
	want := out.Derived
	if want == nil {
		return nil, nil
	}
	svc, err := r.applyService(ctx, cur.Derived, want)
	if err != nil {
		return in.Derived, err
	}
	return svc, nil
}

// applyService creates or updates a Service of ours.
func (r *reconciler) applyService(ctx context.Context, current, want *corev1.Service) (*corev1.Service, error) {
	fresh := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	return ensure(ctx, r.local, current, fresh, func(s *corev1.Service) {
		if desired.Taken(s) {
			return // since the cache had it, which is behind
		}
		s.Labels = labels.Merge(s.Labels, want.Labels, nil)
		s.Annotations = labels.Merge(s.Annotations, want.Annotations, nil)
		s.OwnerReferences = nil
		had := s.Spec
		want.Spec.DeepCopyInto(&s.Spec)
		if want.Spec.ClusterIP == "" { // if it exists, we created it a moment ago and the cache is behind
			s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilies = had.ClusterIP, had.ClusterIPs, had.IPFamilies
		}
	})
}

// applyNamed creates, updates or removes the Service under the service's own name. It returns that, or nil if there is none of ours.
func (r *reconciler) applyNamed(ctx context.Context, out desired.Output, cur desired.Current) (*corev1.Service, error) {
	switch {
	case out.Named == nil && cur.Named == nil:
		return nil, nil
	case out.Named == nil:
		return nil, r.local.remove(ctx, cur.Named)
	}
	svc, err := r.applyService(ctx, cur.Named, out.Named)
	if foreign, only := foreignErrors(err); only && len(foreign) > 0 {
		return nil, nil // somebody else created it first, so it is theirs
	}
	if err != nil {
		return cur.Named, err
	}
	return svc, nil
}

// blocked returns what keeps an object from being written until somebody changes it: the API server, or an object that isn't ours. For any other
// error it returns "".
func blocked(err error) string {
	if foreign, _ := foreignErrors(err); len(foreign) > 0 {
		return foreign[0].Error()
	}
	if why := refusal(err); why != "" {
		return "the API server says: " + why
	}
	return ""
}

// ownerOf lets garbage collection remove the objects of a ServiceImport that someone deletes.
func (r *reconciler) ownerOf(imp *mcsv1beta1.ServiceImport) []metav1.OwnerReference {
	controller := true
	return []metav1.OwnerReference{{
		APIVersion: r.local.imports.APIVersion(), Kind: mcsv1beta1.ServiceImportKindName,
		Name: imp.Name, UID: imp.UID, Controller: &controller,
	}}
}

// applyImport creates or updates the ServiceImport. Where its definition has room for one address, it gets the first. All are tried each time,
// because somebody may have upgraded the definition.
func (r *reconciler) applyImport(ctx context.Context, current, want *mcsv1beta1.ServiceImport) (*mcsv1beta1.ServiceImport, error) {
	fresh := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	imp, err := put(ctx, r.local, current, fresh, func(imp *mcsv1beta1.ServiceImport) {
		imp.Labels = labels.Merge(imp.Labels, want.Labels, desired.NotedKeys(imp.Annotations, api.AnnotationExportedLabels))
		imp.Annotations = labels.Merge(imp.Annotations, want.Annotations, slices.Concat(policy.Written, desired.NotedKeys(imp.Annotations, api.AnnotationExportedAnnotations),
			[]string{api.AnnotationExportedLabels, api.AnnotationExportedAnnotations, api.AnnotationDerivedService}))
		want.Spec.DeepCopyInto(&imp.Spec)
	}, func(is, updated *mcsv1beta1.ServiceImport) bool {
		return maps.Equal(is.Labels, updated.Labels) && maps.Equal(is.Annotations, updated.Annotations) && equality.Semantic.DeepEqual(&is.Spec, &updated.Spec)
	})
	if len(want.Spec.IPs) > 1 && apierrors.IsInvalid(err) {
		want.Spec.IPs, want.Spec.IPFamilies = want.Spec.IPs[:1], want.Spec.IPFamilies[:1]
		return r.applyImport(ctx, current, want)
	}
	return imp, err
}

func (r *reconciler) applyImportStatus(ctx context.Context, current, want *mcsv1beta1.ServiceImport) error {
	status := current.Status.DeepCopy()
	status.Clusters, status.EndpointSliceObjects = want.Status.Clusters, want.Status.EndpointSliceObjects
	for _, c := range want.Status.Conditions {
		c.ObservedGeneration = current.Generation
		meta.SetStatusCondition(&status.Conditions, c)
	}
	for _, kind := range []string{api.ConditionComplete, api.ConditionEndpoints, api.ConditionConfirmed} {
		if meta.FindStatusCondition(want.Status.Conditions, kind) == nil {
			meta.RemoveStatusCondition(&status.Conditions, kind)
		}
	}
	is := &current.Status
	if is.EndpointSliceObjects == status.EndpointSliceObjects && slices.Equal(is.Clusters, status.Clusters) && slices.Equal(is.Conditions, status.Conditions) {
		return nil // these are all that we set
	}
	updated := current.DeepCopy()
	updated.Status = *status
	return r.local.updateStatus(ctx, updated)
}

// applySlices creates, updates and deletes slices until they match what is wanted: new ones first and stale ones last, so that an endpoint that moves
// between slices is never missing.
func (r *reconciler) applySlices(ctx context.Context, out desired.Output, cur desired.Current, owner []metav1.OwnerReference) error {
	var fresh, differ []*discoveryv1.EndpointSlice
	for _, want := range out.Slices {
		switch is := cur.Slice(want.Name); {
		case is == nil:
			fresh = append(fresh, want)
		case !isSlice(is, want, owner):
			differ = append(differ, want)
		}
	}
	write := func(want *discoveryv1.EndpointSlice) error { return r.writeSlice(ctx, want, cur, owner) }
	remove := func(s *discoveryv1.EndpointSlice) error { return r.local.remove(ctx, s) }
	return errors.Join(sideBySide(fresh, write), sideBySide(differ, write), sideBySide(cur.StaleSlices(out), remove))
}

// writeSlice creates or updates a slice.
func (r *reconciler) writeSlice(ctx context.Context, want *discoveryv1.EndpointSlice, cur desired.Current, owner []metav1.OwnerReference) error {
	is := cur.Slice(want.Name)
	if is != nil && is.AddressType != want.AddressType {
		// The address type can't be changed. The exporter recreated its record under the same name.
		if err := r.local.remove(ctx, is); err != nil {
			return err
		}
		is = nil
	}
	var trigger map[string]string
	if cur.ServiceImport != nil { // else the service is imported for the first time
		trigger = desired.TriggerTime(is, want, time.Now())
	}
	fresh := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}, AddressType: want.AddressType}
	_, err := put(ctx, r.local, is, fresh, func(s *discoveryv1.EndpointSlice) {
		s.Labels, s.OwnerReferences = labels.Merge(s.Labels, want.Labels, sliceLabels), owner
		s.Annotations = labels.Merge(s.Annotations, trigger, []string{corev1.EndpointsLastChangeTriggerTime})
		s.Annotations = labels.Merge(s.Annotations, desired.Stored(want), slices.Concat(desired.StoredKeys, desired.CacheKeys))
		s.Endpoints, s.Ports = want.Endpoints, want.Ports
	}, unequal)
	return err
}

// sliceLabels are those that a slice of ours has only if it should.
var sliceLabels = []string{api.LabelServiceName, api.LabelKubernetesServiceName, corev1.IsHeadlessService}

// isSlice reports whether a slice is as it should be, but for annotations that store nothing: the time of a change alone is no reason to write.
func isSlice(is, want *discoveryv1.EndpointSlice, owner []metav1.OwnerReference) bool {
	return desired.Owned(is) && desired.SameContent(is, want) && maps.Equal(is.Labels, labels.Merge(is.Labels, want.Labels, sliceLabels)) &&
		equality.Semantic.DeepEqual(is.OwnerReferences, owner)
}

// applyExtending makes the Service under the service's own name, and the slices behind that or this cluster's own, match what is wanted.
// The Service owns them: they go with it, also while no agent runs.
func (r *reconciler) applyExtending(ctx context.Context, in desired.Input, out desired.Output, cur desired.Current) error {
	r.report.notExtended(ctx, in.Key, in.Extended, out.NotExtended)
	svc, err := r.applyNamed(ctx, out, cur)
	if in.Extended != nil {
		svc = in.Extended.Service
	}
	if len(out.Extending)+len(cur.Extending) == 0 || out.Named != nil && svc == nil {
		return err
	}
	var owner []metav1.OwnerReference
	if svc != nil {
		owner = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: svc.Name, UID: svc.UID}}
	}
	return errors.Join(err, r.applySlices(ctx, desired.Output{Slices: out.Extending}, desired.Current{Slices: cur.Extending}, owner))
}

// sideBySide calls do for several slices in parallel and returns the joined errors.
func sideBySide(all []*discoveryv1.EndpointSlice, do func(*discoveryv1.EndpointSlice) error) error {
	if len(all) == 1 { // as after most changes; the stack of a new goroutine would have to grow
		return do(all[0])
	}
	errs := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(sliceWriters)
	for i, s := range all {
		group.Go(func() error {
			errs[i] = do(s)
			return nil
		})
	}
	_ = group.Wait() // none returns an error
	return errors.Join(errs...)
}

// removeAll deletes all of our objects of a service: first what answers names, then what these lead to. The addresses of the derived Service go last,
// once no ServiceImport has them: anybody else's Service may get them. If we are interrupted, what is left says which service it was for.
func (r *reconciler) removeAll(ctx context.Context, cur desired.Current) error {
	var errs []error
	if cur.Global != nil {
		errs = append(errs, r.local.remove(ctx, cur.Global)) // while the ServiceImport answers, it isn't asked for
	}
	free := cur.Derived != nil
	if imp := cur.ServiceImport; imp != nil {
		err := r.local.remove(ctx, imp)
		errs = append(errs, err)
		free = free && (err == nil && desired.Owned(imp) && len(imp.Finalizers) == 0 || !slices.ContainsFunc(imp.Spec.IPs, func(ip string) bool { return slices.Contains(cur.Derived.Spec.ClusterIPs, ip) }))
	}
	if cur.Named != nil {
		errs = append(errs, r.local.remove(ctx, cur.Named))
	}
	for _, slice := range slices.Concat(cur.Extending, cur.Slices) {
		errs = append(errs, r.local.remove(ctx, slice))
	}
	if free {
		errs = append(errs, r.local.remove(ctx, cur.Derived))
	}
	return errors.Join(errs...)
}

// namespaceRetry is when a service whose namespace wasn't created is looked at again: another namespace may have been deleted.
const namespaceRetry = 5 * time.Minute

// ensureNamespace returns why no objects can be created in the namespace, if so: there is none, or as many have been created for each of the
// exporting clusters as may be. With --create-namespaces it creates a missing one, for the first of the exporting clusters that has room: namespaces
// are never deleted, so a stolen token could leave one for each service that it exports and withdraws. Rule C57 of docs/spec/control-plane.md.
func (r *reconciler) ensureNamespace(ctx context.Context, name string, exporters []string) (state, error) {
	ns := &corev1.Namespace{}
	found, err := get(ctx, r.local, "", name, ns, client.UnsafeDisableDeepCopy)
	switch {
	case err != nil || found && ns.DeletionTimestamp.IsZero():
		return "", err
	case found || !r.options.CreateNamespaces:
		return stateNoNamespace, nil
	}
	r.creating.Lock()
	defer r.creating.Unlock()
	cluster := ""
	for _, from := range []client.Reader{r.local.cache, r.local.live} { // the cache may lack the last ones, but most often it says enough
		if cluster, err = r.withRoom(ctx, from, exporters); err != nil {
			return "", err
		}
		if cluster == "" {
			return stateCapped, nil
		}
	}
	labels := desired.Labels()
	labels[api.LabelSourceCluster] = cluster
	_, err = ensure(ctx, r.local, nil, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, func(*corev1.Namespace) {})
	if foreign, only := foreignErrors(err); only && len(foreign) > 0 {
		return stateNoNamespace, nil // someone else created it first; its event follows
	}
	return "", err
}

// withRoom returns the first of the clusters for which fewer namespaces have been created than may be, or nothing.
func (r *reconciler) withRoom(ctx context.Context, from client.Reader, clusters []string) (string, error) {
	for _, cluster := range clusters {
		var created corev1.NamespaceList
		labels := client.MatchingLabels{api.LabelManagedBy: api.ManagedByImporter, api.LabelSourceCluster: cluster}
		if err := from.List(ctx, &created, labels, client.UnsafeDisableDeepCopy); err != nil {
			return "", fmt.Errorf("list Namespaces: %w", err)
		}
		if len(created.Items) < r.options.MaxNamespaces {
			return cluster, nil
		}
	}
	return "", nil
}
