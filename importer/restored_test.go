package importer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// Somebody else changes a slice as soon as it is written. It is restored at once, then once a second, and what the hub changes isn't delayed. Rule
// C79 of docs/spec/control-plane.md.
func TestWhatOthersChangeIsRestoredOnceASecond(t *testing.T) {
	t.Run("with a GlobalService", func(t *testing.T) { restoredOnceASecond(t, newRig(Options{DataPath: desired.DataPathPods})) })
	t.Run("without", func(t *testing.T) {
		restoredOnceASecond(t, newRig(Options{DataPath: desired.DataPathPods, SkipGlobalServices: true}))
	})
	t.Run("with somebody else's", func(t *testing.T) {
		g := newRig(Options{DataPath: desired.DataPathPods})
		g.here.put(&fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}})
		restoredOnceASecond(t, g)
	})
}

// A Service of this cluster is extended, and isn't any more; its own pods become ready, and fail; all at once. That is no fight. Rules C79 of
// docs/spec/control-plane.md, D60 and D64 of docs/spec/data-path.md.
func TestWhatTheOwnServiceAsksForIsNotDelayed(t *testing.T) {
	g := newRig(Options{DataPath: desired.DataPathPods, ExtendEverywhere: true})
	exported := exportedBy("shanghai", mcsv1beta1.ClusterSetIP, 1)
	exported.Spec.Policy = &clustersetv1alpha1.ServicePolicy{MinReady: 2}
	g.hub.put(memberAt("shanghai", "zone-1"))
	g.hub.put(exported)
	g.hub.put(endpointsOf("shanghai", 1, 0, 1))
	asks := func(extend string) { g.here.put(extendedWeb(extend)) }
	ready := func(own ...string) {
		s := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: web.Namespace, Name: "web-own", Labels: map[string]string{discoveryv1.LabelServiceName: web.Name}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](8080)}},
		}
		for _, addr := range own {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{addr}})
		}
		g.here.put(s)
	}
	uses := func(want string) {
		t.Helper()
		if _, err := g.Reconcile(t.Context(), reconcile.Request{NamespacedName: web}); err != nil {
			t.Fatal(err)
		}
		got := "none"
		for _, o := range g.here.of(&discoveryv1.EndpointSlice{}).List() {
			if s := o.(*discoveryv1.EndpointSlice); desired.Extends(s) {
				got = map[bool]string{true: "shared", false: "last resort"}[*s.Endpoints[0].Conditions.Ready]
			}
		}
		if got != want {
			t.Errorf("other clusters' endpoints behind the own Service: %s, want %s", got, want)
		}
	}
	for range 3 {
		asks("true")
		uses("shared")
		ready("10.0.0.1", "10.0.0.2")
		uses("last resort")
		ready("10.0.0.1")
		uses("shared")
		asks("false")
		uses("none")
	}
}

