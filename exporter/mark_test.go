package exporter

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/mcs"
	"github.com/clusterset/clusterset/internal/nodes"
)

// A ServiceExport that a mark asks for and that the member refuses, for example because of a quota, is tried again. Rule C1 of
// docs/spec/control-plane.md.
func TestARefusedMarkIsTriedAgain(t *testing.T) {
	scheme := connect.NewScheme()
	if err := mcs.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	refusal := error(apierrors.NewForbidden(runtimeschema.GroupResource{Resource: "serviceexports"}, web.Name, errors.New("exceeded quota")))
	local := fake.NewClientBuilder().WithScheme(scheme).WithObjects(service(func(s *corev1.Service) {
		s.Labels = map[string]string{api.KeyGlobalService: "true"}
	})).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if refusal != nil {
				return refusal
			}
			return c.Create(ctx, o, opts...)
		},
	}).Build()
	hub := fake.NewClientBuilder().WithScheme(scheme).Build()
	r := &reconciler{
		cluster: "beijing", local: local, exports: exports{local, mcs.Version("v1beta1")}, hub: hub, onHub: newFakeHub(hub),
		nodes: nodes.New(), names: newNames(nil, nil), pass: newPass(),
		events: &events.FakeRecorder{}, ofPeers: rate.NewLimiter(rate.Inf, 0), synced: func() bool { return false }, unheard: func() error { return errNotSynced },
	}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: web}); !errors.Is(err, refusal) {
		t.Errorf("it isn't tried again after %v", err)
	}
	refusal = nil
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: web}); err != nil {
		t.Error(err)
	}
	if export, err := r.exports.get(t.Context(), web); err != nil || export == nil {
		t.Errorf("%v, %v", export, err)
	}
}

// While a mark's ServiceExport can't be created, because the kind is gone or going or a webhook is down, what is on the hub stays and follows the
// Service. Rule C7 of docs/spec/control-plane.md.
func TestMarkedServicesFollowWhileTheirKindIsGone(t *testing.T) {
	kind := runtimeschema.GroupResource{Group: mcsv1beta1.GroupName, Resource: "serviceexports"}
	for _, c := range []struct {
		name   string
		answer error
		held   bool
	}{
		{"gone", apierrors.NewGenericServerResponse(http.StatusNotFound, "post", kind, "", "404 page not found", 0, true), true},
		{"going", apierrors.NewForbidden(kind, web.Name, errors.New("create not allowed while custom resource definition is terminating")), true},
		{"a webhook is down", apierrors.NewInternalError(errors.New("failed calling webhook")), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				scheme := connect.NewScheme()
				if err := mcs.AddToScheme(scheme); err != nil {
					t.Fatal(err)
				}
				now := slice("web-1", 3)
				now.Namespace = web.Namespace
				svc := service(func(s *corev1.Service) { s.Labels = map[string]string{api.KeyGlobalService: "true"} })
				local := fake.NewClientBuilder().WithScheme(scheme).WithObjects(svc, &now).
					WithIndex(&now, indexSlices, func(client.Object) []string { return []string{web.Name} }).
					WithInterceptorFuncs(interceptor.Funcs{
						Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return c.answer },
					}).Build()
				before := desired(Source{Cluster: "beijing", Key: web, Service: svc, Export: export(), Slices: []discoveryv1.EndpointSlice{slice("web-1", 2)}})
				hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(before.Service, &before.Endpoints[0]).Build()
				r, cache, endpoints := reconcilerOf(t, local, hub)
				for began := time.Now(); time.Since(began) < time.Hour; elapse(maxBackoff) {
					var services clustersetv1alpha1.ExportedServiceList
					var all clustersetv1alpha1.ExportedEndpointsList
					if err := errors.Join(hub.List(t.Context(), &services), hub.List(t.Context(), &all)); err != nil {
						t.Fatal(err)
					}
					for i := range services.Items {
						_ = cache.Update(&services.Items[i])
					}
					for i := range all.Items {
						_ = endpoints.Update(&all.Items[i])
					}
					_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: web})
					if !errors.Is(err, c.answer) {
						t.Fatalf("the mark isn't tried again after %v", err)
					}
				}
				service := before.Service.DeepCopy()
				if err := hub.Get(t.Context(), client.ObjectKeyFromObject(service), service); err != nil || !service.Exports() {
					t.Errorf("withdrawn, %v", err)
				}
				got := before.Endpoints[0].DeepCopy()
				if err := hub.Get(t.Context(), client.ObjectKeyFromObject(got), got); err != nil || len(got.Spec.Endpoints) != 3 {
					t.Errorf("%d endpoints are on the hub, want 3; %v", len(got.Spec.Endpoints), err)
				}
				if held := r.states.get(web).counted.state == stateHeld; held != c.held {
					t.Errorf("held: %t", held)
				}
			})
		})
	}
}

// reconcilerOf returns a reconciler of beijing that has synced, and its caches of what is on the hub.
func reconcilerOf(t *testing.T, local client.WithWatch, hub client.Client) (r *reconciler, services, endpoints toolscache.Indexer) {
	t.Helper()
	onHub := newFakeHub(hub)
	r = &reconciler{
		cluster: "beijing", local: local, exports: exports{local, mcs.Version("v1beta1")}, hub: hub, onHub: onHub,
		nodes: nodes.New(), names: newNames(nil, nil), pass: newPass(),
		events: &events.FakeRecorder{}, ofPeers: rate.NewLimiter(rate.Inf, 0), perNamespace: DefaultMaxPerNamespace,
		synced: func() bool { return true }, unheard: func() error { return nil }, now: time.Now,
		withdrawals: newWithdrawalGuard(DefaultHoldWithdrawals, DefaultReplaceFor),
	}
	r.withdrawals.served = r.exports.served
	return r, onHub.services, onHub.endpoints
}
