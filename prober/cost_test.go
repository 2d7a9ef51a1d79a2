package prober

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/beacon"
)

// set is a cache, a hub and an API server that cost next to nothing.
type set struct {
	client.Client
	members clustersetv1alpha1.MemberClusterList
	written atomic.Int64
}

func (s *set) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	*into.(*clustersetv1alpha1.MemberClusterList) = s.members
	return nil
}

func (s *set) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if report, ok := into.(*clustersetv1alpha1.MemberReport); ok {
		report.Spec.Beacons = []string{"10." + key.Namespace[len(api.MemberNamespace("")):] + ".0.1:9471"}
	}
	return nil
}

func (s *set) Update(context.Context, client.Object, ...client.UpdateOption) error {
	s.written.Add(1)
	return nil
}

// BenchmarkManyClusters is what it costs to measure 250 clusters for a while: real connections to beacons in this process, whose own cost is
// counted too, over the loopback interface. Run it with -benchtime 1x; docs/scale.md has the figures.
func BenchmarkManyClusters(b *testing.B) {
	const clusters, while = 250, 20 * time.Second
	s := &set{}
	s.members.Items = append(s.members.Items, clustersetv1alpha1.MemberCluster{})
	s.members.Items[0].Name = "here"
	at := map[string]netip.AddrPort{}
	for i := range clusters {
		m := clustersetv1alpha1.MemberCluster{}
		m.Name = fmt.Sprint(i)
		s.members.Items = append(s.members.Items, m)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = l.Close() })
		at[m.Name] = netip.MustParseAddrPort(l.Addr().String())
		go func() { _ = beacon.Serve(b.Context(), l, m.Name, "run") }()
	}
	var dials, failed atomic.Int64
	p := New(Options{
		Cluster: "here", Here: s, Live: s, Hub: s, Avoid: func(context.Context) []netip.Addr { return nil },
		Dial: func(ctx context.Context, _ netip.AddrPort, cluster string) (beacon.Answer, error) {
			dials.Add(1)
			answer, err := beacon.Dial(ctx, at[cluster], cluster)
			if err != nil {
				failed.Add(1)
			}
			return answer, err
		},
	})
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	go func() { _ = p.Start(ctx) }()
	<-p.Loaded()
	for unreached := clusters; unreached > 0; {
		<-time.After(time.Second)
		unmeasured := reportOf(p).Unmeasured
		if unreached = len(unmeasured); dials.Load() == 0 {
			unreached = clusters
		}
	}
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		from, cpu, written := dials.Load(), used(b), s.written.Load()
		<-time.After(while)
		cpu = used(b) - cpu
		n := dials.Load() - from
		runtime.ReadMemStats(&after)
		runtime.GC()
		var kept runtime.MemStats
		runtime.ReadMemStats(&kept)
		b.ReportMetric(float64(n)/while.Seconds(), "dials/s")
		b.ReportMetric(100*cpu.Seconds()/while.Seconds(), "%-of-a-core")
		b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/while.Seconds()/(1<<10), "KiB-allocated/s")
		b.ReportMetric(float64(kept.HeapInuse)/(1<<20), "MiB-heap")
		b.ReportMetric(float64(s.written.Load()-written), "writes")
	}
	if n := failed.Load(); n > 0 {
		b.Errorf("%d of %d dials failed", n, dials.Load())
	}
}

// used returns the processor time that this process has used.
func used(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
