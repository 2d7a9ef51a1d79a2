package importer

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/namespaces"
)

// presentEvery is how often the namespaces are looked for.
const presentEvery = time.Minute

// present knows which namespaces this cluster has (rule C77 of docs/spec/control-plane.md). The hub's cache holds only services of these, so only
// an exporting cluster can find out which are missing.
type present struct {
	mu    sync.Mutex
	cache client.Reader // nil before the importer has begun
	all   bool          // whether services of every namespace that exists are imported, and of no other
	at    time.Time     // when they were last looked for
	last  string
}

func (p *present) begin(cache client.Reader, o Options) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cache, p.at = cache, time.Time{}
	p.all = !o.CreateNamespaces && len(o.IncludeNamespaces) == 0 && slices.Equal(o.ExcludeNamespaces, namespaces.System)
}

// digest returns the digest of the namespaces, empty if a missing one says nothing about what is imported.
func (p *present) digest(ctx context.Context, now time.Time) (digest string, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cache == nil || !p.all || !p.at.IsZero() && now.Sub(p.at) < presentEvery {
		return p.last, p.cache != nil
	}
	var list corev1.NamespaceList
	if p.cache.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
		return p.last, !p.at.IsZero()
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	p.last, p.at = clustersetv1alpha1.NamespaceDigest(names), now
	return p.last, true
}
