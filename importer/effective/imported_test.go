package effective

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/test/records"
)

// without removes a cluster's records from the input and returns the clusters without a record, and the result with what stays. was is the earlier
// result, which is still in the local cluster.
func without(in desired.Input, was desired.Output, cluster string) (unconfirmed []string, now desired.Output) {
	in.Exports = slices.DeleteFunc(slices.Clone(in.Exports), func(e *door.Export) bool { return e.Cluster == cluster })
	in.Endpoints = slices.DeleteFunc(slices.Clone(in.Endpoints), func(e *door.Endpoints) bool { return e.Cluster == cluster })
	o := Effective(Records{Exports: in.Exports, Endpoints: in.Endpoints}, Imported(in.Key, in.Cluster, was.Slices), State{Now: time.Now()})
	in.Exports, in.Endpoints = o.Use.Exports, o.Use.Endpoints
	return o.Unconfirmed, desired.Compute(in)
}

// corpus returns the services of importer/desired/testdata, by the names of their files.
func corpus(t *testing.T) map[string]desired.Input {
	t.Helper()
	all := map[string]desired.Input{}
	files, err := filepath.Glob("../desired/testdata/*.txtar")
	for _, file := range files {
		archive, failed := txtar.ParseFile(file)
		if err = errors.Join(err, failed); err != nil {
			break
		}
		sections := map[string]string{}
		for _, f := range archive.Files {
			sections[f.Name] = string(f.Data)
		}
		all[filepath.Base(file)] = records.Input(t, desired.DataPath(strings.TrimSpace(sections["datapath"])), sections["hub.yaml"]).Compact()
	}
	if err != nil || len(all) == 0 {
		t.Fatalf("%d files, %v", len(all), err)
	}
	return all
}

// TestRetainChangesNothing removes each cluster's records from the hub, for each service of testdata. As long as they are retained,
// nothing changes, including ports and the clusters that expose them. Only the order of ports, which has no meaning, depends on which
// export is the oldest.
func TestRetainChangesNothing(t *testing.T) {
	tried := 0
	for name, in := range corpus(t) {
		was := desired.Compute(in)
		for _, cluster := range was.Resolved.Clusters {
			if len(was.Resolved.Clusters) == 1 {
				continue // without any cluster, the reconciler does nothing, so nothing could change
			}
			tried++
			t.Run(name+" without "+cluster, func(t *testing.T) {
				unconfirmed, now := without(in, was, cluster)
				if !slices.Equal(unconfirmed, []string{cluster}) {
					t.Errorf("unconfirmed are %v", unconfirmed)
				}
				byNumber(was)
				byNumber(now)
				for _, imp := range []*mcsv1beta1.ServiceImport{was.ServiceImport, now.ServiceImport} { // rule C45: not of what stays
					meta.RemoveStatusCondition(&imp.Status.Conditions, api.ConditionComplete)
				}
				for what, pair := range map[string][2]any{
					"ServiceImport": {was.ServiceImport, now.ServiceImport}, "derived Service": {was.Derived, now.Derived},
					"EndpointSlices": {was.Slices, now.Slices}, "GlobalService": {was.Global, now.Global},
				} {
					if !reflect.DeepEqual(pair[0], pair[1]) {
						t.Errorf("%s was\n%+v\nis\n%+v", what, pair[0], pair[1])
					}
				}
			})
		}
	}
	if tried < 8 {
		t.Errorf("only %d clusters were tried", tried)
	}
}

// byNumber sorts the ports of all objects by number.
func byNumber(out desired.Output) {
	slices.SortFunc(out.ServiceImport.Spec.Ports, func(a, b mcsv1beta1.ServicePort) int { return int(a.Port - b.Port) })
	slices.SortFunc(out.Global.Spec.Ports, func(a, b fabedgev1alpha1.ServicePort) int { return int(a.Port - b.Port) })
	if out.Derived != nil {
		slices.SortFunc(out.Derived.Spec.Ports, func(a, b corev1.ServicePort) int { return int(a.Port - b.Port) })
	}
}

// Who may write ServiceImports and EndpointSlices gets no addresses of another cluster, and no other service's, into what is imported.
func TestWhatIsStoredIsDistrusted(t *testing.T) {
	in := records.Input(t, desired.DataPathPods, records.Exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5"), records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5")).Compact()
	for name, forge := range map[string]func(s *discoveryv1.EndpointSlice){
		"it isn't the importer's":        func(s *discoveryv1.EndpointSlice) { delete(s.Labels, api.LabelManagedBy) },
		"its name is that of another":    func(s *discoveryv1.EndpointSlice) { s.Name += "0" },
		"it is said to be another's":     func(s *discoveryv1.EndpointSlice) { s.Labels[api.LabelSourceCluster] = "shanghai" },
		"it names another record":        func(s *discoveryv1.EndpointSlice) { s.Annotations[api.AnnotationRecord] = "web.shop.other" },
		"its addresses are no addresses": func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "127.0.0.1" },
		"they aren't in the networks":    func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "10.66.0.1" },
	} {
		t.Run(name, func(t *testing.T) {
			in := in
			in.Members = map[string]*clustersetv1alpha1.MemberCluster{"beijing": {Spec: clustersetv1alpha1.MemberClusterSpec{CIDRs: []string{"10.1.0.0/16", "10.11.0.0/16"}}}}
			was := desired.Compute(in)
			i := slices.IndexFunc(was.Slices, func(s *discoveryv1.EndpointSlice) bool { return s.Labels[api.LabelSourceCluster] == "beijing" })
			was.Slices[i] = was.Slices[i].DeepCopy()
			forge(was.Slices[i])
			_, now := without(in, was, "beijing")
			for _, s := range now.Slices {
				if s.Labels[api.LabelSourceCluster] != "shanghai" && len(s.Endpoints) > 0 || len(s.Endpoints) > 1 {
					t.Errorf("slice %+v", s)
				}
			}
		})
	}
	was := desired.Compute(in)
	for _, s := range was.Slices {
		s.Annotations[api.AnnotationExport] = strings.ReplaceAll(s.Annotations[api.AnnotationExport], `"shop"`, `"vault"`)
	}
	if unconfirmed, _ := without(in, was, "beijing"); len(unconfirmed) > 0 {
		t.Errorf("another service's export counts: %v", unconfirmed)
	}
}
