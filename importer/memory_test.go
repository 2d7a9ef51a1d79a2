package importer

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/importer/desired"
)

// Somebody else changes a slice as soon as it is written. It is restored twenty times at once, and then five times a second; what the hub changes is
// written with it. Rule C79 of docs/spec/control-plane.md.
func TestWhatOthersChangeIsRestoredFiveTimesASecond(t *testing.T) {
	g := newRig(Options{DataPath: desired.DataPathPods})
	g.hub.put(memberAt("shanghai", "zone-1"))
	g.hub.put(exportedBy("shanghai", mcsv1beta1.ClusterSetIP, 1))
	g.hub.put(endpointsOf("shanghai", 1, 0, 1))
	g.reconcile(t)
	g.clock.Step(time.Minute)
	g.here.writes = nil
	tampered := func() (again time.Duration) {
		t.Helper()
		s := g.here.of(&discoveryv1.EndpointSlice{}).List()[0].(*discoveryv1.EndpointSlice).DeepCopy()
		s.Endpoints[0].Addresses = []string{"192.0.2.1"}
		g.here.put(s)
		result, err := g.Reconcile(t.Context(), reconcile.Request{NamespacedName: web})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	const seconds = 10
	for range seconds * 20 {
		tampered()
		g.clock.Step(time.Second / 20)
	}
	if n, want := len(g.here.writes), writesAtOnce+seconds*5; n < want-1 || n > want {
		t.Errorf("%d writes in %d s, want %d", n, seconds, want)
	}
	changed := endpointsOf("shanghai", 1, 0, 1)
	changed.Spec.Endpoints[0].Addresses = []string{"10.1.0.7"}
	g.hub.put(changed)
	for again := tampered(); again > 0; again = tampered() {
		g.clock.Step(again)
	}
	if is := g.here.of(&discoveryv1.EndpointSlice{}).List()[0].(*discoveryv1.EndpointSlice).Endpoints[0].Addresses[0]; is != "10.1.0.7" {
		t.Errorf("the slice has %s", is)
	}
}

func derivedOf(service types.NamespacedName) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: api.DerivedServiceName(service.Namespace, service.Name)}}
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
