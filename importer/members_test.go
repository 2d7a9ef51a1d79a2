package importer

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/importer/effective"
)

// In the cluster that is also the hub, one cache may still contain a MemberCluster that a leave has deleted while the other
// cache no longer does. It must not be created again. In another cluster, the same state means a MemberCluster that is yet
// to be copied. Rule C37 of docs/spec/control-plane.md.
func TestWhatLeftTheHubIsNotMadeAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		here types.UID // UID of our own MemberCluster, empty if there is none yet
		made bool
		wait bool
	}{
		{"this cluster is the hub", "1", false, false},
		{"it is another", "2", true, false},
		{"not known yet", "", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			member := func(name string, uid types.UID) *clustersetv1alpha1.MemberCluster {
				return &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
			}
			hub := fake.NewClientBuilder().WithScheme(testScheme).WithObjects(member("beijing", "1"), member("shanghai", "3")).Build()
			builder := fake.NewClientBuilder().WithScheme(testScheme).WithStatusSubresource(&clustersetv1alpha1.MemberCluster{})
			if c.here != "" {
				builder = builder.WithObjects(member("beijing", c.here))
			}
			here := builder.Build()
			m := mirrorOf("beijing", hub, here)
			result, err := m.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "shanghai"}})
			if err != nil || (result.RequeueAfter > 0) != c.wait {
				t.Errorf("%+v, %v", result, err)
			}
			err = here.Get(t.Context(), client.ObjectKey{Name: "shanghai"}, &clustersetv1alpha1.MemberCluster{})
			if client.IgnoreNotFound(err) != nil || apierrors.IsNotFound(err) == c.made {
				t.Errorf("made: %v, %v", !apierrors.IsNotFound(err), err)
			}
		})
	}
}

// What is invalid in a MemberCluster is left out of its copy, and so is what others don't need. If this API server refuses it all the same, an earlier
// copy still follows the cluster's health. Rule C48 of docs/spec/control-plane.md.
func TestInvalidMemberClusterIsCopiedAsFarAsPossible(t *testing.T) {
	there := &clustersetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "shanghai", UID: "3"},
		Spec:       clustersetv1alpha1.MemberClusterSpec{CIDRs: []string{"10.1.0.0/16", "10.2.0.1/16", "10.3.0.0/99"}, Drain: true},
		Status:     clustersetv1alpha1.MemberClusterStatus{Phase: clustersetv1alpha1.MemberExpired, ExportedServices: new(int32(7))},
	}
	copied := &clustersetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "shanghai", UID: "4", Labels: desired.Labels()},
		Spec:       clustersetv1alpha1.MemberClusterSpec{Region: "north"},
		Status:     clustersetv1alpha1.MemberClusterStatus{Phase: clustersetv1alpha1.MemberReady},
	}
	valid := clustersetv1alpha1.MemberClusterSpec{CIDRs: []string{"10.1.0.0/16", "10.2.0.0/16"}, Drain: true}
	own := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing", UID: "1"}}
	for name, c := range map[string]struct {
		here   []client.Object
		refuse error
		want   clustersetv1alpha1.MemberClusterSpec
	}{
		"a new copy":          {nil, nil, valid},
		"an earlier copy":     {[]client.Object{copied}, nil, valid},
		"it is refused":       {[]client.Object{copied}, apierrors.NewInvalid(schema.GroupKind{Kind: "MemberCluster"}, "shanghai", nil), copied.Spec},
		"a policy forbids it": {[]client.Object{copied}, apierrors.NewForbidden(schema.GroupResource{}, "shanghai", errors.New("no")), copied.Spec},
	} {
		hub := fake.NewClientBuilder().WithScheme(testScheme).WithObjects(there, own).Build()
		here := fake.NewClientBuilder().WithScheme(testScheme).WithStatusSubresource(there).WithObjects(append(c.here, &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing", UID: "2"}})...).
			WithInterceptorFuncs(interceptor.Funcs{Update: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if c.refuse != nil {
					return c.refuse
				}
				return to.Update(ctx, o, opts...)
			}}).Build()
		m := mirrorOf("beijing", hub, here)
		if _, err := m.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "shanghai"}}); (err != nil) != (c.refuse != nil) {
			t.Errorf("%s: %v", name, err)
		}
		got := &clustersetv1alpha1.MemberCluster{}
		if err := here.Get(t.Context(), client.ObjectKey{Name: "shanghai"}, got); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(got.Spec, c.want) || got.Status.Phase != clustersetv1alpha1.MemberExpired || got.Status.ExportedServices != nil {
			t.Errorf("%s: the copy has %+v and %+v, want %+v", name, got.Spec, got.Status, c.want)
		}
	}
}

