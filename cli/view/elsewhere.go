package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/internal/merge"
)

// MissingElsewhere is the reason of a namespace that other clusters lack by their last reports (C77), which may be minutes old.
const MissingElsewhere = "MissingElsewhere"

// elsewhere finds the namespaces that other clusters lack: with the hub those of all exports, else those that this cluster exports from.
func elsewhere(f Facts) []Problem {
	switch {
	case f.Hub != nil && f.Hub.Err == nil:
		exports := make([]*clustersetv1alpha1.ExportedService, len(f.Hub.Exports))
		for i := range f.Hub.Exports {
			exports[i] = &f.Hub.Exports[i]
		}
		var known []string // this cluster's are known for certain
		if f.Local != nil && f.Local.Namespaces != nil {
			known = append(known, f.Local.Cluster)
		}
		return Elsewhere(f.Hub.Members, exports, known)
	case f.Local != nil:
		return f.Local.saidOfElsewhere()
	}
	return nil
}

// Elsewhere finds the namespaces with exports that clusters lack by their last reports although they would import these. Those whose
// namespaces are known otherwise are left out.
func Elsewhere(members []clustersetv1alpha1.MemberCluster, exports []*clustersetv1alpha1.ExportedService, known []string) (all []Problem) {
	byName, member := ByName(members)
	in := map[string][]*clustersetv1alpha1.ExportedService{}
	for _, e := range exports {
		if cluster, _ := e.SourceCluster(); byName[cluster] != nil && !byName[cluster].Left() {
			in[e.Spec.ServiceNamespace] = append(in[e.Spec.ServiceNamespace], e)
		}
	}
	without := map[string][]string{} // by namespace
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		has := clustersetv1alpha1.ParseNamespaces(byName[name].Status.Namespaces)
		if slices.Contains(known, name) || byName[name].Left() || has == nil {
			continue
		}
		sees := merge.Sees(name, member)
		wants := func(e *clustersetv1alpha1.ExportedService) bool {
			cluster, _ := e.SourceCluster()
			return cluster != name && sees(cluster, e) == merge.Seen
		}
		for namespace, exports := range in {
			if has.Lack(namespace) && slices.ContainsFunc(exports, wants) {
				without[namespace] = append(without[namespace], name)
			}
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(without)) {
		clusters := without[namespace]
		message := "according to its last report, " + clusters[0] + " has no namespace " + namespace + ": its services aren't imported there"
		if len(clusters) > 1 {
			message = "according to their last reports, " + screen.Several(clusters, shownServices, ", ") + " have no namespace " + namespace + ": its services aren't imported there"
		}
		all = append(all, lackedElsewhere(namespace, message))
	}
	return all
}

func lackedElsewhere(namespace, message string) Problem {
	return Problem{
		Name: namespace, What: "Namespace", Reason: MissingElsewhere, Message: message,
		Cure: "kubectl create namespace " + namespace + " there, or start the agents there with --create-namespaces",
	}
}

// saidOfElsewhere is what the conditions of this cluster's exports say.
func (l *LocalFacts) saidOfElsewhere() (all []Problem) {
	said := map[string]string{}
	for i := range l.Exports {
		e := &l.Exports[i]
		if c := meta.FindStatusCondition(e.Status.Conditions, api.ConditionImported); c != nil && c.Status == metav1.ConditionFalse && c.Reason == api.ReasonNamespaceMissing {
			what, _, _ := strings.Cut(c.Message, "; ")
			said[e.Namespace] = fmt.Sprintf("according to the last reports of others, ServiceExport %s/%s is %s", e.Namespace, e.Name, what)
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(said)) {
		all = append(all, lackedElsewhere(namespace, said[namespace]))
	}
	return all
}
