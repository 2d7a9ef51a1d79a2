package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/importer/desired"
)

// fetchAgent reads the agent's signs of life, as far as the account may. Of its Leases, one in each namespace in which it has ever run, the last counts.
func (f *LocalFacts) fetchAgent(ctx context.Context, c *objects.Cluster) error {
	var leases coordinationv1.LeaseList
	if err := c.List(ctx, &leases, client.MatchingFields{"metadata.name": api.MemberLeaderLease}); err != nil && !apierrors.IsForbidden(err) {
		return c.Words(err)
	}
	for i := range leases.Items {
		if l := &leases.Items[i]; l.Spec.RenewTime != nil && (f.AgentLease == nil || f.AgentLease.Spec.RenewTime.Before(l.Spec.RenewTime)) {
			f.AgentLease = l
		}
	}
	if f.Agent == nil || f.Agent.HubSecret == "" {
		return nil
	}
	namespace, name, _ := strings.Cut(f.Agent.HubSecret, "/")
	secret := &metav1.PartialObjectMetadata{} // without the credentials
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	f.SecretMissing = apierrors.IsNotFound(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret))
	return nil
}

// agentProblems finds what keeps this cluster's agent from its work, as far as that can be seen here.
func agentProblems(r *Report, f Facts) (all []Problem) {
	l := f.Local
	add := func(reason, message, cure string) {
		all = append(all, Problem{Name: cmp.Or(r.Cluster, "this cluster"), What: "MemberCluster", Reason: reason, Message: message, Cure: cure})
	}
	if l.SecretMissing {
		add("NoCredentials", "there is no Secret "+l.Agent.HubSecret+" with its agent's credentials for the hub: one that starts waits for it, one that runs works until its token expires",
			Rejoin(r.Cluster)+"; or, with clusterset hub --manage-members, copy the Secret from the hub (docs/gitops.md)")
	}
	member := slices.ContainsFunc(l.Members, func(m clustersetv1alpha1.MemberCluster) bool {
		return !m.Left() && (m.Name == r.Cluster || r.Cluster == "" && desired.Owned(&m))
	})
	if l.AgentLease == nil || !member {
		return all
	}
	silent, at := f.Now.Sub(l.AgentLease.Spec.RenewTime.Time), l.AgentLease.Namespace
	valid := time.Duration(ptr.Deref(l.AgentLease.Spec.LeaseDurationSeconds, 0)) * time.Second
	if silent > max(3*valid, 10*time.Second) { // who ends gives it up, and the next takes it a moment later
		add("AgentStopped", fmt.Sprintf("the agent of this cluster has not renewed its Lease %s/%s for %s: exports and imports stand still", at, l.AgentLease.Name, screen.Age(silent)),
			fmt.Sprintf("kubectl -n %s get deployments,pods -l %s=%s shows whether clusterset member runs: start it, or read its log; clusterset doctor says if only this machine's clock is ahead",
				at, labelPart, PartMember))
	}
	return all
}

// Rejoin is the command that makes the local cluster a member again, for administrators. The commands that print it put flags that they know in place of
// what is in capitals.
func Rejoin(cluster string) string {
	return "clusterset join " + cmp.Or(cluster, "CLUSTER") + " --rejoin --hub-context HUB --context CLUSTER"
}
