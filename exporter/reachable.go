package exporter

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/communities"
)

// putReachable sets the condition Reachable, and reports whether it changed (D95). A service that only clusters of this network may import,
// or that isn't exported, has none.
func (v *visibility) putReachable(export *mcsv1beta1.ServiceExport, d Desired) (changed bool) {
	p := v.peers.Load()
	if p == nil {
		return false
	}
	var networks []string
	if d.Service != nil {
		networks = p.otherNetworks(d.Service.Spec.ExportTo)
	}
	if len(networks) == 0 {
		return meta.RemoveStatusCondition(&export.Status.Conditions, api.ConditionReachable)
	}
	c := reachable(d, networks, len(p.external) > 0)
	c.ObservedGeneration = export.Generation
	return meta.SetStatusCondition(&export.Status.Conditions, c)
}

// otherNetworks returns the networks, but this cluster's, of the clusters that may import a service, sorted.
func (p *peers) otherNetworks(exportTo []string) (all []string) {
	for _, name := range p.names {
		if network, apart := p.apart[name]; apart && communities.Allows(exportTo, name, p.of[name]) && !slices.Contains(all, network) {
			all = append(all, network)
		}
	}
	slices.Sort(all)
	return all
}

func reachable(d Desired, networks []string, declared bool) metav1.Condition {
	const shown = 5
	for i := range networks {
		if networks[i] == "" {
			networks[i] = "without a name"
		}
	}
	who := "networks " + strings.Join(networks[:min(len(networks), shown)], ", ")
	if more := len(networks) - shown; more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	c := metav1.Condition{Type: api.ConditionReachable, Status: metav1.ConditionFalse}
	switch {
	case len(d.external) == 0:
		c.Reason, c.Message = d.reason, fmt.Sprintf("%s (%s)", d.noExternal, who)
	case !declared:
		c.Reason = api.ReasonNotInExternalCIDRs
		c.Message = fmt.Sprintf("clusters of other networks (%s) don't use it: this cluster's MemberCluster states no spec.externalCIDRs; an administrator of the hub has to set it", who)
	default:
		var addresses []string
		for _, e := range d.external {
			for _, at := range e.Spec.Endpoints {
				addresses = append(addresses, at.Addresses[0])
			}
		}
		text := strings.Join(addresses[:min(len(addresses), shown)], ", ")
		if more := len(addresses) - shown; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		c.Status, c.Reason = metav1.ConditionTrue, api.ReasonExternalAddresses
		c.Message = fmt.Sprintf("clusters of other networks (%s) reach it at %s", who, text)
	}
	return c
}
