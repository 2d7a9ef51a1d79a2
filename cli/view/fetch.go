package view

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/record"
)

// Fetch reads the Facts from a cluster and the hub, each of which may be nil. If the cluster is the hub itself, it is read as that too. That
// the hub can't be read is no error, but one of the Facts.
func Fetch(ctx context.Context, local, hub *objects.Cluster) (Facts, error) {
	f := Facts{Now: time.Now()}
	if local != nil {
		var err error
		if f.Local, err = FetchLocal(ctx, local); err != nil {
			return f, err
		}
		if hub == nil && f.Local.isHub() {
			// With nothing but MemberClusters that a person wrote, it may have no records: it is none then.
			if f.Hub = FetchHub(ctx, local); objects.NotServed(f.Hub.Err) {
				f.Hub = nil
			}
		}
	}
	if hub != nil {
		f.Hub = FetchHub(ctx, hub)
	}
	return f, nil
}

// FetchLocal reads the local cluster.
func FetchLocal(ctx context.Context, c *objects.Cluster) (*LocalFacts, error) {
	f := &LocalFacts{}
	var err error
	if f.Members, err = c.MemberClusters(ctx); err != nil {
		return nil, err
	}
	if f.Imports, err = c.ServiceImports(ctx); err != nil {
		return nil, err
	}
	if f.Exports, err = c.ServiceExports(ctx); err != nil {
		return nil, err
	}
	f.Cluster = c.Name(ctx)
	if f.Reach, err = c.Reachability(ctx); err != nil {
		return nil, err
	}
	f.Pods, f.PodsErr = Pods(ctx, c)
	f.Agent = SettingsOf(f.Pods)
	if f.AgentLease, err = lastLease(ctx, c, api.MemberLeaderLease); err != nil {
		return nil, err
	}
	if f.Agent != nil && f.Agent.HubSecret != "" {
		namespace, name, _ := strings.Cut(f.Agent.HubSecret, "/")
		secret := &metav1.PartialObjectMetadata{} // without the credentials
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		f.SecretMissing = apierrors.IsNotFound(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret))
	}
	f.Asking = f.asking(ctx, c, f.fetchNamespaces(ctx, c))
	f.Others = others(ctx, c, f.Imports)
	if slices.ContainsFunc(f.Asking, func(a Asking) bool { return !a.Is }) {
		f.Refusals = said(ctx, c, reasonNotExtended)
	}
	if len(f.unexported()) > 0 {
		f.Held = said(ctx, c, "WithdrawalHeld")
	}
	if anyApart(f) || len(ailing(f.Members, f.Cluster, f.unreachable())) > 0 {
		var endpoints discoveryv1.EndpointSliceList
		f.RoutesErr = c.Words(c.List(ctx, &endpoints, client.HasLabels{api.LabelSourceCluster, api.LabelServiceName}))
		f.Slices = endpoints.Items
	}
	return f, nil
}

// isHub reports whether the MemberClusters are the hub's own. A member has an agent's copies of these, and perhaps others that a person wrote.
func (f *LocalFacts) isHub() bool {
	return len(f.Members) > 0 && !slices.ContainsFunc(f.Members, func(m clustersetv1alpha1.MemberCluster) bool { return desired.Owned(&m) })
}

// FetchHub reads the hub. If it can't, that is one of the facts.
func FetchHub(ctx context.Context, c *objects.Cluster) *HubFacts {
	f := &HubFacts{Server: c.Server}
	began := time.Now()
	if f.Members, f.Err = c.MemberClusters(ctx); f.Err != nil {
		return f
	}
	f.Latency = time.Since(began)
	var exports clustersetv1alpha1.ExportedServiceList
	var endpoints clustersetv1alpha1.ExportedEndpointsList
	for _, list := range []client.ObjectList{&exports, &endpoints} {
		if err := c.List(ctx, list); err != nil {
			f.Err = c.Words(err)
			return f
		}
	}
	f.Exports = slices.DeleteFunc(exports.Items, func(s clustersetv1alpha1.ExportedService) bool { return !s.Exports() })
	if f.Heard, f.Err = Heartbeats(ctx, c); f.Err == nil {
		f.Process, f.Err = HubProcess(ctx, c)
	}
	f.Know(endpoints.Items)
	return f
}

