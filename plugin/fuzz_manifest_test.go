package clusterset

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/manifests"
)

// FuzzManifest decodes files. The objects have names that can be served, and decoding a file again gives the same
// result.
func FuzzManifest(f *testing.F) {
	for _, s := range fuzzManifests {
		f.Add([]byte(s))
		f.Add([]byte("---\n" + s + "\n---\n# nothing\n---\n" + s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, notes, err := manifests.Decode("a.yaml", data)
		if again := decodeText(manifests.Decode("a.yaml", data)); again != decodeText(objects, notes, err) {
			t.Errorf("read twice:\n%s\n%s", decodeText(objects, notes, err), again)
		}
		if err != nil && len(objects)+len(notes) > 0 {
			t.Errorf("%v, and yet %v and %v", err, objects, notes)
		}
		lines := strings.Count(string(data), "\n") + 1
		for _, n := range notes {
			checkPlace(t, n.Place, lines)
		}
		x := index.New(index.Options{LongestZone: len("global.")})
		x.Publish()
		for _, l := range objects {
			checkPlace(t, l.Place, lines)
			checkObject(t, l.Object)
			x.Put(l.Object)
		}
		for _, svc := range x.Snapshot().Services() {
			if name, ok := asReceived(string(svc.Key()) + ".svc.global."); !ok || x.Snapshot().Service(strings.TrimSuffix(name, ".svc.global.")) != svc {
				t.Errorf("service %s is found under no name", svc.Key())
			}
		}
	})
}

var fuzzManifests = []string{
	"", "# only a comment", "null", "[]", "42", "{", "\xff", "a: &a [*a]", "apiVersion: v1\nkind: ConfigMap\n",
	"apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceImport\nmetadata: {name: a, namespace: ns}\nspec:\n  type: ClusterSetIP\n  ips: [10.0.0.1, fd00::1, x]\n  ports:\n  - {name: http, port: 80}\n  - {name: HTTP, port: 0}\n",
	"apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceImport\nmetadata: {name: a}\nspec: {type: Headless}\n",
	"apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceImport\nmetadata: {name: a.b}\nspec: {type: x}\n",
	"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: a-1\n  namespace: ns\n  labels: {multicluster.kubernetes.io/service-name: a, multicluster.kubernetes.io/source-cluster: c.d}\naddressType: IPv4\nports: [{name: http, port: 80}]\nendpoints:\n- addresses: [10.0.0.1]\n  hostname: h\n  zone: z\n  conditions: {ready: true}\n",
	"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a-1}\naddressType: FQDN\nendpoints: []\n",
	"apiVersion: dns.fabedge.io/v1alpha1\nkind: GlobalService\nmetadata: {name: a, namespace: ns}\nspec:\n  type: Headless\n  ports: [{name: http, port: 80, protocol: UDP}]\n  endpoints:\n  - {addresses: [10.0.0.1], hostname: h, cluster: C1, zone: z, region: r, ready: false, ports: [{name: http, port: 81}]}\n  - {addresses: [], cluster: '-'}\n",
	"apiVersion: clusterset.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: c1}\nspec: {zone: z, region: r, drain: true, wieght: 3}\nstatus: {phase: Suspect}\n",
	`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"clusterset.dev/v1alpha1","kind":"MemberCluster","metadata":{"name":"c1"}},{"apiVersion":"v1","kind":"List","items":[]}]}`,
	`{"apiVersion":"clusterset.dev/v1alpha1","kind":"MemberCluster","metadata":{"name":"c1"}} {"apiVersion":"clusterset.dev/v1alpha1","kind":"MemberCluster","metadata":{"name":"c2"}}`,
	"apiVersion: clusterset.dev/v1alpha1\nkind: MemberClusterList\nitems:\n- {apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: c3}}\n",
	"apiVersion: v1\nkind: List\nitems: [null, 3]\n",
}

func decodeText(objects []manifests.Located, notes []manifests.Note, err error) string {
	var b strings.Builder
	for _, l := range objects {
		fmt.Fprintf(&b, "%s %+v\n", l.Place, l.Object)
	}
	return fmt.Sprint(b.String(), notes, err)
}

var placePattern = regexp.MustCompile(`^a\.yaml:(\d+)(: items\[\d+\])*$`)

func checkPlace(t *testing.T, place string, lines int) {
	t.Helper()
	m := placePattern.FindStringSubmatch(place)
	if m == nil {
		t.Fatalf("place %q", place)
	}
	if line, err := strconv.Atoi(m[1]); err != nil || line < 1 || line > lines {
		t.Errorf("place %s of a file of %d lines", place, lines)
	}
}

func checkObject(t *testing.T, o index.Object) {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Errorf("%v: %+v", err, o)
		}
	}
	var groups []index.Group
	var key index.ServiceKey
	switch o := o.(type) {
	case *index.ServiceImport:
		key, groups = o.Service, []index.Group{{Ports: o.Ports}}
	case *index.GlobalService:
		key, groups = o.Service, append(slices.Clone(o.Groups), index.Group{Ports: o.Ports})
	case *index.EndpointSlice:
		key, groups = o.Service, []index.Group{o.Group}
	case *index.Cluster:
		check(api.CheckClusterName(o.Name))
		return
	}
	check(api.CheckLabel(key.Name()))
	check(api.CheckLabel(key.Namespace()))
	for _, g := range groups {
		if g.Cluster != "" {
			check(api.CheckClusterName(g.Cluster))
		}
		for _, p := range g.Ports {
			if p.Name != "" {
				check(api.CheckLabel(p.Name))
			}
			if p.Number == 0 {
				t.Errorf("port 0: %+v", o)
			}
		}
		for _, e := range g.Endpoints {
			_, err := api.ParseAddress(e.Addr.String())
			check(err)
			if e.Hostname != "" {
				check(api.CheckLabel(e.Hostname))
			}
		}
	}
}
