package console

import (
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/record"
)

// large are the records of a hub with 250 clusters in 30 zones, and 5,000 services with 5 exporters and 10 endpoints each.
func large() (objects []kruntime.Object) {
	zone := func(cluster int) string { return fmt.Sprintf("z%02d", cluster%30) }
	name := func(cluster int) string { return fmt.Sprintf("c%03d", cluster%250) }
	for i := range 250 {
		m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name(i)}}
		m.Spec.Region, m.Status.Phase = fmt.Sprintf("r%d", i%10), clustersetv1alpha1.MemberReady
		m.Status.Zones = []string{zone(i), zone(i + 1)}
		objects = append(objects, m)
	}
	for i := range 5000 {
		for j := range 5 {
			cluster := i/20 + 50*j
			e, s := export(name(cluster), types.NamespacedName{Namespace: fmt.Sprintf("ns%02d", i%50), Name: fmt.Sprintf("svc%04d", i)}, zone(cluster), 10)
			objects = append(objects, e, s)
		}
	}
	return objects
}

// export returns a cluster's records of a service.
func export(cluster string, key types.NamespacedName, zone string, ready int) (*clustersetv1alpha1.ExportedService, *clustersetv1alpha1.ExportedEndpoints) {
	e := &clustersetv1alpha1.ExportedService{
		ObjectMeta: record.Meta(cluster, key, api.ExportedServiceName(key.Namespace, key.Name)),
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: key.Namespace, ServiceName: key.Name, Type: mcsv1beta1.ClusterSetIP, ClusterIPs: []string{"10.96.0.10"},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, ExportedAt: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
			Ports: []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	slice := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: key.Name + "-1"}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](8080)}},
	}
	for i := range ready {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.0.0.%d", i+1)}, Zone: &zone})
	}
	return e, &record.Endpoints(cluster, key, slice)[0]
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// What a view costs at 250 clusters and 5,000 services, in bytes allocated and bytes sent. What follows a change costs what changed.
func TestLargeSet(t *testing.T) {
	objects := large()
	s := New(Options{})
	const kB, MB = 1 << 10, 1 << 20
	var sent int
	get := func(target string) func() {
		return func() {
			got := ask(t, s, target, nil)
			if got.Code != http.StatusOK {
				t.Fatalf("%s: status %d", target, got.Code)
			}
			sent = got.Body.Len()
		}
	}
	change := func() {
		changed := *objects[len(objects)-1].(*clustersetv1alpha1.ExportedEndpoints)
		objects[len(objects)-1] = &changed
		s.SetRecords(objects)
	}
	for _, c := range []struct {
		name       string
		do         func()
		bytes, out int
	}{
		{"the records", func() { s.SetRecords(objects) }, 200 * MB, 0},
		{"the map", get("/api/map"), 2 * MB, 100 * kB},
		{"a page of services", get("/api/services"), 2 * MB, 64 * kB},
		{"a search", get("/api/services?q=svc49&sort=ready&desc=1&offset=50"), 2 * MB, 64 * kB},
		{"a service", get("/api/service?service=ns07/svc0007"), 32 * MB, 256 * kB},
		{"the endpoints in a place", get("/api/endpoints?service=ns07/svc0007&place=c007/z07/r7"), 2 * MB, 64 * kB},
		{"a change", change, 8 * MB, 0},
		{"the map with changes", get("/api/map?changes=" + url.QueryEscape(`[{"drain":["c007"]},{"down":["c008"]}]`)), 16 * MB, 100 * kB},
		{"a service with changes", get("/api/service?service=ns07/svc0007&changes=" + url.QueryEscape(`[{"drain":["c000"]}]`)), 64 * MB, 512 * kB},
	} {
		sent = 0
		if got := allocated(c.do); got > uint64(c.bytes) && !raced {
			t.Errorf("%s: %d kB allocated, want %d at most", c.name, got/kB, c.bytes/kB)
		} else {
			t.Logf("%s: %d kB allocated, %d kB sent", c.name, got/kB, sent/kB)
		}
		if sent > c.out {
			t.Errorf("%s: %d kB sent, want %d at most", c.name, sent/kB, c.out/kB)
		}
	}
}

// BenchmarkViews measures the views of TestLargeSet.
func BenchmarkViews(b *testing.B) {
	objects := large()
	s := New(Options{})
	s.SetRecords(objects)
	b.Run("first records", func(b *testing.B) {
		for b.Loop() {
			New(Options{}).SetRecords(objects)
		}
	})
	for name, target := range map[string]string{"map": "/api/map", "services": "/api/services", "service": "/api/service?service=ns07/svc0007"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				ask(b, s, target, nil)
			}
		})
	}
	b.Run("records", func(b *testing.B) {
		for b.Loop() {
			s.SetRecords(objects)
		}
	})
}
