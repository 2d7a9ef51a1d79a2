package exporter

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/explain"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/manifests"
)

// If communities and export-to hide exports, the condition Conflict of a ServiceExport matches what explain reports in its cluster. status
// lists a service if any cluster sees a conflict: here, only a cluster that exports neither of the two conflicting Services.
func TestConflictConditionsAgreeWithExplainAndStatus(t *testing.T) {
	objects, _, err := manifests.Objects("../cli/console/testdata/communities.yaml", connect.NewScheme())
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]*clustersetv1alpha1.MemberCluster{}
	services := map[types.NamespacedName][]*clustersetv1alpha1.ExportedService{}
	var hub view.HubFacts
	for _, o := range objects {
		switch o := o.(type) {
		case *clustersetv1alpha1.MemberCluster:
			members[o.Name] = o
			hub.Members = append(hub.Members, *o)
		case *clustersetv1alpha1.ExportedService:
			key := types.NamespacedName{Namespace: o.Spec.ServiceNamespace, Name: o.Spec.ServiceName}
			services[key] = append(services[key], o)
			hub.Exports = append(hub.Exports, *o)
		}
	}
	hub.Know(nil)
	member := func(cluster string) *clustersetv1alpha1.MemberCluster { return members[cluster] }
	for key, records := range services {
		conflicts := 0
		for viewer := range members {
			var f explain.Facts
			f.See(records, member, viewer)
			conflicts += len(f.Conflicts)
			for i, own := range records {
				if cluster, _ := own.SourceCluster(); cluster != viewer {
					continue
				}
				others := slices.Concat(records[:i], records[i+1:])
				said := conflictOf(own, compact(others...), member)
				if (said.Status == "True") != (len(f.Conflicts) > 0) || len(f.Conflicts) == 1 && f.Conflicts[0] != said.Reason+": "+said.Message {
					t.Errorf("%s in %s: the condition is %s: %s, explain has %q", key, viewer, said.Status, said.Message, f.Conflicts)
				}
			}
		}
		listed := 0
		for _, p := range view.Build(view.Facts{Hub: &hub}).Services.Conflicts {
			if p.Namespace == key.Namespace && p.Name == key.Name {
				listed++
			}
		}
		if want := map[string]int{"web": 1, "ledger": 0}[key.Name]; conflicts != want || listed != want {
			t.Errorf("%s: %d conflicts by explain, %d by status, want %d", key, conflicts, listed, want)
		}
	}
}
