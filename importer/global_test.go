package importer

import (
	"fmt"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/api/crds"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
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
}

// The cache may not have seen the last write yet. That is no reason to read what was written.
func TestAGlobalServiceIsKnownBeforeTheCacheHasIt(t *testing.T) {
	g := large(t, mcsv1beta1.Headless, 2, 1)
	cached := g.global()
	g.flip("cluster-001", false)
	g.once(t)
	reads, is := g.here.globalReads, g.global()
	if cached.ResourceVersion == is.ResourceVersion {
		t.Fatal("nothing was written")
	}
	known, err := g.lastGlobal(t.Context(), cached)
	if err != nil || g.here.globalReads != reads || cached.ResourceVersion != is.ResourceVersion || known.hash != hashOfGlobal(is) {
		t.Errorf("version %s, want %s; %d reads; %v", cached.ResourceVersion, is.ResourceVersion, g.here.globalReads-reads, err)
	}
}

// A GlobalService is written as any client writes it, refusals included, and a hundred endpoints aren't sent back.
func TestAGlobalServiceIsAnsweredWithItsMetadata(t *testing.T) {
	plane := kube.StartAll(t, nil)[0]
	plane.Apply(t, crds.All()...)
	config, seen := rest.CopyConfig(plane.Config()), &traffic{}
	config.Wrap(func(to http.RoundTripper) http.RoundTripper { seen.next = to; return seen })
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	plain := newClient(t, plane.Config())
	w, err := newBriefWriter(plain, config, connection)
	if err != nil {
		t.Fatal(err)
	}
	g := &fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"a": "b"}}}
	g.Spec.Type = fabedgev1alpha1.ClusterIP
	for i := range 100 {
		g.Spec.Endpoints = append(g.Spec.Endpoints, fabedgev1alpha1.Endpoint{Cluster: "shanghai", Zone: "z", Region: "r", Addresses: []string{fmt.Sprintf("10.0.0.%d", i)}})
	}
	stale := &fabedgev1alpha1.GlobalService{}
	for _, write := range []func() error{
		func() error { return w.Create(t.Context(), g) },
		func() error {
			stale = g.DeepCopy()
			g.Spec.Endpoints[7].Addresses = []string{"10.0.1.7"}
			return w.Update(t.Context(), g)
		},
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
		is := &fabedgev1alpha1.GlobalService{}
		if err := plain.Get(t.Context(), client.ObjectKeyFromObject(g), is); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(is.Spec, g.Spec) || !equality.Semantic.DeepEqual(is.ObjectMeta, g.ObjectMeta) || is.ManagedFields[0].Manager != api.FieldManagerImporter {
			t.Errorf("it is\n%+v\nwant\n%+v", is, g)
		}
	}
	if n := seen.received(); n == 0 || n > 4000 { // the object has 10 kB
		t.Errorf("the answers have %d bytes", n)
	}
	if err := w.Create(t.Context(), &fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: g.Spec}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a second one: %v", err)
	}
	if err := w.Update(t.Context(), stale); !apierrors.IsConflict(err) {
		t.Errorf("an old one: %v", err)
	}
	g.Spec.Type = "Other"
	if err := w.Update(t.Context(), g); !apierrors.IsInvalid(err) || refusal(err) == "" {
		t.Errorf("an invalid one: %v", err)
	}
}
