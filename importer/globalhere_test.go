package importer

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// What the importer wrote itself isn't read again, also while the cache lags behind. What somebody else changed is read, and put right.
func TestAGlobalServiceIsReadOnlyIfSomebodyElseChangedIt(t *testing.T) {
	g := large(t, mcsv1beta1.Headless, 3, 10)
	stored := func() *fabedgev1alpha1.GlobalService {
		return g.here.named(&fabedgev1alpha1.GlobalService{}, web).(*fabedgev1alpha1.GlobalService).DeepCopy()
	}
	older := stored().ObjectMeta
	check := func(what string, wantReads, endpoints int) {
		t.Helper()
		g.here.globalReads = 0
		here, err := g.globalHere(context.Background(), web)
		if err != nil || len(here.Spec.Endpoints) != endpoints || g.here.globalReads != wantReads {
			t.Errorf("%s: %d endpoints after %d reads (%v), want %d after %d", what, len(here.Spec.Endpoints), g.here.globalReads, err, endpoints, wantReads)
		}
	}
	check("as written", 0, 30)

	g.flip("cluster-001", false)
	g.reconcile(t)
	g.here.globalMeta = &older
	g.memories.get(web).globalWrote = g.clock.Now()
	check("the cache lags", 0, 30)
	g.clock.Step(echoWithin + time.Second)
	check("the cache still has an older version: the API server was restored", 1, 30)
	g.here.globalMeta = nil
	check("read", 0, 30)

	theirs := stored()
	theirs.Spec.Endpoints = theirs.Spec.Endpoints[:7]
	g.here.put(theirs)
	check("changed by somebody else", 1, 7)
	g.reconcile(t)
	if got := len(stored().Spec.Endpoints); got != 30 {
		t.Errorf("it still has %d endpoints, want 30", got)
	}

	again := stored()
	if err := g.here.of(again).Delete(again); err != nil {
		t.Fatal(err)
	}
	if here, err := g.globalHere(context.Background(), web); err != nil || here != nil {
		t.Errorf("deleted: got %v, %v", here, err)
	}
	g.here.put(&fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, Labels: map[string]string{"team": "shop"}}})
	check("somebody else's", 0, 0)
}

// At the start all of the importer's GlobalServices are read page by page, and none a second time.
func TestGlobalServicesAreReadAtTheStart(t *testing.T) {
	g := newRig(Options{DataPath: desired.DataPathPods})
	for i := range 2*globalsPage + 1 {
		g.here.put(&fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web-", i), Labels: desired.Labels()}})
	}
	if err := readGlobals(context.Background(), g.local, g.memories); err != nil {
		t.Fatal(err)
	}
	for i := range 2*globalsPage + 1 {
		key := web
		key.Name = fmt.Sprint("web-", i)
		if here, err := g.globalHere(context.Background(), key); err != nil || here == nil {
			t.Errorf("%s: %v, %v", key, here, err)
		}
	}
	if g.here.globalReads != 0 {
		t.Errorf("%d were read one by one", g.here.globalReads)
	}
}
