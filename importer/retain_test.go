package importer

import (
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// held computes what comes of the input when the hub has nothing of a cluster any more, and what was computed before is here.
func held(t *testing.T, in input, was output, cluster string) (parts []part, now output) {
	t.Helper()
	namespace := api.MemberNamespace(cluster)
	in.services = slices.DeleteFunc(slices.Clone(in.services), func(s *clustersetv1alpha1.ExportedService) bool { return s.Namespace == namespace })
	in.endpoints = slices.DeleteFunc(slices.Clone(in.endpoints), func(e *clustersetv1alpha1.ExportedEndpoints) bool { return e.Namespace == namespace })
	cur := current{serviceImport: was.serviceImport, derived: in.derived, global: was.global, slices: was.slices}
	parts = missing(in, cur)
	retain(&in, cur, parts)
	return parts, compute(in)
}

// TestRetainChangesNothing takes each cluster's records off the hub, for each service of testdata. As long as they are held
// back, everything stays as it is, down to ports and the clusters that expose them. Only the ports' order, which means nothing,
// follows from who is the oldest.
func TestRetainChangesNothing(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var in input
		for _, f := range archive.Files {
			switch f.Name {
			case "hub.yaml":
				path := in.dataPath
				in = readInput(t, f.Data)
				in.dataPath = path
			case "datapath":
				in.dataPath = DataPath(strings.TrimSpace(string(f.Data)))
			}
		}
		was := compute(in)
		for _, cluster := range was.resolved.Clusters {
			if len(was.resolved.Clusters) == 1 {
				continue // nobody is left to change anything, and the reconciler leaves everything alone
			}
			tried++
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+" without "+cluster, func(t *testing.T) {
				parts, now := held(t, in, was, cluster)
				if len(parts) != 1 || parts[0] != (part{in.key, cluster, ""}) {
					t.Errorf("missing are %v", parts)
				}
				byNumber(was)
				byNumber(now)
				for what, pair := range map[string][2]any{
					"ServiceImport": {was.serviceImport, now.serviceImport}, "derived Service": {was.derived, now.derived},
					"EndpointSlices": {was.slices, now.slices}, "GlobalService": {was.global, now.global},
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

// byNumber sorts the ports of all objects.
func byNumber(out output) {
	slices.SortFunc(out.serviceImport.Spec.Ports, func(a, b mcsv1beta1.ServicePort) int { return int(a.Port - b.Port) })
	slices.SortFunc(out.global.Spec.Ports, func(a, b fabedgev1alpha1.ServicePort) int { return int(a.Port - b.Port) })
	if out.derived != nil {
		slices.SortFunc(out.derived.Spec.Ports, func(a, b corev1.ServicePort) int { return int(a.Port - b.Port) })
	}
}

// While one cluster is held, another's changes come through.
func TestRetainLetsOthersChange(t *testing.T) {
	in := readInput(t, []byte(exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5")+"---"+exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5")))
	in.dataPath = DataPathPods
	was := compute(in)
	changed := readInput(t, []byte(exported("shanghai", "shop", "web", "10.2.0.2", "10.12.0.6")))
	in.services, in.endpoints = changed.services, changed.endpoints
	_, now := held(t, in, was, "beijing")
	var addresses []string
	for _, s := range now.slices {
		addresses = append(addresses, s.Endpoints[0].Addresses[0])
	}
	if !slices.Equal(addresses, []string{"10.11.0.5", "10.12.0.6"}) || now.slices[0].Name != was.slices[0].Name {
		t.Errorf("slices have %v", addresses)
	}
	if g := now.global.Spec.Endpoints; len(g) != 2 || g[0].Addresses[0] != "10.1.0.1" || g[1].Addresses[0] != "10.2.0.2" {
		t.Errorf("GlobalService has %+v", g)
	}
}

// One record of several is missing.
func TestRetainOneSlice(t *testing.T) {
	second := strings.Split(exported("beijing", "shop", "web", "", "10.11.0.9"), "---")[1]
	in := readInput(t, []byte(exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5")+"---"+strings.Replace(second, "x-0", "y-0", 1)))
	in.dataPath = DataPathPods
	was := compute(in)
	cur := current{serviceImport: was.serviceImport, global: was.global, slices: was.slices}
	rand.Shuffle(len(cur.slices), func(i, j int) { cur.slices[i], cur.slices[j] = cur.slices[j], cur.slices[i] })
	gone := in.endpoints[1]
	in.endpoints = in.endpoints[:1]
	parts := missing(in, cur)
	if want, _ := partOf(gone); len(parts) != 1 || parts[0] != want {
		t.Fatalf("missing are %v, want %v", parts, want)
	}
	retain(&in, cur, parts)
	if now := compute(in); len(now.slices) != 2 {
		t.Errorf("slices are %+v", now.slices)
	}
	// An empty slice takes nothing with it.
	for _, s := range cur.slices {
		s.Endpoints = nil
	}
	in.endpoints = nil
	if parts := missing(in, cur); len(parts) > 0 {
		t.Errorf("missing are %v", parts)
	}
}
