package statefile

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/clusterset/clusterset/internal/index"
)

// held returns an Index of headless services. Each has slices of three clusters, with three endpoints each.
func held(services int) *index.Index {
	x := index.New(index.Options{})
	for i := range services {
		ns, name := fmt.Sprintf("team-%d", i%500), fmt.Sprintf("service-%d", i)
		key := index.NewServiceKey(ns, name)
		x.Put(&index.ServiceImport{Service: key, Headless: true, Ports: []index.Port{{Name: "http", Number: 80}, {Name: "grpc", Number: 9090}}})
		for j := range 3 {
			cluster := fmt.Sprintf("cluster-%d", (i+j)%50)
			g := index.Group{Cluster: cluster, Ports: []index.Port{{Name: "http", Number: 8080}, {Name: "grpc", Number: 9090}}}
			for k := range 3 {
				addr := netip.AddrFrom4([4]byte{10, byte(i >> 12), byte(i >> 4), byte(i<<4 | j<<2 | k)})
				g.Endpoints = append(g.Endpoints, index.Endpoint{Addr: addr, Hostname: fmt.Sprintf("pod-%d", k), Zone: "zone-1", Ready: true})
			}
			x.Put(&index.EndpointSlice{Namespace: ns, Name: fmt.Sprintf("imported-%s-%s", name, cluster), Service: key, Group: g})
		}
	}
	return x
}

// Saving allocates a list of the objects and a few buffers, not the whole content of the file.
func TestSavingIsStreamed(t *testing.T) {
	x := held(2000)
	path := filepath.Join(t.TempDir(), "state")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := &State{Objects: x.Objects()}
	err := Write(path, s)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	const buffers = 1 << 20
	if each := (int64(after.TotalAlloc-before.TotalAlloc) - buffers) / int64(len(s.Objects)); each > 64 {
		t.Errorf("%d bytes for each object", each)
	}
}

// Measures saving and reading a large state: go test -run '^$' -bench State -benchtime 3x -benchmem ./internal/statefile
func BenchmarkState(b *testing.B) {
	x := held(100_000)
	path := filepath.Join(b.TempDir(), "state")
	measure := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			began := processorTime(b)
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((processorTime(b)-began).Seconds()/float64(b.N), "cpu-s/op")
		})
	}
	measure("save 100,000 services and 300,000 slices", func() error { return Write(path, &State{Objects: x.Objects()}) })
	if err := Write(path, &State{Objects: x.Objects()}); err != nil {
		b.Fatal(err)
	}
	measure("read", func() error {
		_, _, err := Read(path)
		return err
	})
}

// processorTime returns the CPU time of this process, which is more meaningful than wall time on a busy machine.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
