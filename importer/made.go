package importer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/importer/desired"
)

// namespaceRetry is when a service whose namespace wasn't created is looked at again: another namespace may have been deleted.
const namespaceRetry = 5 * time.Minute

// made are the namespaces that this process has created and that its cache doesn't have yet, by the cluster that they were created for.
// Without them, parallel reconciles would create more than the limit.
type made struct {
	mu     sync.Mutex
	unseen map[string]unseen
	full   map[string]bool // clusters that reached the limit, and were reported
}

// unseen is such a namespace.
type unseen struct {
	cluster string
	at      time.Time
}

// unseenFor is how long a new namespace may take to appear in the cache. One that is deleted soon may never appear there.
const unseenFor = time.Minute

func newMade() *made { return &made{unseen: map[string]unseen{}, full: map[string]bool{}} }

// errTooManyNamespaces means that as many namespaces have been created for each cluster that exports a service as may be.
var errTooManyNamespaces = errors.New("too many namespaces have been created for the clusters that export the service")

// ensureNamespace reports whether objects can be created in the namespace. With --create-namespaces it creates a missing one, for the
// first of the exporting clusters that has room: namespaces are never deleted, so a stolen token could leave one for each service that it
// exports and withdraws. Rule C57 of docs/spec/control-plane.md.
func (r *reconciler) ensureNamespace(ctx context.Context, name string, exporters []string) (bool, error) {
	ns := &corev1.Namespace{}
	found, err := get(ctx, r.local, "", name, ns, client.UnsafeDisableDeepCopy)
	switch {
	case err != nil:
		return false, err
	case found && ns.DeletionTimestamp.IsZero():
		r.report.namespaceFound(name)
		return true, nil
	case found || !r.options.CreateNamespaces:
		r.report.namespaceMissing(ctx, name, exporters)
		return false, nil
	}
	r.made.mu.Lock()
	defer r.made.mu.Unlock()
	count, err := r.made.count(ctx, r.local.cache, r.clock.Now())
	if err != nil {
		return false, err
	}
	for _, cluster := range exporters {
		if count[cluster] < r.options.MaxNamespaces {
			delete(r.made.full, cluster)
			return r.createNamespace(ctx, name, cluster)
		}
		if !r.made.full[cluster] {
			r.made.full[cluster] = true
			r.report.namespacesFull(ctx, cluster, name, r.options.MaxNamespaces)
		}
	}
	return false, errTooManyNamespaces
}

// createNamespace creates a namespace for a cluster's exports. The caller holds the lock.
func (r *reconciler) createNamespace(ctx context.Context, name, cluster string) (bool, error) {
	labels := desired.Labels()
	labels[api.LabelSourceCluster] = cluster
	fresh := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	_, err := ensure(ctx, r.local, nil, fresh, func(*corev1.Namespace) {})
	var foreign *foreignError
	if errors.As(err, &foreign) {
		return false, nil // someone else created it first; its event follows
	}
	if err == nil {
		r.made.unseen[name] = unseen{cluster, r.clock.Now()}
	}
	return err == nil, err
}

// count counts the namespaces that were created for each cluster. The caller holds the lock.
func (m *made) count(ctx context.Context, from client.Reader, now time.Time) (map[string]int, error) {
	var all corev1.NamespaceList
	if err := from.List(ctx, &all, client.MatchingLabels(desired.Labels()), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Namespaces: %w", err)
	}
	count := map[string]int{}
	for i := range all.Items {
		delete(m.unseen, all.Items[i].Name)
		count[all.Items[i].Labels[api.LabelSourceCluster]]++
	}
	for name, u := range m.unseen {
		if now.Sub(u.at) > unseenFor {
			delete(m.unseen, name)
			continue
		}
		count[u.cluster]++
	}
	return count, nil
}
