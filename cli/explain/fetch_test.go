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
	"github.com/clusterset/clusterset/internal/topology"
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

// What this cluster's agent can't reach is said of its endpoints, as long as the agent says so (D51).
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
	for age, want := range map[time.Duration]string{time.Minute: "its cluster is unreachable", time.Hour: "so all count as reachable"} {
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

func TestParseName(t *testing.T) {
	for in, want := range map[string]string{
		"shop/web":                      "web.shop.svc.clusterset.local. mcs",
		"web.shop":                      "web.shop.svc.clusterset.local. mcs",
		"Web.Shop.":                     "web.shop.svc.clusterset.local. mcs",
		"web.shop.svc":                  "web.shop.svc.clusterset.local. mcs",
		"web.shop.svc.":                 "web.shop.svc.clusterset.local. mcs",
		"web.shop.svc.clusterset.local": "web.shop.svc.clusterset.local. mcs",
		"nginx.default.svc.global":      "nginx.default.svc.global. global",
		"NGINX.default.svc.GLOBAL.":     "nginx.default.svc.global. global",
		"db-0.beijing.db.shop.svc.clusterset.local": "db-0.beijing.db.shop.svc.clusterset.local. mcs",
		"_http._tcp.web.shop.svc":                   "_http._tcp.web.shop.svc.clusterset.local. mcs",
		"svc.svc.svc.clusterset.local":              "svc.svc.svc.clusterset.local. mcs",
		"svc.svc":                                   "svc.svc.svc.clusterset.local. mcs",
		"a.b.c":                                     "isn't the name of a service",
		"web":                                       "isn't the name of a service",
		"":                                          "isn't the name of a service",
		"svc.global":                                "svc.global.svc.clusterset.local. mcs",
		"shop/":                                     "must be a DNS label",
		"*.shop.svc.global":                         "must be a DNS label",
		"shop/web.v1":                               "must be a DNS label",
		"shop.svc.clusterset.local":                 "isn't the name of a service",
		strings.Repeat("a", 64) + ".shop.svc.global": "must be a DNS label",
	} {
		n, err := ParseName(in)
		got := n.String() + " " + n.Dialect.String()
		if err != nil {
			got = err.Error()
		}
		if right := got == want || err != nil && strings.Contains(got, want); !right {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
		if strings.Contains(got, "\n") {
			t.Errorf("%q: the error isn't one line: %q", in, got)
		}
	}
}

// A cluster's zones are those in its spec, or else those of its nodes, as in DNS and the importer.
func TestLocate(t *testing.T) {
	for name, c := range map[string]struct {
		spec    clustersetv1alpha1.MemberClusterSpec
		learned []string
		want    string
		note    string
	}{
		"stated":           {spec: clustersetv1alpha1.MemberClusterSpec{Zone: "a", Region: "r"}, learned: []string{"x"}, want: "beijing a r"},
		"in the list":      {spec: clustersetv1alpha1.MemberClusterSpec{Zones: []string{"b"}}, want: "beijing b -"},
		"learned":          {spec: clustersetv1alpha1.MemberClusterSpec{Region: "r"}, learned: []string{"x"}, want: "beijing x r"},
		"several":          {spec: clustersetv1alpha1.MemberClusterSpec{Region: "r"}, learned: []string{"x", "y"}, want: "beijing - r", note: "beijing is in zones x, y: set that of the server with --from beijing/ZONE/r"},
		"nothing is known": {want: "beijing - -"},
	} {
		mc := &clustersetv1alpha1.MemberCluster{Spec: c.spec}
		mc.Name, mc.Status.Zones = "beijing", c.learned
		f := &Facts{}
		f.add(mc)
		if got := f.Locate("beijing").String(); got != c.want || !strings.HasPrefix(strings.Join(f.Notes, ""), c.note) || (c.note == "") != (len(f.Notes) == 0) {
			t.Errorf("%s: %s with notes %q, want %s with %q", name, got, f.Notes, c.want, c.note)
		}
	}
	if got := (&Facts{}).Locate("elsewhere"); got != (topology.Location{Cluster: "elsewhere"}) {
		t.Errorf("without a MemberCluster: %s", got)
	}
}
