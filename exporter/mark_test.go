package exporter

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
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
	r := &reconciler{
		cluster: "beijing", local: local, exports: exports{local, mcs.Version("v1beta1")}, hub: fake.NewClientBuilder().WithScheme(scheme).Build(),
		nodes: &nodeUsers{nodes: nodes.New(), of: sets.New[types.NamespacedName]()}, names: newNames(nil, nil), pass: newPass(),
		events: &events.FakeRecorder{}, conflicts: newConflicts(), synced: func() bool { return false }, unheard: func() error { return errNotSynced },
	}
	result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: web})
	if err != nil || result.RequeueAfter != retryRefused {
		t.Errorf("%+v, %v", result, err)
	}
	refusal = nil
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: web}); err != nil {
		t.Error(err)
	}
	if export, err := r.exports.get(t.Context(), web); err != nil || export == nil {
		t.Errorf("%v, %v", export, err)
	}
}