// Writes that failed are repeated. Nobody is suspected, until somebody does change what is written. Rule C79 of docs/spec/control-plane.md.
func TestFailuresAreNoFight(t *testing.T) {
	for _, c := range []struct {
		name   string
		refuse string // the API server refuses changes of this kind at first
	}{{"all is written", ""}, {"the Service is refused at first", "Service"}, {"slices are refused at first", "EndpointSlice"}} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(Options{DataPath: desired.DataPathPods})
			ctx, said := listen(t, g.report)
			g.hub.put(memberAt("shanghai", "zone-1"))
			service, endpoints := exportedBy("shanghai", mcsv1beta1.ClusterSetIP, 1), endpointsOf("shanghai", 1, 0, 1)
			settle := func() (failed bool) {
				for range 5 {
					_, err := g.Reconcile(ctx, reconcile.Request{NamespacedName: web})
					failed = failed || err != nil
					g.clock.Step(restoreEvery)
				}
				return failed
			}
			for _, name := range []string{"http", "a", "b", "c", "d"} {
				service, endpoints = service.DeepCopy(), endpoints.DeepCopy()
				service.Spec.Ports[0].Name, endpoints.Spec.Ports[0].Name = name, &name
				g.hub.put(service)
				g.hub.put(endpoints)
				if c.refuse != "" && name != "http" {
					g.local.client = refusing{g.here, c.refuse}
					if !settle() {
						t.Fatal("nothing was refused")
					}
					g.local.client = g.here
				}
				settle()
				if g.here.get(derivedOf(web)).(*corev1.Service).Spec.Ports[0].Name != name {
					t.Fatalf("port %s isn't there", name)
				}
			}
			settle()
			const suspicion = "Somebody else keeps changing"
			if n, _ := said.take(suspicion); n > 0 {
				t.Error("somebody is suspected of the renames")
			}
			for range 3 {
				theirs := g.here.get(derivedOf(web)).DeepCopyObject().(*corev1.Service)
				theirs.Spec.Ports[0].Port = 81
				g.here.put(theirs)
				settle()
			}
			if n, _ := said.take(suspicion); n != 1 {
				t.Errorf("%d lines about somebody who does", n)
			}
		})
	}
}

func derivedOf(service types.NamespacedName) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: api.DerivedServiceName(service.Namespace, service.Name)}}
}

func restoredOnceASecond(t *testing.T, g *rig) {
	g.hub.put(memberAt("shanghai", "zone-1"))
	g.hub.put(exportedBy("shanghai", mcsv1beta1.ClusterSetIP, 1))
	g.hub.put(endpointsOf("shanghai", 1, 0, 1))
	g.reconcile(t)
	g.here.writes = nil

	slice := func() *discoveryv1.EndpointSlice {
		t.Helper()
		all := g.here.of(&discoveryv1.EndpointSlice{}).List()
		if len(all) != 1 {
			t.Fatalf("%d slices", len(all))
		}
		return all[0].(*discoveryv1.EndpointSlice).DeepCopy()
	}
	tamper := func() {
		t.Helper()
		if s := slice(); s.Endpoints[0].Addresses[0] != "192.0.2.1" {
			s.Endpoints[0].Addresses = []string{"192.0.2.1"}
			g.here.put(s)
		}
	}
	var again time.Duration
	pass := func() {
		t.Helper()
		result, err := g.Reconcile(t.Context(), reconcile.Request{NamespacedName: web})
		if err != nil {
			t.Fatal(err)
		}
		again = result.RequeueAfter
	}
	is := func(what, address string) {
		t.Helper()
		if got := slice().Endpoints[0].Addresses[0]; got != address {
			t.Errorf("%s: the slice has %s, want %s", what, got, address)
		}
	}
	const tenths = 100
	for range tenths {
		tamper()
		pass()
		g.clock.Step(time.Second / 10)
	}
	if n := len(g.here.writes); n != tenths/10 {
		t.Errorf("%d writes in %d s:\n%s", n, tenths/10, strings.Join(g.here.writes, "\n"))
	}
	tamper()
	pass()
	g.clock.Step(time.Second / 10)
	tamper()
	pass()
	is("a tenth of a second later", "192.0.2.1")
	if again <= 0 || again > restoreEvery {
		t.Fatalf("it is restored after %s", again)
	}
	changed := endpointsOf("shanghai", 1, 0, 1)
	changed.Spec.Endpoints[0].Addresses = []string{"10.1.0.7"}
	g.hub.put(changed)
	pass()
	is("the hub has another address", "10.1.0.7")
	tamper()
	pass()
	g.clock.Step(again)
	pass()
	is("when it was due", "10.1.0.7")
}

// refusing is an API server that refuses every change of objects of a kind.
type refusing struct {
	*shelf
	kind string
}

func (r refusing) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if kindOf(o) == r.kind {
		return apierrors.NewForbidden(schema.GroupResource{Resource: r.kind}, o.GetName(), errors.New("no"))
	}
	return r.shelf.Update(ctx, o, opts...)
}
