package retention

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/records"
)

// TestMayDelete uses a hub whose cache knows this member, and whose API server's answers vary. Rules C40 and C41 of
// docs/spec/control-plane.md.
func TestMayDelete(t *testing.T) {
	member := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing"}}
	var down, refuses error
	asked := 0
	hub := fake.NewClientBuilder().WithScheme(records.Scheme).WithObjects(member).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			asked++
			if down != nil {
				return down
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if !slices.Contains(opts, client.CreateOption(client.DryRunAll)) {
				t.Errorf("%T was written to the hub", o)
			}
			if _, ok := o.(*clustersetv1alpha1.ExportedEndpoints); ok {
				return refuses
			}
			return nil
		},
	}).Build()
	cached := fake.NewClientBuilder().WithScheme(records.Scheme).WithObjects(member.DeepCopy()).Build()
	now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	exported := make(chan struct{})
	var said []string
	trust := &HubTrust{Cache: cached, Live: hub, Records: hub, Cluster: "beijing", Clock: now, Exported: exported, Changed: func(_ context.Context, err error) {
		if err == nil {
			said = append(said, "complete")
		} else {
			said = append(said, "incomplete")
		}
	}}

	check := func(what, want string, asks int) {
		t.Helper()
		asked = 0
		err := trust.MayDelete(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
		if asked != asks {
			t.Errorf("%s: asked %d times, want %d", what, asked, asks)
		}
	}
	later := func() { now.SetTime(now.Now().Add(2 * trustFor)) }
	check("our own exports are on their way", "aren't on the hub yet", 0)
	close(exported)
	check("it knows us", "", 1)
	check("it did just now", "", 0)
	later()
	down = errors.New("connection refused")
	check("it is down", "connection refused", 1)
	check("it is still down", "connection refused", 0)
	later()
	check("and still", "connection refused", 1)
	down = nil
	later()
	check("it is back", "", 1)
	for _, harmless := range []error{
		apierrors.NewForbidden(schema.GroupResource{}, "probe", errors.New("exceeded quota")),
		apierrors.NewInvalid(schema.GroupKind{}, "probe", nil),
	} {
		refuses = harmless
		later()
		check("it has rules of its own", "", 1)
	}
	for _, lost := range []error{
		apierrors.NewForbidden(schema.GroupResource{Resource: "exportedendpoints"}, "probe", errors.New("create not allowed while custom resource definition is terminating")), // the kind is being deleted
		apierrors.NewGenericServerResponse(http.StatusNotFound, "post", schema.GroupResource{}, "", "404 page not found", 0, true),
	} {
		refuses = lost
		later()
		check("it takes no endpoints", "accepts no ExportedEndpoints", 1)
		refuses = nil
		later()
		check("it does again", "other members may not have restored theirs", 1)
		now.SetTime(now.Now().Add(30 * time.Second))
		down = errors.New("connection refused")
		check("it is cut off meanwhile, so that nothing restored arrives", "connection refused", 1)
		now.SetTime(now.Now().Add(time.Hour))
		check("for long", "connection refused", 1)
		down = nil
		later()
		check("its caches may not have caught up", "other members may not have restored theirs", 1)
		now.SetTime(now.Now().Add(57 * time.Second))
		check("most of a minute later", "counts as un-exported", 1)
		now.SetTime(now.Now().Add(time.Second))
		check("a minute later", "", 1)
		later()
		down = errors.New("connection refused")
		check("it is down again", "connection refused", 1)
		down = nil
		later()
		check("that was no loss", "", 1)
	}
	if err := hub.Delete(t.Context(), member); err != nil {
		t.Fatal(err)
	}
	later()
	check("it came back empty, which the cache hasn't heard of", "has no MemberCluster beijing", 1)
	if err := cached.Delete(t.Context(), member.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	check("the cache has heard", "has no MemberCluster beijing", 0)
	if want := []string{"incomplete", "complete", "incomplete", "complete", "incomplete", "complete", "incomplete", "complete", "incomplete", "complete", "incomplete"}; !slices.Equal(said, want) {
		t.Errorf("it said %v, want %v: each once", said, want)
	}
}
