//go:build !race

// These tests use a single goroutine. The race detector would find nothing and make them fifteen times slower. To run them: make
// test-bounds.

package importer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/topology"
)

// TestRandomChanges makes random changes of every kind to a service. After each, the reconciler that remembers leaves nothing to write for one
// without a memory.
func TestRandomChanges(t *testing.T) {
	const seeds, steps = 40, 50
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 13))
		options := Options{DataPath: []desired.DataPath{desired.DataPathPods, desired.DataPathPods, desired.DataPathClusterIPs, desired.DataPathNone}[r.IntN(4)]}
		options.Policy.MinReady = []int{0, 0, 2, 3}[r.IntN(4)]
		if r.IntN(4) == 0 {
			options.Policy.Boundary = topology.Region
		}
		c := &changes{rig: newRig(options), Rand: r}
		for range 8 {
			c.exported()
			c.endpoints()
		}
		var log []string
		for range steps {
			log = append(log, c.any())
			if r.IntN(3) == 0 {
				continue // several changes at once
			}
			c.reconcile(t)
			forgetful := *c.reconciler
			forgetful.memories = newMemories()
			c.here.writes = nil
			if _, err := forgetful.Reconcile(context.Background(), reconcile.Request{NamespacedName: web}); err != nil {
				t.Fatal(err)
			}
			if len(c.here.writes) > 0 {
				t.Fatalf("seed %d, %s, after %v: who remembers nothing writes %v", seed, options.DataPath, log[max(0, len(log)-8):], c.here.writes)
			}
		}
	}
}

// changes makes random changes.
type changes struct {
	*rig
	*rand.Rand
}

func (c *changes) cluster() string {
	return []string{"here", "c1", "c2", "c3", "c4", "c5"}[c.IntN(6)]
}

func (c *changes) zone() string { return fmt.Sprint("zone-", c.IntN(4)) }

// any makes one random change and describes it.
func (c *changes) any() string {
	switch c.IntN(22) {
	case 0, 1, 2, 3, 4, 5, 6:
		return c.endpoints()
	case 7, 8:
		return c.exported()
	case 9:
		return c.withdrawn()
	case 10, 11, 12:
		return c.member()
	case 13:
		return c.someNodes()
	case 14:
		return c.ownService()
	case 15, 16:
		return c.meddling()
	case 17:
		c.memories = newMemories()
		return "restart"
	case 18:
		for _, kind := range c.hub.all() {
			c.hub.put(kind)
		}
		return "relist"
	case 19:
		return c.setBack()
	default:
		step := []time.Duration{time.Second, 15 * time.Second, 2 * time.Hour}[c.IntN(3)]
		c.clock.Step(step)
		return "wait " + step.String()
	}
}

// endpoints changes or deletes a record of endpoints.
func (c *changes) endpoints() string {
	name, n := c.cluster(), c.IntN(2)
	e := endpointsOf(name, int(name[1]), n, 0)
	if c.IntN(6) == 0 {
		c.depart(e)
		return "no endpoints " + name
	}
	e.Spec.AddressType = discoveryv1.AddressTypeIPv4
	six := c.IntN(8) == 0
	if six {
		e.Spec.AddressType = discoveryv1.AddressTypeIPv6
	}
	for i := range c.IntN(5) {
		ready := c.IntN(4) > 0
		// A cluster's two records have some endpoints in common.
		address := fmt.Sprintf("10.%d.0.%d", name[1], 2*i+c.IntN(2)+1)
		if six {
			address = fmt.Sprintf("fd00:%d::%d", name[1], 2*i+c.IntN(2)+1)
		}
		if c.IntN(20) == 0 {
			address = "127.0.0.1"
		}
		endpoint := clustersetv1alpha1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
		if zone := c.zone(); c.IntN(3) == 0 {
			endpoint.Zone = &zone
		}
		if hostname := fmt.Sprint("web-", i); c.IntN(3) == 0 {
			endpoint.Hostname = &hostname
		}
		e.Spec.Endpoints = append(e.Spec.Endpoints, endpoint)
	}
	if c.IntN(3) == 0 {
		port, protocol, number := "metrics", corev1.ProtocolTCP, int32(9090)
		e.Spec.Ports = append(e.Spec.Ports, clustersetv1alpha1.EndpointPort{Name: &port, Protocol: &protocol, Port: &number})
	}
	if c.IntN(10) == 0 {
		e.Labels = nil
	}
	c.hub.put(e)
	return "endpoints " + name
}

