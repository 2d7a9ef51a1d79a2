package explain

import (
	"strings"
	"testing"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/topology"
)

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
