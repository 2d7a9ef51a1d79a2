package doctor

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/view"
)

// Names is what is known of agents that work under one name.
type Names struct {
	// Own is the member's name, empty if the cluster isn't a member.
	Own string
	// Cloned are the clusters that two agents work as.
	Cloned []string
	// Parked is why this cluster exports nothing, according to one of its ServiceExports, and Reason that condition's:
	// ClusterCloned or NameTaken.
	Parked, Reason string
}

// see adds what the MemberClusters of a cluster, or of the hub, say.
func (n *Names) see(members []clustersetv1alpha1.MemberCluster) {
	for i := range members {
		if m := &members[i]; meta.IsStatusConditionTrue(m.Status.Conditions, clustersetv1alpha1.ConditionCloned) && !slices.Contains(n.Cloned, m.Name) {
			n.Cloned = append(n.Cloned, m.Name)
		}
	}
	slices.Sort(n.Cloned)
}

// seeCluster adds what is known in the cluster.
func (n *Names) seeCluster(local *view.LocalFacts) {
	n.Own = local.Cluster
	n.see(local.Members)
	for i := range local.Exports {
		ready := meta.FindStatusCondition(local.Exports[i].Status.Conditions, string(mcsv1beta1.ServiceExportConditionReady))
		if ready != nil && (ready.Reason == api.ReasonClusterCloned || ready.Reason == api.ReasonNameTaken) {
			n.Parked, n.Reason = ready.Message, ready.Reason
			return
		}
	}
}

// checkNames finds clusters that share a name. Without any there is no finding.
func checkNames(f *Facts) (found []Finding) {
	const rename = "in the one that gives up the name, kubectl -n clusterset-system delete secret " + api.HubSecret + " and clusterset join it under another name"
	cloned := f.Names.Cloned
	if f.Names.Parked != "" {
		cure := "decide which of the two clusters keeps the name; " + rename
		if f.Names.Reason == api.ReasonClusterCloned {
			cure += ".\nIf this one keeps it, stop the other's agent for five minutes"
		}
		found = append(found, problem("this cluster exports nothing: "+f.Names.Parked, cure))
		cloned = slices.DeleteFunc(slices.Clone(cloned), func(name string) bool { return name == f.Names.Own })
	}
	if len(cloned) > 0 {
		found = append(found, problem(fmt.Sprintf("two clusters work as %s, with the same identity and credentials, perhaps because one was restored from the other's backup; the one whose agent started later exports nothing",
			strings.Join(cloned, ", and two as ")),
			rename))
	}
	return found
}
