package exporter

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/communities"
)

// lacking returns the peers that say they don't have a namespace, sorted (rule C77 of docs/spec/control-plane.md).
func (p *peers) lacking(namespace string) (without []string) {
	for _, name := range p.names {
		if p.have[name].Lack(namespace) {
			without = append(without, name)
		}
	}
	slices.Sort(without)
	return without
}

// putImported sets the condition Imported. It returns the condition if it changed to one that a person should know of, and whether it changed
// at all. A service that isn't exported, or whose namespace all clusters have, has none.
func (v *visibility) putImported(export *mcsv1beta1.ServiceExport, service *clustersetv1alpha1.ExportedService) (news *metav1.Condition, changed bool) {
	p := v.peers.Load()
	if p == nil {
		return nil, false
	}
	var without []string
	if service != nil {
		for _, name := range p.lacking(export.Namespace) {
			if communities.Allows(service.Spec.ExportTo, name, p.of[name]) {
				without = append(without, name)
			}
		}
	}
	if len(without) == 0 {
		return nil, meta.RemoveStatusCondition(&export.Status.Conditions, api.ConditionImported)
	}
	c := notImported(export.Namespace, without)
	c.ObservedGeneration = export.Generation
	was := meta.FindStatusCondition(export.Status.Conditions, c.Type)
	if was == nil || was.Message != c.Message {
		news = &c
	}
	return news, meta.SetStatusCondition(&export.Status.Conditions, c)
}

func notImported(namespace string, clusters []string) metav1.Condition {
	const shown = 10
	who := strings.Join(clusters[:min(len(clusters), shown)], ", ")
	if more := len(clusters) - shown; more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	return metav1.Condition{
		Type: api.ConditionImported, Status: metav1.ConditionFalse, Reason: api.ReasonNamespaceMissing,
		Message: fmt.Sprintf("not imported where there is no namespace %s: in %s; create it there (kubectl create namespace %[1]s), or start the agents there with --create-namespaces",
			namespace, who),
	}
}
