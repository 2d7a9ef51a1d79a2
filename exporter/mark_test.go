package exporter

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
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
		cluster: "beijing", local: local, exports: serviceExports{local, mcs.Version("v1beta1")}, hub: hub, onHub: newFakeHub(hub),
		nodes: nodes.New(), names: newResolver(nil, nil), pass: newPass(),
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

// reconcilerOf returns a reconciler of beijing that has synced, and its caches of what is on the hub.
func reconcilerOf(t *testing.T, local client.WithWatch, hub client.Client) (r *reconciler, services, endpoints toolscache.Indexer) {
	t.Helper()
	onHub := newFakeHub(hub)
	r = &reconciler{
		cluster: "beijing", local: local, exports: serviceExports{local, mcs.Version("v1beta1")}, hub: hub, onHub: onHub,
		nodes: nodes.New(), names: newResolver(nil, nil), pass: newPass(),
		events: &events.FakeRecorder{}, ofPeers: rate.NewLimiter(rate.Inf, 0), perNamespace: DefaultMaxPerNamespace,
		synced: func() bool { return true }, unheard: func() error { return nil }, now: time.Now,
		withdrawals: newWithdrawalGuard(DefaultHoldWithdrawals, DefaultReplaceFor),
	}
	r.withdrawals.served = r.exports.served
	return r, onHub.services, onHub.endpoints
}