// others returns what another multi-cluster system has of services: EndpointSlices, and ServiceImports that aren't our agent's.
func others(ctx context.Context, c *objects.Cluster, imports []mcsv1beta1.ServiceImport) map[client.ObjectKey]string {
	all := map[client.ObjectKey]string{}
	for i := range imports {
		if o := &imports[i]; !desired.Owned(o) {
			all[client.ObjectKeyFromObject(o)] = "somebody else's ServiceImport has its name, so the agent leaves that as it is, and doesn't import the service"
		}
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(discoveryv1.SchemeGroupVersion.WithKind("EndpointSliceList"))
	selector, _ := labels.Parse(api.LabelEndpointSliceManagedBy + " notin (endpointslice-controller.k8s.io, endpointslicemirroring-controller.k8s.io, " + api.EndpointSliceManagedBy + ")")
	_ = c.List(ctx, list, client.MatchingLabelsSelector{Selector: selector})
	for _, s := range list.Items {
		if by := record.OtherSystem(s.Labels); by != "" {
			key := client.ObjectKey{Namespace: s.Namespace, Name: cmp.Or(s.Labels[api.LabelServiceName], s.Labels[discoveryv1.LabelServiceName])}
			all[key] = by + " has EndpointSlices for it too, which aren't exported and don't count as this cluster's"
		}
	}
	return all
}

// Know finds out what the exports amount to.
func (f *HubFacts) Know(endpoints []clustersetv1alpha1.ExportedEndpoints) {
	records := Unreachable(f.Heard)
	for i := range f.Members {
		records = append(records, &f.Members[i])
	}
	for i := range f.Exports {
		records = append(records, &f.Exports[i])
	}
	for i := range endpoints {
		records = append(records, &endpoints[i])
	}
	f.Endpoints, f.State, f.Services = endpoints, preview.NewState(records), map[types.NamespacedName]*preview.Exported{}
	for _, key := range f.State.Services() {
		if e := f.State.Exported(key); e != nil {
			f.Services[key] = e
		}
	}
}

// Unreachable returns the reports in which clusters say whom they can't reach, as preview reads them.
func Unreachable(heard map[string]Heartbeat) (reports []runtime.Object) {
	for _, cluster := range slices.Sorted(maps.Keys(heard)) {
		if said := heard[cluster]; len(said.CantReach) > 0 {
			reports = append(reports, &clustersetv1alpha1.MemberReport{
				ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: clustersetv1alpha1.MemberReportName},
				Spec:       clustersetv1alpha1.MemberReportSpec{Unreachable: said.CantReach},
			})
		}
	}
	return reports
}

// HubProcess returns when a process of clusterset hub last renewed the Lease that shows that it runs. It is zero if none ever ran, or if the
// account may not read the Lease.
func HubProcess(ctx context.Context, c *objects.Cluster) (time.Time, error) {
	lease, err := lastLease(ctx, c, api.HubLeaderLease)
	if lease == nil {
		return time.Time{}, err
	}
	return lease.Spec.RenewTime.Time, nil
}

// lastLease returns, of the Leases of that name, the one that was renewed last: there is one in each namespace in which its process has ever run. It is
// nil if there is none, or if the account may not read them.
func lastLease(ctx context.Context, c *objects.Cluster, name string) (last *coordinationv1.Lease, err error) {
	var leases coordinationv1.LeaseList
	if err := c.List(ctx, &leases, client.MatchingFields{"metadata.name": name}); err != nil && !apierrors.IsForbidden(err) {
		return nil, c.Words(err)
	}
	for i := range leases.Items {
		if l := &leases.Items[i]; l.Spec.RenewTime != nil && (last == nil || last.Spec.RenewTime.Before(l.Spec.RenewTime)) {
			last = l
		}
	}
	return last, nil
}

// Heartbeat is what a cluster says of itself on the hub, in its Lease and in its MemberReport.
type Heartbeat struct {
	// Renewed is when it renewed the Lease, by the hub's clock if the hub keeps that, else by its own.
	Renewed time.Time
	// CantReach and Unmeasured are the other clusters that its agent can't reach, and of which it doesn't know (D52). Measures says that it
	// has measured at all.
	CantReach, Unmeasured []string
	Measures              bool
	// Follows is the digest of the drains and leaves that it acts on (C76).
	Follows string
	// Namespaces is the digest of those that the cluster has (C77), nil if it doesn't say.
	Namespaces *string
	// CantFollow is a cluster whose drain it can't act on, because a MemberCluster of that name there isn't its agent's copy.
	CantFollow string
}

