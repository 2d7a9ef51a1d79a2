package effective

import (
	"encoding/json"
	"math/rand/v2"
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
	return stay(in, was)
}

// stay lets what the input doesn't have stay.
func stay(in desired.Input, was desired.Output) (unconfirmed []string, now desired.Output) {
	o := Effective(Records{Exports: in.Exports, Endpoints: in.Endpoints}, Imported(in.Key, in.Cluster, was.Slices), State{Now: time.Now()})
	in.Exports, in.Endpoints = o.Use.Exports, o.Use.Endpoints
	return o.Unconfirmed, desired.Compute(in)
}

// TestRetainChangesNothing removes each cluster's records from the hub, for each service of testdata. As long as they are retained,
// nothing changes, including ports and the clusters that expose them. Only the order of ports, which has no meaning, depends on which
// export is the oldest.
func TestRetainChangesNothing(t *testing.T) {
	files, err := filepath.Glob("../desired/testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sections := map[string]string{}
		for _, f := range archive.Files {
			sections[f.Name] = string(f.Data)
		}
		in := records.Input(t, desired.DataPath(strings.TrimSpace(sections["datapath"])), sections["hub.yaml"]).Compact()
		was := desired.Compute(in)
		for _, cluster := range was.Resolved.Clusters {
			if len(was.Resolved.Clusters) == 1 {
				continue // without any cluster, the reconciler does nothing, so nothing could change
			}
			tried++
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+" without "+cluster, func(t *testing.T) {
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

// TestAllCanBeRetained runs without any records, like an agent that starts while the hub is down. Then the local objects determine what
// every cluster exports, including the slices and the GlobalService.
func TestAllCanBeRetained(t *testing.T) {
	files, err := filepath.Glob("../desired/testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sections := map[string]string{}
		for _, f := range archive.Files {
			sections[f.Name] = string(f.Data)
		}
		all := records.Input(t, desired.DataPath(strings.TrimSpace(sections["datapath"])), sections["hub.yaml"]).Compact()
		for _, own := range append([]string{"another"}, desired.Compute(all).Resolved.Clusters...) {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+" in "+own, func(t *testing.T) {
				in := all
				in.Cluster, in.Own = own, ownOf(all, own)
				was := desired.Compute(in)
				if was.ServiceImport == nil {
					return
				}
				last := Imported(in.Key, own, was.Slices)
				in.Exports, in.Endpoints = last.Exports, last.Endpoints
				now := desired.Compute(in)
				byNumber(was)
				byNumber(now)
				if !reflect.DeepEqual(was.Slices, now.Slices) {
					t.Errorf("EndpointSlices were\n%+v\nare\n%+v", was.Slices, now.Slices)
				}
				if !reflect.DeepEqual(was.Global, now.Global) {
					t.Errorf("GlobalService was\n%+v\nis\n%+v", was.Global, now.Global)
				}
			})
		}
	}
}

// A part of a record that stays keeps its ports, whatever is missing: a port without a name has a name here only (C14 of
// docs/spec/control-plane.md).
func TestRetainKnowsPortsWithoutANameByTheirEndpoints(t *testing.T) {
	nameless := strings.ReplaceAll(records.Exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5"), "name: http, ", "")
	in := records.Input(t, desired.DataPathPods, nameless, records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5")).Compact()
	was := desired.Compute(in)
	in.Exports = slices.DeleteFunc(slices.Clone(in.Exports), func(e *door.Export) bool { return e.Cluster == "beijing" })
	if _, now := stay(in, was); !reflect.DeepEqual(was.Slices, now.Slices) {
		t.Errorf("EndpointSlices were\n%+v\nare\n%+v", was.Slices, now.Slices)
	}
}

// ownOf returns a cluster's own objects, equivalent to its records.
func ownOf(in desired.Input, cluster string) *desired.Own {
	own := &desired.Own{}
	for _, e := range in.Exports {
		if e.Cluster == cluster {
			own.ClusterIPs = e.Spec.ClusterIPs
		}
	}
	for _, e := range in.Endpoints {
		if e.Cluster == cluster {
			own.Endpoints = append(own.Endpoints, e)
		}
	}
	return own
}

// byNumber sorts the ports of all objects by number.
func byNumber(out desired.Output) {
	slices.SortFunc(out.ServiceImport.Spec.Ports, func(a, b mcsv1beta1.ServicePort) int { return int(a.Port - b.Port) })
	slices.SortFunc(out.Global.Spec.Ports, func(a, b fabedgev1alpha1.ServicePort) int { return int(a.Port - b.Port) })
	if out.Derived != nil {
		slices.SortFunc(out.Derived.Spec.Ports, func(a, b corev1.ServicePort) int { return int(a.Port - b.Port) })
	}
}

// While one cluster is held, changes of other clusters are still applied. Rule C45 of docs/spec/control-plane.md.
func TestRetainLetsOthersChange(t *testing.T) {
	in := records.Input(t, desired.DataPathPods,
		records.Exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5"), records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5")).Compact()
	was := desired.Compute(in)
	changed := records.Input(t, desired.DataPathPods, records.Exported("shanghai", "shop", "web", "10.2.0.2", "10.12.0.6")).Compact()
	in.Exports, in.Endpoints = changed.Exports, changed.Endpoints
	_, now := without(in, was, "beijing")
	var addresses []string
	for _, s := range now.Slices {
		addresses = append(addresses, s.Endpoints[0].Addresses[0])
	}
	if !slices.Equal(addresses, []string{"10.11.0.5", "10.12.0.6"}) || now.Slices[0].Name != was.Slices[0].Name {
		t.Errorf("slices have %v", addresses)
	}
	if g := now.Global.Spec.Endpoints; len(g) != 2 || g[0].Addresses[0] != "10.1.0.1" || g[1].Addresses[0] != "10.2.0.2" {
		t.Errorf("GlobalService has %+v", g)
	}
}

// One of several records is missing.
func TestRetainOneSlice(t *testing.T) {
	second := strings.Split(records.Exported("beijing", "shop", "web", "", "10.11.0.9"), "---")[1]
	in := records.Input(t, desired.DataPathPods, records.Exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5"), strings.Replace(second, "x-0", "y-0", 1)).Compact()
	in.Exports[0].Spec.Endpoints = []string{"x-0", "y-0"}
	was := desired.Compute(in)
	rand.Shuffle(len(was.Slices), func(i, j int) { was.Slices[i], was.Slices[j] = was.Slices[j], was.Slices[i] })
	in.Endpoints = in.Endpoints[:1]
	_, now := stay(in, was)
	if len(now.Slices) != 2 {
		t.Errorf("slices are %+v", now.Slices)
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

// A port without endpoints, for example while its pods are being created, is kept along with the cluster that is held.
func TestRetainKeepsPortsWithoutEndpoints(t *testing.T) {
	idle := clustersetv1alpha1.ServicePort{Name: "idle", Protocol: corev1.ProtocolTCP, Port: 9}
	for _, path := range []desired.DataPath{desired.DataPathPods, desired.DataPathClusterIPs} {
		for name, exposing := range map[string][]int{"of both": {0, 1}, "of the one that is held": {0}, "of the other": {1}} {
			t.Run(string(path)+", "+name, func(t *testing.T) {
				in := records.Input(t, path,
					records.Exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5"), records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5")).Compact()
				for _, i := range exposing {
					in.Exports[i].Spec.Ports = append(in.Exports[i].Spec.Ports, idle)
					text, _ := json.Marshal(in.Exports[i].Spec)
					in.Exports[i].Text = string(text)
				}
				was := desired.Compute(in)
				_, now := without(in, was, "beijing")
				byNumber(was)
				byNumber(now)
				if !reflect.DeepEqual(was.ServiceImport.Spec.Ports, now.ServiceImport.Spec.Ports) {
					t.Errorf("ports were %+v, are %+v", was.ServiceImport.Spec.Ports, now.ServiceImport.Spec.Ports)
				}
				if !reflect.DeepEqual(was.Global.Spec, now.Global.Spec) || !reflect.DeepEqual(was.Slices, now.Slices) {
					t.Errorf("GlobalService and slices were\n%+v\n%+v\nare\n%+v\n%+v", was.Global.Spec, was.Slices, now.Global.Spec, now.Slices)
				}
			})
		}
	}
}
