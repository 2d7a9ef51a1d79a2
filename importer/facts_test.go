package importer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/namespaces"
)

// A report says which drains and leaves the MemberClusters here have, and names one that isn't a copy and keeps a drain from being followed. If this
// cluster is the hub, they are the hub's own. Rule C76 of docs/spec/control-plane.md.
func TestReportSaysWhatIsFollowed(t *testing.T) {
	member := func(uid types.UID, labels map[string]string, change ...func(*clustersetv1alpha1.MemberCluster)) *clustersetv1alpha1.MemberCluster {
		m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai", UID: uid, Labels: labels}}
		for _, c := range change {
			c(m)
		}
		return m
	}
	left := func(m *clustersetv1alpha1.MemberCluster) { m.SetLeft(time.Unix(1e9, 0)) }
	drained := func(m *clustersetv1alpha1.MemberCluster) { m.Spec.Drain = true }
	ours := desired.Labels()
	for name, c := range map[string]struct {
		hub, here *clustersetv1alpha1.MemberCluster
		follows   bool
		cant      string
	}{
		"a drain, in our copy":                      {member("1", nil, drained), member("2", ours, drained), true, ""},
		"our copy is behind":                        {member("1", nil, drained), member("2", ours), false, ""},
		"it is copied soon":                         {member("1", nil, drained), nil, false, ""},
		"a drain is over, and our copy is behind":   {member("1", nil), member("2", ours, drained), false, ""},
		"somebody's own is in the way":              {member("1", nil, drained), member("2", nil), false, "shanghai"},
		"somebody's own says the same":              {member("1", nil, drained), member("2", nil, drained), true, ""},
		"a drain, in the hub":                       {member("1", nil, drained), member("1", nil, drained), true, ""},
		"it left, and our copy is gone":             {member("1", nil, left), nil, true, ""},
		"it left, and our copy isn't gone yet":      {member("1", nil, left), member("2", ours), false, ""},
		"it left, and somebody has described it":    {member("1", nil, left), member("2", nil), true, ""},
		"it left, and our copy of a former says so": {member("1", nil, left), member("2", ours, left), true, ""},
	} {
		hub, here := newShelf(), fake.NewClientBuilder().WithScheme(testScheme)
		if c.here != nil {
			here.WithObjects(c.here)
		}
		if err := hub.of(c.hub).Add(c.hub); err != nil {
			t.Fatal(err)
		}
		var f Facts
		var said clustersetv1alpha1.MemberReportSpec
		if f.Report(t.Context(), &said); said.Follows != "" || said.Namespaces != nil {
			t.Errorf("before it began: %+v", said)
		}
		f.begin(&fakeHub{shelf: hub}, here.Build(), false)
		f.Report(t.Context(), &said)
		if want := clustersetv1alpha1.DrainsAndLeaves([]clustersetv1alpha1.MemberCluster{*c.hub}); (said.Follows == want) != c.follows || said.CantFollow != c.cant {
			t.Errorf("%s: says %q and can't follow %q, the hub has %q", name, said.Follows, said.CantFollow, want)
		}
	}
}

// A report says which namespaces are here, unless a missing one says nothing (C77 of docs/spec/control-plane.md).
func TestReportSaysWhichNamespacesAreHere(t *testing.T) {
	here := fake.NewClientBuilder().WithScheme(testScheme).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}).Build()
	says := func(o Options) string {
		t.Helper()
		var f Facts
		f.begin(&fakeHub{shelf: newShelf()}, here, o.importsAll())
		var said clustersetv1alpha1.MemberReportSpec
		if f.Report(t.Context(), &said); said.Namespaces == nil {
			t.Fatal("it says nothing")
		}
		return *said.Namespaces
	}
	if has := clustersetv1alpha1.ParseNamespaces(says(Options{ExcludeNamespaces: namespaces.System})); has.Lack("shop") || !has.Lack("bank") {
		t.Errorf("it says %+v", has)
	}
	for _, o := range []Options{{ExcludeNamespaces: namespaces.System, CreateNamespaces: true}, {IncludeNamespaces: []string{"a"}, ExcludeNamespaces: namespaces.System}, {ExcludeNamespaces: []string{"shop-*"}}} {
		if digest := says(o); digest != "" {
			t.Errorf("%+v: says %q", o, digest)
		}
	}
}