func mirrorOf(cluster string, hub, here client.Client) *mirror {
	return &mirror{
		cluster: cluster, hub: copies{hub}, local: &local{cache: here, live: here, client: here}, report: &reporter{events.NewFakeRecorder(10), newMemories()},
	}
}

// A copy goes if the MemberCluster that it was made of says that the cluster has left. While that is missing, or another one says so, as in a
// backup of the hub, it stays and says that the hub has lost it, until somebody deletes it. Rule C44 of docs/spec/control-plane.md.
func TestWhatTheHubDoesNotHaveStays(t *testing.T) {
	of := func(cluster string, uid types.UID, change ...func(*clustersetv1alpha1.MemberCluster)) *clustersetv1alpha1.MemberCluster {
		m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster, UID: uid}}
		for _, c := range change {
			c(m)
		}
		return m
	}
	left := func(m *clustersetv1alpha1.MemberCluster) { m.SetLeft(time.Unix(1e9, 0)) }
	copied := func(m *clustersetv1alpha1.MemberCluster) {
		m.Labels, m.Annotations = desired.Labels(), map[string]string{api.AnnotationHubUID: "3"}
	}
	joined := func(m *clustersetv1alpha1.MemberCluster) {
		m.Annotations[api.AnnotationJoined] = "2026-01-01T00:00:00Z"
	}
	const gone, stays, lost = "gone", "stays", "lost"
	for what, c := range map[string]struct {
		cluster   string
		hub, here *clustersetv1alpha1.MemberCluster
		want      string
		gone      bool // as importers see it
	}{
		"it left":                                {"shanghai", of("shanghai", "3", left), of("shanghai", "4", copied, joined), gone, true},
		"an earlier one left":                    {"shanghai", of("shanghai", "2", left), of("shanghai", "4", copied, joined), lost, false},
		"it is missing":                          {"shanghai", nil, of("shanghai", "4", copied, joined), lost, false},
		"it is missing, and was only described":  {"shanghai", nil, of("shanghai", "4", copied), gone, false},
		"it is missing, and the copy is deleted": {"shanghai", nil, nil, gone, true},
		"it left, and the copy is deleted":       {"shanghai", of("shanghai", "2", left), nil, gone, true},
		"it is a user's here":                    {"shanghai", nil, of("shanghai", "4"), stays, true},
		"it left this cluster, which is the hub": {"shanghai", of("shanghai", "3", left), of("shanghai", "3", left), stays, true},
		"it is here":                             {"shanghai", of("shanghai", "3"), of("shanghai", "4", copied, joined), stays, false},
		"this cluster is missing":                {"beijing", nil, of("beijing", "4", copied, joined), lost, false},
		"this cluster left":                      {"beijing", of("beijing", "3", left), of("beijing", "4", copied, joined), stays, true},
	} {
		if is := effective.Gone(c.hub, c.here); is != c.gone {
			t.Errorf("%s: gone: %v", what, is)
		}
		objects := func(o *clustersetv1alpha1.MemberCluster) *fake.ClientBuilder {
			b := fake.NewClientBuilder().WithScheme(testScheme).WithStatusSubresource(&clustersetv1alpha1.MemberCluster{})
			if o != nil {
				b.WithObjects(o)
			}
			return b
		}
		here := objects(c.here).Build()
		m := mirrorOf("beijing", objects(c.hub).Build(), here)
		for range 2 {
			if _, err := m.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: c.cluster}}); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		is, got := stays, &clustersetv1alpha1.MemberCluster{}
		if err := here.Get(t.Context(), client.ObjectKey{Name: c.cluster}, got); apierrors.IsNotFound(err) {
			is = gone
		} else if meta.IsStatusConditionFalse(got.Status.Conditions, clustersetv1alpha1.ConditionOnHub) {
			is = lost
		}
		if is != c.want {
			t.Errorf("%s: the copy %s, want %s", what, is, c.want)
		}
	}
}
