package importer

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/importer/desired"
)

// namespaceRetry is when a service whose namespace wasn't created is looked at again: another namespace may have been deleted.
const namespaceRetry = 5 * time.Minute

// ensureNamespace returns why no objects can be created in the namespace, if so: there is none, or as many have been created for each of the exporting
// clusters as may be. With --create-namespaces it creates a missing one, for the
// first of the exporting clusters that has room: namespaces are never deleted, so a stolen token could leave one for each service that it
// exports and withdraws. Rule C57 of docs/spec/control-plane.md.
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
