package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/importer/effective"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/internal/labels"
)

// mirror keeps a local copy of each of the hub's MemberClusters, which DNS uses for ranking. When a cluster goes silent, one
// object changes in every member, and not each of its endpoints.
type mirror struct {
	cluster string // this cluster
	hub     members
	local   *local
	report  *reporter
}

// memberSources returns the sources that enqueue MemberClusters: the hub's and our copies. A change of our own enqueues all.
func memberSources(hub *store.Store, local cache.Cache, own string) []source.Source {
	return []source.Source{
		source.Func(func(_ context.Context, q queue) error {
			hub.OnMember(func(name string) {
				addNow(q, types.NamespacedName{Name: name})
				if name != own {
					return
				}
				for _, m := range hub.Members() {
					addNow(q, types.NamespacedName{Name: m.Name})
				}
			})
			return nil
		}),
		source.Kind[client.Object](local, &clustersetv1alpha1.MemberCluster{}, &handler.EnqueueRequestForObject{}),
	}
}

// Reconcile implements reconcile.Reconciler for the name of a MemberCluster.
func (m *mirror) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	there, here := m.hub.Member(req.Name), copies{m.local.cache}.Member(req.Name)
	if there == nil || there.Left() {
		return m.without(ctx, req.Name, here, there)
	}
	if here != nil && here.UID == there.UID {
		return reconcile.Result{}, nil // this cluster is the hub
	}
	if err := api.CheckClusterName(there.Name); err != nil {
		logf.FromContext(ctx).Info("Skipped a MemberCluster of the hub", "reason", err.Error())
		return reconcile.Result{}, nil
	}
	if own := m.hub.Member(m.cluster); here == nil && own != nil && req.Name != m.cluster {
		// That it is missing here doesn't prove that the hub is another cluster. With two caches of one API server, the hub's may still have an object
		// that a leave has just deleted. A copy of it would become the hub's own object again, and all would treat the cluster that left as a member.
		switch is := (copies{m.local.cache}).Member(m.cluster); {
		case is == nil:
			return reconcile.Result{RequeueAfter: staleRetry}, nil // once our own is copied, or seen
		case is.UID == own.UID:
			return reconcile.Result{}, nil // this cluster is the hub
		}
	}
	m.report.lost(req.Name, false)
	err := m.copy(ctx, here, there)
	foreign, only := foreignErrors(err)
	m.report.foreign(ctx, memberKey(req.Name), foreign)
	switch {
	case only:
		return reconcile.Result{}, nil
	case isStale(err):
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	}
	return reconcile.Result{}, err
}

// without keeps or removes our copy of a MemberCluster that the hub doesn't have (there is nil), or that says that its cluster has left.
func (m *mirror) without(ctx context.Context, name string, here, there *clustersetv1alpha1.MemberCluster) (reconcile.Result, error) {
	ours := here != nil && desired.Owned(here)
	gone := effective.Gone(there, here) || there == nil && !here.Joined() // what only described a cluster went with who removed it
	m.report.lost(name, ours && !gone)
	switch {
	case !ours: // a user gave a location to a cluster of another MCS implementation, or this cluster is the hub
		m.report.foreign(ctx, memberKey(name), nil)
		return reconcile.Result{}, nil
	case !gone:
		return m.await(ctx, here)
	case name == m.cluster: // it stays as it is, like all else here (C40)
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, m.local.remove(ctx, here)
}

// await says on our copy of a MemberCluster that the hub has lost it.
func (m *mirror) await(ctx context.Context, here *clustersetv1alpha1.MemberCluster) (reconcile.Result, error) {
	said := meta.IsStatusConditionFalse(here.Status.Conditions, clustersetv1alpha1.ConditionOnHub)
	message := fmt.Sprintf("the hub has lost %s, which hasn't left and hasn't joined again; what it exported stays until it does, or until this MemberCluster is deleted", here.Name)
	err := ensureStatus(ctx, m.local, here, func(c *clustersetv1alpha1.MemberCluster) {
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
			Type: clustersetv1alpha1.ConditionOnHub, Status: metav1.ConditionFalse, Reason: clustersetv1alpha1.ReasonNotRejoined,
			Message: message, ObservedGeneration: c.Generation,
		})
	})
	if isStale(err) {
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	}
	if err == nil && !said {
		m.report.event(ctx, here, clustersetv1alpha1.ReasonNotRejoined, "Import",
			"%s. Run clusterset join %s --rejoin; or, if it won't come back, delete its MemberCluster here, in each member", message, here.Name)
	}
	return reconcile.Result{}, err
}

// copy makes our copy like the hub's MemberCluster, without what is invalid. If this API server still refuses its spec, because its
// CustomResourceDefinition is of another version or a policy forbids it, an earlier copy has the phase (C48).
func (m *mirror) copy(ctx context.Context, here, there *clustersetv1alpha1.MemberCluster) error {
	there, _ = there.Sanitized()
	mine, err := m.copySpec(ctx, here, there)
	if refusal(err) != "" {
		mine = here
	} else if err != nil {
		return err
	}
	if mine == nil {
		return err
	}
	return errors.Join(err, m.copyStatus(ctx, mine, there.Status))
}

func (m *mirror) copySpec(ctx context.Context, here, there *clustersetv1alpha1.MemberCluster) (*clustersetv1alpha1.MemberCluster, error) {
	said := map[string]string{api.AnnotationHubUID: string(there.UID)}
	if there.Joined() {
		said[api.AnnotationJoined] = there.JoinedAt().UTC().Format(time.RFC3339)
	}
	fresh := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: there.Name}}
	return ensure(ctx, m.local, here, fresh, func(c *clustersetv1alpha1.MemberCluster) {
		c.Labels = labels.Merge(c.Labels, desired.Labels(), nil)
		c.Annotations = labels.Merge(c.Annotations, said, nil)
		there.Spec.DeepCopyInto(&c.Spec)
	})
}

func (m *mirror) copyStatus(ctx context.Context, mine *clustersetv1alpha1.MemberCluster, status clustersetv1alpha1.MemberClusterStatus) error {
	return ensureStatus(ctx, m.local, mine, func(c *clustersetv1alpha1.MemberCluster) {
		was := c.Status.Conditions
		status.DeepCopyInto(&c.Status)
		for i := range was {
			if slices.Contains(ownConditions, was[i].Type) {
				meta.SetStatusCondition(&c.Status.Conditions, was[i])
			}
		}
		c.Status.ExportedServices, c.Status.Namespaces = nil, "" // they change without affecting anything here; those who need them ask the hub
	})
}
