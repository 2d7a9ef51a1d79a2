package explain

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/manifests"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/test/page"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// cities returns the objects in dir.
func cities(t *testing.T, dir string) Facts {
	t.Helper()
	located, notes, err := manifests.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return *FromManifests(located, notes)
}

// shares makes the exports of all services state shares.
func shares(of map[string]int) func(*Facts) {
	return func(f *Facts) {
		for _, o := range f.Objects {
			if imported, ok := o.(*index.ServiceImport); ok {
				imported.Policy = &topology.Policy{Shares: of}
			}
		}
	}
}

func TestRender(t *testing.T) {
	beijing := topology.Location{Cluster: "xicheng", Zone: "beijing", Region: "north"}
	tianjin := topology.Location{Cluster: "tianjin", Zone: "tianjin", Region: "north"}
	for name, c := range map[string]struct {
		name   string
		from   topology.Location
		policy topology.Policy
		change func(*Facts)
	}{
		"own-zone":     {name: "nginx.default.svc.global", from: beijing},
		"own-region":   {name: "nginx.default.svc.global", from: tianjin},
		"nowhere":      {name: "nginx.default.svc.global"},
		"boundary":     {name: "nginx.default.svc.global", from: tianjin, policy: topology.Policy{Boundary: topology.Zone}},
		"own-cluster":  {name: "nginx.default.svc.global", from: beijing, policy: topology.Policy{Prefer: []topology.Tier{topology.Cluster, topology.Region}}},
		"one-cluster":  {name: "minhang.nginx.default.svc.global", from: beijing},
		"headless":     {name: "shop/db", from: beijing},
		"host":         {name: "db-0.minhang.db.shop.svc.clusterset.local", from: beijing},
		"cluster-mcs":  {name: "minhang.db.shop.svc.clusterset.local", from: beijing},
		"no-such-host": {name: "db-9.minhang.db.shop.svc.clusterset.local", from: beijing},
		"zonal":        {name: "shanghai.prefer._zone.db.shop.svc.clusterset.local", from: beijing},
		"port":         {name: "_pg._tcp.db.shop.svc.clusterset.local", from: beijing},
		"vip": {name: "shop/web", from: beijing, change: func(f *Facts) {
			f.Conflicts = []string{"PortConflict: ports: minhang (1 of 2 clusters) disagrees with xicheng"}
		}},
		"routed":     {name: "shop/routed", from: beijing},
		"of-another": {name: "shop/routed", from: tianjin, change: func(f *Facts) { f.Self = "xicheng" }},
		"none-ready": {name: "shop/routed", from: beijing, change: func(f *Facts) {
			for _, o := range f.Objects {
				if s, ok := o.(*index.EndpointSlice); ok {
					for i := range s.Endpoints {
						s.Endpoints[i].Ready = false
					}
				}
			}
		}},
		"nothing-behind": {name: "shop/empty", from: beijing},
		"conditions": {name: "shop/empty", from: beijing, change: func(f *Facts) {
			for _, o := range f.imports {
				if o.Name == "empty" {
					o.Status.Conditions = []metav1.Condition{
						{Type: "Ready", Status: "True", Reason: "Ready"},
						{Type: api.ConditionEndpoints, Status: "False", Reason: api.ReasonNoEndpoints, Message: "no cluster has a ready endpoint of it"},
						{Type: api.ConditionComplete, Status: "False", Reason: api.ReasonLeftOut, Message: "minhang: 3 addresses outside of its spec.cidrs"},
					}
				}
			}
			f.export("empty.shop", &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "empty"}, Status: mcsv1beta1.ServiceExportStatus{Conditions: []metav1.Condition{
				{Type: api.ConditionComplete, Status: "False", Reason: api.ReasonNotUsed, Message: "clusterset.dev/perfer isn't known; did you mean clusterset.dev/prefer?"},
			}}})
		}},
		"networks": {name: "shop/routed", from: beijing, change: func(f *Facts) {
			f.Self = "xicheng"
			network := map[string]string{"xicheng": "core", "tianjin": "core", "minhang": "edge"}
			for i := range f.Members {
				f.Members[i].Spec.Network = network[f.Members[i].Name]
			}
			for _, o := range f.imports {
				for _, c := range []string{"xicheng", "tianjin", "minhang", "lyon"} {
					o.Status.Clusters = append(o.Status.Clusters, mcsv1beta1.ClusterStatus{Cluster: c})
				}
			}
			for _, s := range f.slices {
				if s.Labels[api.LabelSourceCluster] == "minhang" {
					s.Annotations = map[string]string{api.AnnotationExternal: "2"}
				}
			}
		}},
		"share":       {name: "shop/db", from: beijing, change: shares(map[string]int{"xicheng": 0})},
		"shares":      {name: "shop/routed", from: beijing, change: shares(map[string]int{"xicheng": 0, "minhang": 50, "tianjin": 50})},
		"none":        {name: "shop/db", from: beijing, policy: topology.Policy{Prefer: []topology.Tier{}}},
		"pending":     {name: "shop/pending", from: beijing},
		"not-ready":   {name: "shop/down", from: beijing},
		"last-resort": {name: "shop/legacy", from: beijing},
	} {
		q := Query{From: c.from, Policy: c.policy}
		var err error
		if q.Name, err = ParseName(c.name); err != nil {
			t.Fatal(err)
		}
		facts := cities(t, "testdata/cities")
		if c.change != nil {
			c.change(&facts)
		}
		e, err := Explain(q, facts)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		page.Fresh(t, "testdata/"+name+".txt", Screen{}.Render(e))
		if name == "headless" {
			page.Fresh(t, "testdata/"+name+"-wide.txt", Screen{Wide: true}.Render(e))
			content, err := json.MarshalIndent(e, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			page.Fresh(t, "testdata/"+name+".json", string(content)+"\n")
		}
	}
}

func TestNoSuchServiceNamesLikeOnes(t *testing.T) {
	for name, want := range map[string]string{
		"shop/wbe":    "there is neither a ServiceImport nor a GlobalService shop/wbe; clusterset status shows who is in the set; on the hub, kubectl get exportedservices -A lists what is exported",
		"shop/we":     "did you mean shop/web?",
		"shop/webs":   "did you mean shop/web?",
		"default/web": "did you mean shop/web?",
		"web/shop":    "did you mean shop/web?",
	} {
		n, err := ParseName(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Explain(Query{Name: n}, cities(t, "testdata/cities"))
		if !errors.As(err, new(*NotFoundError)) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
