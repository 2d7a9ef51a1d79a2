package importer

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// global returns the GlobalService shop/web, nil if there is none.
func (g *rig) global() *fabedgev1alpha1.GlobalService {
	if stored, is := g.here.named(&fabedgev1alpha1.GlobalService{}, web).(*fabedgev1alpha1.GlobalService); is {
		return stored.DeepCopy()
	}
	return nil
}

// What the importer wrote itself isn't read again. What somebody else changed or deleted is read, and put right.
func TestAGlobalServiceIsReadOnlyIfSomebodyElseChangedIt(t *testing.T) {
	g := large(t, mcsv1beta1.Headless, 3, 10)
	check := func(what string, reads, endpoints int) {
		t.Helper()
		g.here.globalReads = 0
		g.reconcile(t)
		if got := g.global(); len(got.Spec.Endpoints) != endpoints || g.here.globalReads != reads {
			t.Errorf("%s: %d endpoints after %d reads, want %d after %d", what, len(got.Spec.Endpoints), g.here.globalReads, endpoints, reads)
		}
	}
	check("as written", 0, 30)
	g.flip("cluster-001", false)
	check("written again", 0, 30)
	if last := g.global().Spec.Endpoints[29]; last.Cluster != "cluster-001" || last.IsReady() {
		t.Errorf("the last endpoint is %+v", last)
	}

	for _, c := range []struct {
		what   string
		change func(*fabedgev1alpha1.GlobalService)
		reads  int
	}{
		{"endpoints are missing", func(o *fabedgev1alpha1.GlobalService) { o.Spec.Endpoints = o.Spec.Endpoints[:7] }, 1},
		{"one is changed", func(o *fabedgev1alpha1.GlobalService) { o.Spec.Endpoints[3].Zone = "moon" }, 1},
		{"a policy is stated", func(o *fabedgev1alpha1.GlobalService) {
			metav1.SetMetaDataAnnotation(&o.ObjectMeta, "clusterset.dev/prefer", "zone")
		}, 1},
		{"it has another status, which is written alone", func(o *fabedgev1alpha1.GlobalService) { o.Status.TruncatedEndpoints = 7 }, 2},
	} {
		theirs := g.global()
		c.change(theirs)
		g.here.put(theirs)
		check(c.what, c.reads, 30)
		if is := g.global(); is.Spec.Endpoints[3].Zone == "moon" || len(is.Annotations) > 0 || is.Status.TruncatedEndpoints != 0 {
			t.Errorf("%s: it is %+v", c.what, is)
		}
	}

	again := g.global()
	if err := g.here.of(again).Delete(again); err != nil {
		t.Fatal(err)
	}
	check("deleted", 0, 30)
	if err := g.here.of(again).Delete(again); err != nil {
		t.Fatal(err)
	}
	g.here.put(&fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, Labels: map[string]string{"team": "shop"}}})
	check("somebody else's", 0, 0)
	if err := g.here.of(again).Delete(g.global()); err != nil {
		t.Fatal(err)
	}
	check("that is deleted", 0, 30) // and isn't counted any more, by all tests of this process
}

// The status says what doesn't fit, and is written once. Rule C33 of docs/spec/control-plane.md.
func TestATruncatedGlobalServiceSaysSo(t *testing.T) {
	g := large(t, mcsv1beta1.Headless, 42, 100)
	if s := g.global().Status; s.TruncatedEndpoints != 104 {
		t.Errorf("the status is %+v", s)
	}
	version := g.global().ResourceVersion
	g.memories = newMemories()
	g.reconcile(t)
	if now := g.global().ResourceVersion; now != version {
		t.Error("who has just started writes it again")
	}
}

// At the start all of the importer's GlobalServices are read page by page, and none a second time.
func TestGlobalServicesAreReadAtTheStart(t *testing.T) {
	g := newRig(Options{DataPath: desired.DataPathPods})
	for i := range 2*globalsPage + 1 {
		g.here.put(&fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web-", i), Labels: desired.Labels()}})
	}
	if err := readGlobals(t.Context(), g.local, g.memories); err != nil {
		t.Fatal(err)
	}
	for i := range 2*globalsPage + 1 {
		is, err := g.globalHere(t.Context(), types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("web-", i)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.lastGlobal(t.Context(), is); err != nil {
			t.Fatal(err)
		}
	}
	if g.here.globalReads != 0 {
		t.Errorf("%d were read one by one", g.here.globalReads)
	}
}