func (c *changes) exported() string {
	name, kind := c.cluster(), mcsv1beta1.ClusterSetIP
	if c.IntN(3) == 0 {
		kind = mcsv1beta1.Headless
	}
	s := exportedBy(name, kind, int(name[1]))
	s.Spec.ExportedAt = metav1.NewTime(time.Unix(1.7e9+c.Int64N(1000), 0))
	switch c.IntN(6) {
	case 0:
		s.Spec.Ports = append(s.Spec.Ports, clustersetv1alpha1.ServicePort{Name: "metrics", Port: 9090})
	case 1:
		s.Spec.Ports[0].Port = 81
	case 2:
		s.Spec.Policy = &clustersetv1alpha1.ServicePolicy{Prefer: []string{"none", "cluster zone", "region"}[c.IntN(3)], MinReady: c.Int32N(4)}
	}
	c.hub.put(s)
	return fmt.Sprint("export ", name, " ", kind)
}

// withdrawn deletes an export, with or without its endpoints.
func (c *changes) withdrawn() string {
	name := c.cluster()
	for n := range 2 {
		if c.IntN(3) > 0 {
			c.depart(endpointsOf(name, 0, n, 0))
		}
	}
	c.depart(exportedBy(name, mcsv1beta1.ClusterSetIP, 0))
	return "no export " + name
}

func (c *changes) depart(o client.Object) {
	if c.IntN(3) > 0 {
		c.withdraw(o)
	} else {
		_ = c.hub.Delete(context.Background(), o) // or it is gone
	}
}

func (c *changes) member() string {
	m := memberAt(c.cluster(), c.zone())
	switch c.IntN(5) {
	case 0:
		m.Spec.Zones = append(m.Spec.Zones, c.zone())
	case 1:
		m.Spec.Drain = true
	case 2:
		m.Status.Phase = clustersetv1alpha1.MemberSuspect
	case 3:
		m.Status.Phase = clustersetv1alpha1.MemberExpired
	case 4:
		m.Spec.CIDRs = []string{fmt.Sprintf("10.%d.0.0/29", m.Name[1]), "10.200.0.0/16", "fd00::/8"}
	}
	c.hub.put(m)
	return "member " + m.Name
}

// someNodes adds or removes a node, or sometimes so many that there are more zones than an endpoint can have hints for.
func (c *changes) someNodes() string {
	n := 1
	if c.IntN(4) == 0 {
		n = 10
	}
	gone := c.IntN(2) == 0
	for i := range n {
		zone := c.zone()
		if n > 1 {
			zone = fmt.Sprint("zone-", i)
		}
		c.node(zone, gone)
	}
	return fmt.Sprint("nodes ", n, gone)
}

// ownService changes this cluster's own objects.
func (c *changes) ownService() string {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	svc.Spec.ClusterIPs = []string{fmt.Sprintf("10.99.0.%d", c.IntN(3)+1)}
	name, protocol, port := "http", corev1.ProtocolTCP, int32(8080)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web-", c.IntN(2)), Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}},
	}
	if c.IntN(4) == 0 {
		_ = c.here.Delete(context.Background(), svc)
		return "no own Service"
	}
	for i := range c.IntN(4) {
		node, ready := fmt.Sprint("n", c.IntN(3)), c.IntN(4) > 0
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.9.0.%d", i+1)}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	c.here.put(svc)
	c.here.put(slice)
	return "own Service"
}

// meddling changes or deletes one of the importer's objects, as another client might.
func (c *changes) meddling() string {
	all := c.here.all()
	o := all[c.IntN(len(all))]
	if !desired.Owned(o) {
		return "nothing"
	}
	did := "meddling with " + kindOf(o)
	if c.IntN(3) == 0 {
		_ = c.here.Delete(context.Background(), o)
		return did + ": deleted"
	}
	switch o := o.(type) {
	case *discoveryv1.EndpointSlice:
		if len(o.Endpoints) > 0 && c.IntN(2) == 0 {
			o.Endpoints[0].Addresses = []string{"10.66.66.66"}
		} else {
			delete(o.Labels, api.LabelKubernetesServiceName)
		}
	case *fabedgev1alpha1.GlobalService:
		if len(o.Spec.Endpoints) > 0 {
			o.Spec.Endpoints = o.Spec.Endpoints[1:]
		}
	default:
		o.SetLabels(map[string]string{api.LabelManagedBy: api.ManagedByImporter, "some": "label"})
	}
	c.here.put(o)
	return did
}

// setBack simulates a hub restored from a backup: a record has other content under the same resource version.
func (c *changes) setBack() string {
	for _, o := range c.hub.all() {
		if e, ok := o.(*clustersetv1alpha1.ExportedEndpoints); ok && len(e.Spec.Endpoints) > 0 {
			e.Spec.Endpoints = e.Spec.Endpoints[1:]
			c.hub.put(e)
			c.hub.get(e).SetResourceVersion(strings.Clone(e.ResourceVersion)) // as it is decoded
			return "set back"
		}
	}
	return "nothing"
}
