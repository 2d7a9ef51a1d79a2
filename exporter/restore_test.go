package exporter

import (
	"context"
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/join"
)

// The cache still has what the hub had before it was restored from a backup.
func TestRestore(t *testing.T) {
	scheme := join.NewScheme()
	db := exported(slice("db-1", 1))
	db.Key.Name, db.Service.Name, db.Export.Name = "db", "db", "db"
	api2 := exported(slice("api-1", 1))
	api2.Key.Name, api2.Service.Name, api2.Export.Name = "api", "api", "api"
	web := stored(t, desired(exported(slice("web-1", 1), slice("web-2", 1))))
	other, changed := stored(t, desired(db)), stored(t, desired(api2))
	cached := []client.Object{
		web.Service, &web.Endpoints[0], &web.Endpoints[1], other.Service, &other.Endpoints[0], changed.Service, &changed.Endpoints[0],
	}
	web.Service.Annotations = map[string]string{api.AnnotationWithdrawn: "true"}
	var created []string
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cached...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			if o.GetResourceVersion() != "" || len(o.GetAnnotations()) > 0 || len(o.GetLabels()) == 0 {
				t.Errorf("created with %+v", o)
			}
			created = append(created, o.GetName())
			return nil
		},
	}).Build()
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(web.Endpoints[0].DeepCopy(), other.Service.DeepCopy(), other.Endpoints[0].DeepCopy()).Build()
	r := &reconciler{cluster: "beijing", hub: hub}
	r.backlog.note(types.NamespacedName{Namespace: api2.Key.Namespace, Name: "api"}, true)
	if err := r.restore(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	if want := []string{web.Endpoints[1].Name, web.Service.Name}; !slices.Equal(created, want) {
		t.Errorf("created %v, want %v", created, want)
	}
	away := errors.New("no route")
	down := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return away },
	}).Build()
	if created = nil; !errors.Is(r.restore(t.Context(), down), away) || len(created) > 0 {
		t.Errorf("the hub doesn't answer: created %v", created)
	}
}
