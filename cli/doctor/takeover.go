package doctor

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/view"
)

// configMapInUse returns the ConfigMap of the cluster DNS: that of our servers if they have taken its place, unless another was asked for.
// While other servers run beside them, these answer a share of the queries, from the usual one.
func (f *Facts) configMapInUse(ctx context.Context, c *objects.Cluster, asked client.ObjectKey) client.ObjectKey {
	at := slices.IndexFunc(f.Workloads, func(w Workload) bool {
		return w.Corefile != "" && w.Wanted > 0 && w.Namespace == ClusterDNS.Namespace && w.Labels[labelClusterDNS] == clusterDNS
	})
	var pods corev1.PodList
	if asked != ClusterDNS || at < 0 || c.List(ctx, &pods, client.InNamespace(asked.Namespace), client.MatchingLabels{labelClusterDNS: clusterDNS}) != nil {
		return asked
	}
	if slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return view.Program(&p.Spec, view.PartDNS) == nil }) {
		return asked
	}
	return client.ObjectKey{Namespace: f.Workloads[at].Namespace, Name: f.Workloads[at].Corefile}
}
