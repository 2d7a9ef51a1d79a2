package doctor

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/internal/mcs"
	"github.com/clusterset/clusterset/internal/schema"
)

const mcsGroup = "multicluster.x-k8s.io"

var kinds = map[string][]CRD{
	"cluster": {
		{Name: "memberclusters.clusterset.dev", Want: []string{"v1alpha1"}},
		{Name: "reachabilities.clusterset.dev", Want: []string{"v1alpha1"}},
		{Name: "serviceexports." + mcsGroup, Want: mcs.Versions},
		{Name: "serviceimports." + mcsGroup, Want: mcs.Versions},
		{Name: "globalservices.dns.fabedge.io", Want: []string{"v1alpha1"}, Optional: true},
	},
	"hub": {
		{Name: "memberclusters.clusterset.dev", Want: []string{"v1alpha1"}},
		{Name: "exportedservices.clusterset.dev", Want: []string{"v1alpha1"}},
		{Name: "exportedendpoints.clusterset.dev", Want: []string{"v1alpha1"}},
		{Name: "memberreports.clusterset.dev", Want: []string{"v1alpha1"}},
	},
}

// definitions checks the kinds: which are served, and whether their definitions are as new as ours. Anyone may ask for both.
func definitions(ctx context.Context, disco *discovery.DiscoveryClient, config *rest.Config, what string) []CRD {
	all := slices.Clone(kinds[what])
	groups, err := disco.ServerGroupsWithContext(ctx)
	for i := range all {
		k := &all[i]
		plural, group, _ := strings.Cut(k.Name, ".")
		if k.Err = err; err != nil {
			continue
		}
		for _, g := range groups.Groups {
			for _, v := range g.Versions {
				if g.Name == group && serves(ctx, disco, v.GroupVersion, plural) {
					k.Served = append(k.Served, v.Version)
				}
			}
		}
		if len(k.Served) > 0 {
			if lacking, err := schema.Lacking(ctx, config, group); err == nil {
				k.Outdated = lacking[k.Name]
			}
			if group == mcsGroup && !serves(ctx, disco, group+"/"+k.Served[0], plural+"/status") {
				k.Outdated = append(k.Outdated, "the status subresource")
			}
		}
	}
	return all
}

func serves(ctx context.Context, disco *discovery.DiscoveryClient, groupVersion, plural string) bool {
	list, err := disco.ServerResourcesForGroupVersionWithContext(ctx, groupVersion)
	if err != nil {
		return false // a version that has just gone
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural })
}
