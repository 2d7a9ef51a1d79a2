package explain_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/cli/explain"
	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/manifests"
	"github.com/clusterset/clusterset/internal/topology"
)

// browser sends requests to a console, in a session.
type browser struct {
	testing.TB
	handler http.Handler
	cookie  *http.Cookie
}

func openConsole(t testing.TB, s *console.Server) *browser {
	t.Helper()
	const address = "127.0.0.1:80"
	b := &browser{TB: t, handler: s.Handler(address)}
	w := b.ask("/?token=" + s.Token())
	cookie, err := http.ParseSetCookie(w.Header().Get("Set-Cookie"))
	if err != nil {
		t.Fatalf("no session: status %d, %v", w.Code, err)
	}
	b.cookie = cookie
	return b
}

func (b *browser) ask(target string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, target, nil)
	r.Host = "127.0.0.1"
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	return w
}

// get decodes an answer.
func (b *browser) get(path string, query url.Values, into any) {
	b.Helper()
	w := b.ask(path + "?" + query.Encode())
	if w.Code != http.StatusOK {
		b.Fatalf("%s %v: status %d, %s", path, query, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		b.Fatalf("%s: %v", path, err)
	}
}

// asJSON encodes a value as JSON and decodes it again, which drops unexported fields.
func asJSON[T any](t testing.TB, v T) (read T) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// For a hub's records, the console shows the same for each place as explain, status and preview report about the objects that the
// importer there would write. Its clusters and conflicts equal those of status, and its effects of changes equal those of preview.
func TestConsoleAgreesAboutAHub(t *testing.T) {
	rows, vips, lastResorts, unseen := 0, 0, 0, 0
	for _, path := range []string{"../console/testdata/hub.yaml", "../console/testdata/communities.yaml", "../../examples/preview"} {
		objects, _, err := manifests.Objects(path, connect.NewScheme())
		if err != nil {
			t.Fatal(err)
		}
		server := console.New(console.Options{})
		server.SetRecords(objects)
		b, state := openConsole(t, server), preview.NewState(objects)
		b.agreesWithStatus(path, objects)
		for _, cluster := range state.Clusters() {
			change := preview.Change{Drain: []string{cluster}}
			if strings.Contains(path, "communities") {
				change = preview.Change{Communities: &preview.Communities{Cluster: cluster, To: []string{"edge-asia"}}}
			}
			after, _, err := state.Apply(change)
			if err != nil {
				t.Fatal(err)
			}
			b.agreesWithPreview(state, change)
			for _, p := range state.Places() {
				for _, key := range state.Services() {
					a := newAgreement(t, path, located(state.Objects(key, p.Cluster, preview.Options{})))
					if cluster == state.Clusters()[0] {
						a.explained(topology.Location(p), topology.Policy{})
						a.atLastResort(p.Cluster, a.nodes(p.Cluster)...)
						vips, lastResorts = vips+a.vips, lastResorts+a.lastResorts
					}
					then := newAgreement(t, path, located(after.Objects(key, p.Cluster, preview.Options{})))
					b.agreesAt(p, key.String(), change, a.objects, then.objects)
					unseen += b.agreesWithExplain(p, key, state)
					rows++
				}
			}
		}
	}
	if rows < 100 || vips < 20 || lastResorts < 2 || unseen < 20 {
		t.Errorf("only %d rows, %d ClusterSetIPs, %d at their last resort and %d unseen exports were compared", rows, vips, lastResorts, unseen)
	}
}

// nodes returns the zones of a cluster's nodes.
func (a *agreement) nodes(cluster string) []string {
	i := slices.IndexFunc(a.local.Members, func(m clustersetv1alpha1.MemberCluster) bool { return m.Name == cluster })
	return a.local.Members[i].Status.Zones
}

// located returns the objects that a DNS server would read.
func located(objects []runtime.Object) (all []manifests.Located) {
	for _, o := range objects {
		if object, _, _ := index.Convert(o); object != nil {
			all = append(all, manifests.Located{Object: object, Source: o})
		}
	}
	return all
}

// agreesAt compares the console's row for a place with the objects that the importers there would write, before and after a change.
func (b *browser) agreesAt(p place.Place, service string, change preview.Change, before, after []runtime.Object) {
	b.Helper()
	changes, err := json.Marshal([]preview.Change{change})
	if err != nil {
		b.Fatal(err)
	}
	var s console.Service
	b.get("/api/service", url.Values{"service": {service}, "from": {p.String()}, "changes": {string(changes)}}, &s)
	if len(s.Rows) != 1 || len(s.Rows[0].Places) != 1 || s.Rows[0].Places[0] != p {
		b.Fatalf("%s from %s: %d rows", service, p, len(s.Rows))
	}
	is := []*preview.Answers{s.Rows[0].Before, s.Rows[0].After} // After is nil if the change has no effect
	for i, objects := range [][]runtime.Object{before, after} {
		want, err := preview.Imported(objects, service, p, preview.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if is[i] == nil {
			continue
		}
		if vip := is[i].ClusterSetIP; want.ClusterSetIP == nil && vip != nil && vip.Ready == 0 {
			is[i].ClusterSetIP = nil // without endpoints, the importer writes nothing for kube-proxy
		}
		if want := asJSON(b, want); !reflect.DeepEqual(is[i], want) {
			b.Errorf("%s from %s, after %v: the console has\n%+v\nthe importer's objects give\n%+v", service, p, i == 1, is[i], want)
		}
	}
}

// agreesWithExplain compares the exports that a place doesn't see, and the reasons, with explain's. It returns their number.
func (b *browser) agreesWithExplain(p place.Place, key types.NamespacedName, state *preview.State) int {
	b.Helper()
	var f explain.Facts
	f.See(state.Records(key), state.Member, p.Cluster)
	var s console.Service
	b.get("/api/service", url.Values{"service": {key.String()}}, &s)
	var shown []string
	for _, c := range s.Columns {
		for _, u := range c.Unseen {
			if slices.Contains(u.From, p.Cluster) {
				shown = append(shown, strings.NewReplacer("{exporter}", c.Name, "{viewer}", p.Cluster).Replace(u.Why))
			}
		}
	}
	if !slices.Equal(shown, f.Hidden) {
		b.Errorf("%s from %s: the console shows as unseen %q, explain %q", key, p, shown, f.Hidden)
	}
	return len(shown)
}

// agreesWithPreview compares the console's effects of a change on the whole set with preview's.
func (b *browser) agreesWithPreview(state *preview.State, change preview.Change) {
	b.Helper()
	want, err := state.Preview(b.Context(), []preview.Change{change}, preview.Options{})
	if err != nil {
		b.Fatal(err)
	}
	changes, err := json.Marshal([]preview.Change{change})
	if err != nil {
		b.Fatal(err)
	}
	var got console.WhatIf
	b.get("/api/whatif", url.Values{"changes": {string(changes)}}, &got)
	if !reflect.DeepEqual(got.Summary, asJSON(b, want.Summary)) || len(got.Services) != len(want.Services) {
		b.Errorf("%s: the console has %+v, preview %+v", change.String(), got, want)
	}
	for i := range got.Services {
		if svc := want.Services[i]; got.Services[i].Name != svc.Name || !slices.Equal(got.Services[i].Effects, svc.Effects) {
			b.Errorf("%s: the console has %+v, preview %+v", change.String(), got.Services[i], svc)
		}
	}
}

// agreesWithStatus compares the console's clusters and conflicts with status's for the same records.
func (b *browser) agreesWithStatus(path string, objects []runtime.Object) {
	b.Helper()
	facts := view.Facts{Now: time.Now(), Hub: &view.HubFacts{}}
	for _, o := range objects {
		switch o := o.(type) {
		case *clustersetv1alpha1.MemberCluster:
			facts.Hub.Members = append(facts.Hub.Members, *o)
		case *clustersetv1alpha1.ExportedService:
			facts.Hub.Exports = append(facts.Hub.Exports, *o)
		}
	}
	facts.Hub.Know(nil)
	want := asJSON(b, view.Build(facts))
	var m console.Map
	b.get("/api/map", nil, &m)
	var clusters []view.Cluster
	for _, c := range m.Clusters {
		clusters = append(clusters, c.Cluster)
	}
	if !reflect.DeepEqual(clusters, want.Clusters) {
		b.Errorf("%s: the console has the clusters\n%+v\nstatus\n%+v", path, clusters, want.Clusters)
	}
	var list console.Services
	b.get("/api/services", url.Values{"conflicts": {"1"}}, &list)
	var conflicts, wanted []string
	for _, i := range list.Items {
		conflicts = append(conflicts, i.Namespace+"/"+i.Name)
	}
	for _, p := range want.Services.Conflicts {
		wanted = append(wanted, p.Namespace+"/"+p.Name)
	}
	if !slices.Equal(conflicts, wanted) || m.Services.Conflicts != len(wanted) {
		b.Errorf("%s: the console has the conflicts %v, status %v", path, conflicts, wanted)
	}
}
