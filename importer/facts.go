package importer

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// Facts are what the importer says in its cluster's MemberReport, for others to know. The zero value is ready to use, and says nothing yet.
type Facts struct {
	mu   sync.Mutex
	hub  members       // nil before the importer has begun
	here client.Reader // a cache
	all  bool          // see Options.importsAll
}

// begin sets where it looks.
func (f *Facts) begin(hub members, here client.Reader, all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hub, f.here, f.all = hub, here, all
}

// Report fills them in. What isn't known is left out.
func (f *Facts) Report(ctx context.Context, report *clustersetv1alpha1.MemberReportSpec) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hub == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second) // it reads caches
	defer cancel()
	f.follows(ctx, report)
	f.has(ctx, report)
}

// follows says which of the hub's drains and leaves this cluster's MemberClusters have, and so DNS servers follow (rule C76 of
// docs/spec/control-plane.md).
func (f *Facts) follows(ctx context.Context, report *clustersetv1alpha1.MemberReportSpec) {
	var list clustersetv1alpha1.MemberClusterList
	if f.here.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	here := make(map[string]*clustersetv1alpha1.MemberCluster, len(list.Items))
	for i := range list.Items {
		here[list.Items[i].Name] = &list.Items[i]
	}
	var followed []clustersetv1alpha1.MemberCluster
	for _, m := range f.hub.Members() {
		is := here[m.Name]
		switch {
		case m.Left() && (is == nil || !desired.Owned(is)): // our copy of it is gone
			followed = append(followed, *m)
		case is != nil:
			followed = append(followed, *is)
			if is.UID != m.UID && !desired.Owned(is) && is.Spec.Drain != m.Spec.Drain {
				report.CantFollow = m.Name
			}
		}
	}
	report.Follows = clustersetv1alpha1.DrainsAndLeaves(followed)
}

// has says which namespaces this cluster has (C77), so that an exporter can tell where one is missing; nothing if a missing one says nothing about what
// is imported.
func (f *Facts) has(ctx context.Context, report *clustersetv1alpha1.MemberReportSpec) {
	digest := ""
	if f.all {
		var list corev1.NamespaceList
		if f.here.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
			return
		}
		names := make([]string, len(list.Items))
		for i := range list.Items {
			names[i] = list.Items[i].Name
		}
		digest = clustersetv1alpha1.NamespaceDigest(names)
	}
	report.Namespaces = &digest
}
