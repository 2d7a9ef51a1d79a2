package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/internal/merge"
)

// MissingElsewhere is the reason of a namespace that other clusters lack by their last reports (C77).
const MissingElsewhere = "MissingElsewhere"

// elsewhere finds the namespaces that other clusters lack: with the hub those of all exports, else those that this cluster exports from.
func elsewhere(f Facts) (all []Problem) {
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
		return f.Hub.Elsewhere(exports, known, f.hubNow())
	case f.Local != nil:
		return f.Local.saidOfElsewhere(f.Now)
	}
	return nil
}

// Lacks reports whether a cluster says that it doesn't have a namespace, and as of when: in its Lease, or where that can't be read in its MemberCluster,
// which has it later.
func (f *HubFacts) Lacks(m *clustersetv1alpha1.MemberCluster, namespace string, now time.Time) (lacks bool, as string) {
	if h := f.Heard[m.Name]; h.Namespaces != nil {
		return clustersetv1alpha1.ParseNamespaces(*h.Namespaces).Lack(namespace), "as of " + screen.Age(now.Sub(h.Renewed)) + " ago"
	}
	return clustersetv1alpha1.ParseNamespaces(m.Status.Namespaces).Lack(namespace), "as of 16m ago at worst"
}

// Elsewhere finds the namespaces of exports that clusters say they lack although they would import these. Those whose namespaces are known otherwise
// are left out.
func (f *HubFacts) Elsewhere(exports []*clustersetv1alpha1.ExportedService, known []string, now time.Time) (all []Problem) {
	byName, member := ByName(f.Members)
	in := map[string][]*clustersetv1alpha1.ExportedService{}
	for _, e := range exports {
		if cluster, _ := e.SourceCluster(); byName[cluster] != nil && !byName[cluster].Left() {
			in[e.Spec.ServiceNamespace] = append(in[e.Spec.ServiceNamespace], e)
		}
	}
	without := map[string][]string{} // by namespace
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if slices.Contains(known, name) || byName[name].Left() {
			continue
		}
		sees := merge.Sees(name, member)
		wants := func(e *clustersetv1alpha1.ExportedService) bool {
			cluster, _ := e.SourceCluster()
			return cluster != name && sees(cluster, e.Spec.ExportTo) == merge.Seen
		}
		for namespace, exports := range in {
			if lacks, as := f.Lacks(byName[name], namespace, now); lacks && slices.ContainsFunc(exports, wants) {
				without[namespace] = append(without[namespace], name+" ("+as+")")
			}
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(without)) {
		all = append(all, lackedElsewhere(namespace, "its services aren't imported in "+screen.Several(without[namespace], shownServices, ", ")+": there is no namespace "+namespace))
	}
	return all
}

func lackedElsewhere(namespace, message string) Problem {
	return Problem{
		Name: namespace, What: "Namespace", Reason: MissingElsewhere, Message: message,
		Cure: "kubectl create namespace " + namespace + " there, or start the agents there with --create-namespaces; if it is meant so, limit the exports with " + api.AnnotationExportTo,
	}
}

// saidOfElsewhere is what the conditions of this cluster's exports say.
func (l *LocalFacts) saidOfElsewhere(now time.Time) (all []Problem) {
	said := map[string]string{}
	for i := range l.Exports {
		e := &l.Exports[i]
		if c := meta.FindStatusCondition(e.Status.Conditions, api.ConditionImported); c != nil && c.Status == metav1.ConditionFalse && c.Reason == api.ReasonNamespaceMissing {
			what, _, _ := strings.Cut(c.Message, "; ")
			said[e.Namespace] = fmt.Sprintf("ServiceExport %s/%s is %s (said %s ago, and as of 16m ago at worst)", e.Namespace, e.Name, what, screen.Age(now.Sub(c.LastTransitionTime.Time)))
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(said)) {
		all = append(all, lackedElsewhere(namespace, said[namespace]))
	}
	return all
}