// Heartbeats reads the hub's heartbeats and reports, by cluster. Members may not list each other's, so a refusal isn't a failure: the
// MemberClusters have much the same information.
func Heartbeats(ctx context.Context, c *objects.Cluster) (map[string]Heartbeat, error) {
	var leases coordinationv1.LeaseList
	err := c.List(ctx, &leases, client.MatchingFields{"metadata.name": api.HeartbeatLease})
	var reports clustersetv1alpha1.MemberReportList
	if err == nil {
		err = c.List(ctx, &reports)
	}
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, c.Words(err)
	}
	all := make(map[string]Heartbeat, len(leases.Items))
	for i := range leases.Items {
		lease := &leases.Items[i]
		if cluster, ok := api.ClusterOfNamespace(lease.Namespace); ok && lease.Spec.RenewTime != nil {
			all[cluster] = Heartbeat{Renewed: renewed(lease)}
		}
	}
	for i := range reports.Items {
		cluster, ok := api.ClusterOfNamespace(reports.Items[i].Namespace)
		h, beats := all[cluster]
		if !ok || !beats {
			continue
		}
		said := &reports.Items[i].Spec
		h.CantReach, h.Unmeasured, h.Measures = api.ClusterNames(said.Unreachable), api.ClusterNames(said.Unmeasured), said.Unreachable != nil
		h.Follows, h.Namespaces = said.Follows, said.Namespaces
		if api.CheckClusterName(said.CantFollow) == nil {
			h.CantFollow = said.CantFollow
		}
		all[cluster] = h
	}
	return all, nil
}

// renewed returns when an agent renewed its Lease. Its own clock may be behind, which makes it look silent.
func renewed(lease *coordinationv1.Lease) time.Time {
	for _, by := range lease.ManagedFields {
		if by.Manager == api.FieldManagerExporter && by.Time != nil {
			return by.Time.Time
		}
	}
	return lease.Spec.RenewTime.Time
}

// fetchNamespaces reads the cluster's namespaces, as far as the account may: that is a right that only two checks need. It returns the labels of those
// that aren't being deleted.
func (f *LocalFacts) fetchNamespaces(ctx context.Context, c *objects.Cluster) map[string]map[string]string {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if c.List(ctx, list) != nil {
		return nil
	}
	f.Namespaces = make(map[string]bool, len(list.Items))
	all := make(map[string]map[string]string, len(list.Items))
	for i := range list.Items {
		if o := &list.Items[i]; o.DeletionTimestamp == nil {
			f.Namespaces[o.Name], all[o.Name] = true, o.Labels
			f.mark("Namespace", o)
		}
	}
	return all
}

// mark notes a mark that exports nothing (rule C1 of docs/spec/control-plane.md).
func (f *LocalFacts) mark(what string, o metav1.Object) {
	if wrong := record.InvalidMark(o); wrong != nil {
		f.Marks = append(f.Marks, Problem{o.GetNamespace(), o.GetName(), what, api.ReasonNotUsed, wrong.Error(), "correct or remove it"})
	}
}

// asking returns the Services that ask to be extended, or nil if Services can't be read.
func (f *LocalFacts) asking(ctx context.Context, c *objects.Cluster, namespaces map[string]map[string]string) (all []Asking) {
	var services corev1.ServiceList
	ours := &metav1.PartialObjectMetadataList{}
	ours.SetGroupVersionKind(discoveryv1.SchemeGroupVersion.WithKind("EndpointSliceList"))
	if namespaces == nil || c.List(ctx, &services) != nil || c.List(ctx, ours, client.HasLabels{api.LabelExtends}) != nil {
		return nil
	}
	extended := map[client.ObjectKey]bool{}
	for i := range ours.Items {
		extended[client.ObjectKey{Namespace: ours.Items[i].Namespace, Name: ours.Items[i].Labels[api.LabelExtends]}] = true
	}
	for i := range services.Items {
		svc := &services.Items[i]
		f.mark("Service", svc)
		if is := extended[client.ObjectKeyFromObject(svc)]; desired.AsksToBeExtended(svc) {
			all = append(all, Asking{f.Agent.Extends(svc, namespaces[svc.Namespace], is), is})
		}
	}
	return all
}
