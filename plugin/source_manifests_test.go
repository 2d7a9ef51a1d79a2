package clusterset

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/manifests"
	"github.com/clusterset/clusterset/test/kube"
)

// A54: a directory that can't be listed may hold anything, so no name is denied before it was listed once.
func TestAnUnlistedDirectoryDeniesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	s := newSource(&manifestsFeed{dir: dir})
	s.label, s.corefile = "unlisted", &sources{}
	x := index.New(index.Options{})
	s.indexes = append(s.indexes, x)
	s.start()
	t.Cleanup(s.endMetrics)
	t.Cleanup(s.close)
	kube.Eventually(t, func() error {
		if testutil.ToFloat64(errorsTotal.WithLabelValues(s.label, kindFile)) < 2 {
			return errors.New("the second attempt hasn't failed yet")
		}
		return nil
	})
	if x.Snapshot() != nil {
		t.Error("answers without having read anything")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	<-s.synced
	if x.Snapshot() == nil {
		t.Error("doesn't answer although the directory was listed")
	}
}

// An edit publishes a snapshot for each object. If it renames objects, each of these has the services that were there before and are after.
func TestRenamedObjectsAreThereThroughout(t *testing.T) {
	headless := &index.ServiceImport{Service: "db.ns", Headless: true}
	slice := func(name string) *index.EndpointSlice {
		return &index.EndpointSlice{Namespace: "ns", Name: name, Service: "db.ns", Group: index.Group{
			Cluster: "c1", Endpoints: []index.Endpoint{{Addr: netip.MustParseAddr("10.0.0.1"), Ready: true}},
		}}
	}
	s := newSource(idle{})
	missing := 0
	var x *index.Index
	x = index.New(index.Options{Now: func() time.Time { // called before each change is published
		if last := x.Snapshot(); last != nil && (last.Service("web.ns") == nil || last.Service("db.ns").Set(index.MCS).Absent()) {
			missing++
		}
		return time.Now()
	}})
	s.indexes = []*index.Index{x}
	f := &manifestsFeed{held: map[manifests.Key]index.Object{}}
	for _, edit := range [][]index.Object{
		{headless, slice("db-1"), vip("web", "10.0.0.2")},
		{headless, slice("db-2"), &index.GlobalService{Service: "web.ns"}},
		{headless, slice("db-3"), slice("db-4"), vip("web", "10.0.0.2"), vip("other", "10.0.0.3")},
	} {
		var objects []manifests.Located
		for _, o := range edit {
			objects = append(objects, manifests.Located{Object: o})
		}
		f.keep("a.yaml", manifest{objects: objects})
		f.apply(s)
		x.Publish()
	}
	if missing > 0 {
		t.Errorf("a service is missing in %d snapshots", missing)
	}
	if n := x.Count(index.KindEndpointSlice) + x.Count(index.KindGlobalService); n != 2 {
		t.Errorf("%d objects at the end", n)
	}
}
