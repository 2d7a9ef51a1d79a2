package doctor

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/internal/cli/objects"
	"github.com/clusterset/clusterset/internal/mcs"
)

// kinds are the kinds that must be served, by part.
var kinds = map[string][]CRD{
	"cluster": {
		{Name: "memberclusters.clusterset.dev", Want: []string{"v1alpha1"}},
		{Name: "serviceexports." + mcsGroup, Want: mcs.Versions},
		{Name: "serviceimports." + mcsGroup, Want: mcs.Versions},
		{Name: "globalservices.dns.fabedge.io", Want: []string{"v1alpha1"}, Optional: true},
	},
	"hub": {
		{Name: "memberclusters.clusterset.dev", Want: []string{"v1alpha1"}},
		{Name: "exportedservices.clusterset.dev", Want: []string{"v1alpha1"}},
		{Name: "exportedendpoints.clusterset.dev", Want: []string{"v1alpha1"}},
	},
}

// definitions checks the kinds: which are served, by discovery, which anyone may use, and, if definitions may be read, whether
// they are as new as ours.
func definitions(ctx context.Context, disco discovery.DiscoveryInterface, c *objects.Cluster, what string) []CRD {
	all := slices.Clone(kinds[what])
	groups, err := disco.ServerGroups()
	for i := range all {
		k := &all[i]
		plural, group, _ := strings.Cut(k.Name, ".")
		if k.Err = err; err != nil {
			continue
		}
		for _, g := range groups.Groups {
			for _, v := range g.Versions {
				if g.Name == group && serves(disco, v.GroupVersion, plural) {
					k.Served = append(k.Served, v.Version)
				}
			}
		}
		if len(k.Served) > 0 {
			k.compare(ctx, c)
		}
	}
	return all
}

func serves(disco discovery.DiscoveryInterface, groupVersion, plural string) bool {
	list, err := disco.ServerResourcesForGroupVersion(groupVersion)
	if err != nil {
		return false // a version that has just gone
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == plural {
			return true
		}
	}
	return false
}

// compare finds fields of our definition that the installed one lacks. Other projects' definitions are not compared.
func (k *CRD) compare(ctx context.Context, c *objects.Cluster) {
	ours := embedded(k.Name)
	if ours == nil {
		return
	}
	installed := &unstructured.Unstructured{}
	installed.SetAPIVersion("apiextensions.k8s.io/v1")
	installed.SetKind("CustomResourceDefinition")
	if err := c.Get(ctx, client.ObjectKey{Name: k.Name}, installed); err != nil {
		k.Unread = apierrors.IsForbidden(err)
		return
	}
	k.Outdated = missingFields(ours, installed)
}

// embedded returns our definition of a kind, or nil if it isn't ours.
func embedded(name string) *unstructured.Unstructured {
	for _, content := range crds.All() {
		crd := &unstructured.Unstructured{}
		if yaml.Unmarshal(content, crd) == nil && crd.GetName() == name {
			return crd
		}
	}
	return nil
}

// missingFields lists the fields, by version and path, that one definition has and the other lacks.
func missingFields(ours, installed *unstructured.Unstructured) []string {
	have := map[string]bool{}
	for _, f := range fields(installed) {
		have[f] = true
	}
	var missing []string
	for _, f := range fields(ours) {
		if parent := f[:strings.LastIndexByte(f, '.')]; !have[f] && !slices.Contains(missing, parent) {
			missing = append(missing, f)
		}
	}
	return missing
}

// fields lists the fields of every version of a definition, parents first.
func fields(crd *unstructured.Unstructured) []string {
	var all []string
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		schema, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
		all = append(all, properties(name, schema)...)
	}
	return all
}

func properties(path string, schema map[string]any) []string {
	var all []string
	if items, ok := schema["items"].(map[string]any); ok {
		all = append(all, properties(path, items)...)
	}
	of, _ := schema["properties"].(map[string]any)
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		all = append(all, path+"."+name)
		if below, ok := of[name].(map[string]any); ok {
			all = append(all, properties(path+"."+name, below)...)
		}
	}
	return all
}

func cutResource(s string) (resource, subresource string) {
	resource, subresource, _ = strings.Cut(s, "/")
	return resource, subresource
}
