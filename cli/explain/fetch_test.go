package explain

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// If communities hide exports from a cluster, the output reports that, and contains no conflicts that the cluster
// doesn't see.
func TestExportsOfOtherCommunities(t *testing.T) {
	member := func(name string, communities ...string) *clustersetv1alpha1.MemberCluster {
		return &clustersetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clustersetv1alpha1.MemberClusterSpec{Communities: communities},
		}
	}
	export := func(cluster, port string) *clustersetv1alpha1.ExportedService {
		return &clustersetv1alpha1.ExportedService{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: "web.shop"},
			Spec: clustersetv1alpha1.ExportedServiceSpec{
				ServiceNamespace: "shop", ServiceName: "web", Type: mcsv1beta1.ClusterSetIP, ExportedAt: metav1.NewTime(now.Add(-time.Hour)),
				Ports: []clustersetv1alpha1.ServicePort{{Name: port, Protocol: "TCP", Port: 80}},
			},
		}
	}
	oslosOwn := export("oslo", "https")
	oslosOwn.Spec.ExportTo = []string{"paris"}
	members := map[string]*clustersetv1alpha1.MemberCluster{"beijing": member("beijing", "x"), "lyon": member("lyon", "y"), "oslo": member("oslo", "x", "y")}
	known := func(cluster string) *clustersetv1alpha1.MemberCluster { return members[cluster] }
	exports := []*clustersetv1alpha1.ExportedService{export("lyon", "http"), export("oslo", "https"), export("lost", "https")}
	var f Facts
	f.See([]*clustersetv1alpha1.ExportedService{oslosOwn}, known, "beijing")
	if len(f.Hidden) != 1 || !strings.Contains(f.Hidden[0], "oslo exports it, but not to beijing") {
		t.Errorf("an export to others: %v", f.Hidden)
	}
	for self, want := range map[string]struct {
		hidden    []string
		conflicts int
	}{
		"beijing": {[]string{"lyon exports it, and shares no community with beijing"}, 0},
		"oslo":    {nil, 1},
		"":        {nil, 1},
	} {
		var f Facts
		f.See(exports, known, self)
		if !slices.Equal(f.Hidden, want.hidden) || len(f.Conflicts) != want.conflicts {
			t.Errorf("from %q: hidden %v, conflicts %v", self, f.Hidden, f.Conflicts)
		}
		name, err := ParseName("shop/web")
		if err != nil {
			t.Fatal(err)
		}
		var none *NotFoundError
		if _, err := Explain(Query{Name: name}, f); !errors.As(err, &none) || len(want.hidden) > 0 && !strings.Contains(err.Error(), want.hidden[0]) {
			t.Errorf("from %q: %v", self, err)
		}
	}
}

// What this cluster's agent can't reach is said beside the cluster, as long as the agent says so (D51).
func TestUnreachableClustersAreShown(t *testing.T) {
	reach := func(age time.Duration) *clustersetv1alpha1.Reachability {
		return &clustersetv1alpha1.Reachability{
			ObjectMeta: metav1.ObjectMeta{Name: clustersetv1alpha1.ReachabilityName}, Cluster: "xicheng", Stamp: metav1.NewMicroTime(now.Add(-age)),
			Clusters: []clustersetv1alpha1.ClusterReachability{{Name: "minhang", Reachable: metav1.ConditionFalse, Reason: "NoAnswer"}},
		}
	}
	name, err := ParseName("shop/db")
	if err != nil {
		t.Fatal(err)
	}
	for age, want := range map[time.Duration]string{time.Minute: "unreachable from here", time.Hour: "so all count as reachable"} {
		f := cities(t, "testdata/cities")
		f.measured(reach(age), now)
		e, err := Explain(Query{Name: name, From: f.Locate("xicheng")}, f)
		if err != nil {
			t.Fatal(err)
		}
		if text := (Screen{}).Render(e); !strings.Contains(text, want) {
			t.Errorf("want %q:\n%s", want, text)
		}
	}
}

// A short name is what it is in a pod: the cluster's own Service, if there is one.
func TestShortNames(t *testing.T) {
	for in, want := range map[string]bool{
		"web.shop": true, "web.shop.svc": true, "web.shop.": false, "shop/web": false, "web.shop.svc.clusterset.local": false, "a.web.shop.svc": false,
	} {
		n, err := ParseName(in)
		if err != nil || n.Short != want || n.Own().String() != "web.shop.svc.cluster.local." {
			t.Errorf("%s: %+v, %v", in, n, err)
		}
	}
}
