package exporter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/records"
)

// While the cache is behind a hub that is back, the agent asks the hub a few times and not five times a second, and as soon as the cache
// has what the hub had, not at all. Rule C70 of docs/spec/control-plane.md.
func TestReturningHubIsSeldomListed(t *testing.T) {
	record := &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: "web.shop", UID: "1"},
		Spec:       clustersetv1alpha1.ExportedServiceSpec{ServiceNamespace: "shop", ServiceName: "web"},
	}
	for _, c := range []struct {
		name     string
		caughtUp time.Duration // when the cache has the hub's records
		lists    int           // of each kind
	}{
		{"the cache isn't behind", 0, 1},
		{"its watch brings the record", 900 * time.Millisecond, 1},
		{"it stays behind", time.Hour, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lists := 0
				hub := fake.NewClientBuilder().WithScheme(records.Scheme).WithObjects(record.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{
					List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
						lists++
						return c.List(ctx, list, opts...)
					},
				}).Build()
				cached := fake.NewClientBuilder().WithScheme(records.Scheme).Build()
				if c.caughtUp == 0 {
					cached = fake.NewClientBuilder().WithScheme(records.Scheme).WithObjects(record.DeepCopy()).Build()
				} else {
					behind, full := cached, fake.NewClientBuilder().WithScheme(records.Scheme).WithObjects(record.DeepCopy()).Build()
					began := time.Now()
					cached = interceptor.NewClient(behind, interceptor.Funcs{
						List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
							if time.Since(began) >= c.caughtUp {
								return full.List(ctx, list, opts...)
							}
							return behind.List(ctx, list, opts...)
						},
					})
				}
				r := &reconciler{cluster: "beijing", hub: cached, live: hub}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				err := r.current(ctx)
				if behind := c.caughtUp > 5*time.Second; errors.Is(err, errBehind) != behind || err != nil && !behind {
					t.Errorf("got %v", err)
				}
				if lists < 2 || lists > 2*c.lists {
					t.Errorf("the hub was listed %d times, want at most %d of each kind", lists, c.lists)
				}
			})
		})
	}
}

// While an agent was cut off, somebody else wrote records under its name: one of a namespace that its watches leave out, and one without the label
// by which they select. It finds both as soon as its watches haven't brought them.
// Rule C9 of docs/spec/control-plane.md.
func TestOwnRecordsOutsideTheSelectionAreFoundAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foreign := func(name, label string) *clustersetv1alpha1.ExportedService {
			s := &clustersetv1alpha1.ExportedService{
				ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: name + ".elsewhere", UID: types.UID(name)},
				Spec:       clustersetv1alpha1.ExportedServiceSpec{ServiceNamespace: "elsewhere", ServiceName: name},
			}
			if label != "" {
				s.Labels = map[string]string{api.LabelExportedNamespace: label}
			}
			return s
		}
		hub := fake.NewClientBuilder().WithScheme(records.Scheme).WithObjects(foreign("labelled", "elsewhere"), foreign("hidden", "")).Build()
		unseen := make(chan struct{}, 1)
		selected := client.MatchingLabels{api.LabelExportedNamespace: "shop"}
		cached := interceptor.NewClient(hub, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
				if err := c.Get(ctx, key, o); err != nil {
					return err
				}
				if label := o.GetLabels()[api.LabelExportedNamespace]; label != selected[api.LabelExportedNamespace] {
					return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
				}
				return nil
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				select {
				case <-unseen:
					selected[api.LabelExportedNamespace] = "elsewhere"
				default:
				}
				return c.List(ctx, list, append(options, selected)...)
			},
		})
		r := &reconciler{cluster: "beijing", hub: cached, live: hub, unseen: unseen}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := r.current(ctx); err != nil {
			t.Fatal(err)
		}
		var found clustersetv1alpha1.ExportedServiceList
		if err := cached.List(ctx, &found); err != nil || len(found.Items) != 2 {
			t.Errorf("%d records are in the cache, %v", len(found.Items), err)
		}
	})
}

// The clusters' turns are spread over the whole time, also if their names are alike.
func TestPhasesAreSpread(t *testing.T) {
	var tenths [10]int
	for i := range 250 {
		tenths[int(phaseOf(nth(i).Name)*10)]++
	}
	for i, n := range tenths {
		if n < 10 || n > 40 {
			t.Errorf("%d of 250 clusters have their turn in tenth %d: %v", n, i, tenths)
		}
	}
}
