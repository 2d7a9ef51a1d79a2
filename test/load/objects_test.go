package load

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/kube"
)

// The objects, in the namespace load: stable-N with one ClusterSetIP, headless-N with ten constant endpoints, changing-N with three
// endpoints that keep changing within the service's own range, and large with a hundred endpoints.
const (
	stable   = 200
	headless = 50
	changing = 100
	large    = 100
)

func stableIP(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 100, byte(i / 250), byte(i%250 + 1)})
}

func headlessIPs(i, n int) []netip.Addr {
	ips := make([]netip.Addr, n)
	for endpoint := range ips {
		ips[endpoint] = netip.AddrFrom4([4]byte{10, 110, byte(i), byte(endpoint + 1)})
	}
	return ips
}

// changingIPs returns the endpoints of a generation of a changing service. The third octet identifies the service.
func changingIPs(i, generation int) [3]netip.Addr {
	var ips [3]netip.Addr
	for n := range ips {
		ips[n] = netip.AddrFrom4([4]byte{10, 120, byte(i), byte((generation*3+n)%250 + 1)})
	}
	return ips
}

const serviceImport = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: %[1]s, namespace: load}
spec: {type: %[2]s, ips: [%[3]s], ports: [{name: http, protocol: TCP, port: 80}]}
---
`

const endpointSlice = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: %[1]s-1
  namespace: load
  labels: {multicluster.kubernetes.io/service-name: %[1]s, multicluster.kubernetes.io/source-cluster: north}
addressType: IPv4
ports: [{name: http, protocol: TCP, port: 80}]
endpoints: [%[2]s]
---
`

func endpoints(ips ...netip.Addr) string {
	each := make([]string, len(ips))
	for i, ip := range ips {
		each[i] = fmt.Sprintf(`{"addresses": [%q], "conditions": {"ready": true}}`, ip)
	}
	return strings.Join(each, ", ")
}

// cluster is an API server with the test objects.
type cluster struct {
	plane  *kube.ControlPlane
	client kubernetes.Interface
	// generations are the last generation written of each changing service.
	generations [changing]atomic.Int64
}

// theCluster returns the cluster that all tests share. Each test has its own server.
func theCluster(t *testing.T) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts etcd and kube-apiserver")
	}
	started.Store(true)
	c, err := launch()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var (
	started atomic.Bool
	launch  = sync.OnceValues(newCluster)
)

// stopCluster stops the cluster if a test has started it.
func stopCluster() {
	if started.Load() {
		if c, _ := launch(); c != nil {
			c.plane.Stop()
		}
	}
}

func newCluster() (*cluster, error) {
	ctx := context.Background() // the cluster outlives the test that starts it
	plane, err := kube.Launch(ctx, filepath.Join(workDir, "cluster"), kube.WithProgress(os.Stderr))
	if err != nil {
		return nil, err
	}
	c := &cluster{plane: plane}
	config := rest.CopyConfig(plane.Config())
	config.QPS = -1
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return c, err
	}
	if err := plane.ApplyContext(ctx, append(kube.MCSCRDs(), crds.All()...)...); err != nil {
		return c, err
	}
	return c, plane.ApplyContext(ctx, objects())
}

// objects returns the manifests of all objects.
func objects() []byte {
	var all bytes.Buffer
	all.WriteString("{apiVersion: v1, kind: Namespace, metadata: {name: load}}\n---\n")
	add := func(name string, ips ...netip.Addr) {
		fmt.Fprintf(&all, serviceImport, name, "Headless", "")
		fmt.Fprintf(&all, endpointSlice, name, endpoints(ips...))
	}
	for i := range stable {
		fmt.Fprintf(&all, serviceImport, fmt.Sprintf("stable-%d", i), "ClusterSetIP", stableIP(i))
	}
	for i := range headless {
		add(fmt.Sprintf("headless-%d", i), headlessIPs(i, 10)...)
	}
	for i := range changing {
		ips := changingIPs(i, 0)
		add(fmt.Sprintf("changing-%d", i), ips[:]...)
	}
	add("large", headlessIPs(255, large)...)
	return all.Bytes()
}

// churn changes objects at a rate until the context ends, and returns how many changes it made. Each of its four writers has its
// own part of the services, so no service has two writers.
func (c *cluster) churn(ctx context.Context, perSecond int) (int, error) {
	const writers = 4
	var made atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for w := range writers {
		group.Go(func() error {
			pace := time.NewTicker(time.Second * writers / time.Duration(perSecond))
			defer pace.Stop()
			for i := w; ; i = (i + writers) % changing {
				select {
				case <-ctx.Done():
					return nil
				case <-pace.C:
				}
				if err := c.change(ctx, i); err != nil && ctx.Err() == nil {
					return err
				}
				made.Add(1)
			}
		})
	}
	err := group.Wait()
	return int(made.Load()), err
}

// change writes the next generation of a changing service's endpoints. The end of the context doesn't interrupt the write, so
// generations always has what was written.
func (c *cluster) change(ctx context.Context, i int) error {
	next := c.generations[i].Load() + 1
	ips := changingIPs(i, int(next))
	patch := fmt.Sprintf(`{"endpoints": [%s]}`, endpoints(ips[:]...))
	_, err := c.client.DiscoveryV1().EndpointSlices("load").Patch(context.WithoutCancel(ctx), fmt.Sprintf("changing-%d-1", i),
		types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err == nil {
		c.generations[i].Store(next)
	}
	return err
}

// every calls f at an interval until the context ends.
func every(ctx context.Context, interval time.Duration, wait *sync.WaitGroup, f func()) {
	wait.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				f()
			}
		}
	})
}
