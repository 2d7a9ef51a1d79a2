package importer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
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
			m := &mirror{
				hub: hub, own: "beijing", local: &local{cache: here, live: here, client: here, echoes: newEchoes()}, report: newReporter(events.NewFakeRecorder(10), clock.RealClock{}),
			}
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

// A MemberCluster that can't be copied as it is takes neither health nor drain with it. Rule C48 of docs/spec/control-plane.md.
func TestInvalidMemberClusterIsCopiedAsFarAsPossible(t *testing.T) {
	there := &clustersetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "shanghai", UID: "3"},
		Spec:       clustersetv1alpha1.MemberClusterSpec{Region: "south", CIDRs: []string{"10.1.0.0/16", "10.2.0.1/16", "10.3.0.0/99"}, Drain: true},
		Status:     clustersetv1alpha1.MemberClusterStatus{Phase: clustersetv1alpha1.MemberExpired, AgentVersion: "v9"},
	}
	copied := &clustersetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "shanghai", UID: "4", Labels: desired.Labels()},
		Spec:       clustersetv1alpha1.MemberClusterSpec{Region: "north", CIDRs: []string{"10.1.0.0/16"}},
		Status:     clustersetv1alpha1.MemberClusterStatus{Phase: clustersetv1alpha1.MemberReady},
	}
	for _, c := range []struct {
		name    string
		here    []client.Object
		refuses func(*clustersetv1alpha1.MemberCluster) bool // whether the local API server refuses to store it
		forbids bool                                         // it does so because a policy says so
		spec    clustersetv1alpha1.MemberClusterSpec
		version string
	}{
		{
			"what is valid", nil, nil, false,
			clustersetv1alpha1.MemberClusterSpec{Region: "south", CIDRs: []string{"10.1.0.0/16", "10.2.0.0/16"}, Drain: true},
			"v9",
		},
		{
			"what is valid, over an earlier copy",
			[]client.Object{copied},
			nil, false,
			clustersetv1alpha1.MemberClusterSpec{Region: "south", CIDRs: []string{"10.1.0.0/16", "10.2.0.0/16"}, Drain: true},
			"v9",
		},
		{
			"what another CustomResourceDefinition takes", nil,
			func(m *clustersetv1alpha1.MemberCluster) bool {
				return m.Spec.Region == "south" || m.Status.AgentVersion != ""
			},
			false,
			clustersetv1alpha1.MemberClusterSpec{Drain: true},
			"",
		},
		{
			"what another CustomResourceDefinition takes, over an earlier copy",
			[]client.Object{copied},
			func(m *clustersetv1alpha1.MemberCluster) bool {
				return m.Spec.Region == "south" || m.Status.AgentVersion != ""
			},
			false,
			clustersetv1alpha1.MemberClusterSpec{Region: "north", CIDRs: []string{"10.1.0.0/16"}, Drain: true},
			"",
		},
		{
			"what a policy takes, over an earlier copy",
			[]client.Object{copied},
			func(m *clustersetv1alpha1.MemberCluster) bool {
				return m.Spec.Region == "south" || m.Status.AgentVersion != ""
			},
			true,
			clustersetv1alpha1.MemberClusterSpec{Region: "north", CIDRs: []string{"10.1.0.0/16"}, Drain: true},
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := func(o client.Object) error {
				if m, ok := o.(*clustersetv1alpha1.MemberCluster); ok && c.refuses != nil && c.refuses(m) {
					if c.forbids {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "memberclusters"}, m.Name, errors.New("no"))
					}
					return apierrors.NewInvalid(schema.GroupKind{Kind: "MemberCluster"}, m.Name, nil)
				}
				return nil
			}
			hub := fake.NewClientBuilder().WithScheme(testScheme).WithObjects(there, &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing", UID: "1"}}).Build()
			here := fake.NewClientBuilder().WithScheme(testScheme).WithStatusSubresource(&clustersetv1alpha1.MemberCluster{}).
				WithObjects(append(c.here, &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing", UID: "2"}})...).
				WithInterceptorFuncs(interceptor.Funcs{
					Create: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.CreateOption) error {
						if err := check(o); err != nil {
							return err
						}
						return to.Create(ctx, o, opts...)
					},
					Update: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
						if err := check(o); err != nil {
							return err
						}
						return to.Update(ctx, o, opts...)
					},
					SubResourceUpdate: func(ctx context.Context, to client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
						if err := check(o); err != nil {
							return err
						}
						return to.SubResource(sub).Update(ctx, o, opts...)
					},
				}).Build()
			m := &mirror{
				hub: hub, own: "beijing", local: &local{cache: here, live: here, client: here, echoes: newEchoes()}, report: newReporter(events.NewFakeRecorder(10), clock.RealClock{}),
			}
			if _, err := m.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "shanghai"}}); (err != nil) != (c.refuses != nil) {
				t.Errorf("refused: %v", err)
			}
			got := &clustersetv1alpha1.MemberCluster{}
			if err := here.Get(t.Context(), client.ObjectKey{Name: "shanghai"}, got); err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(got.Spec, c.spec) || got.Status.Phase != clustersetv1alpha1.MemberExpired || got.Status.AgentVersion != c.version {
				t.Errorf("the copy has %+v and %+v, want %+v", got.Spec, got.Status, c.spec)
			}
		})
	}
}

// A cluster that the hub lost is no longer waited for once a person deletes its copy here, as the Event advises.
func TestALostClusterThatIsGivenUpIsNotAwaited(t *testing.T) {
	member := func(cluster string, uid types.UID) *clustersetv1alpha1.MemberCluster {
		return &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster, UID: uid}}
	}
	left := member("shanghai", "3")
	left.DeletionTimestamp, left.Finalizers = &metav1.Time{Time: time.Now()}, []string{api.MemberFinalizer}
	for what, onHub := range map[string][]client.Object{"the hub doesn't know it": nil, "it has left": {left}} {
		m := &mirror{
			hub: fake.NewClientBuilder().WithScheme(testScheme).WithObjects(append(onHub, member("beijing", "1"))...).Build(),
			own: "beijing", report: newReporter(events.NewFakeRecorder(10), clock.RealClock{}),
		}
		here := fake.NewClientBuilder().WithScheme(testScheme).Build()
		m.local = &local{cache: here, live: here, client: here, echoes: newEchoes()}
		m.report.awaited("shanghai", true)
		if _, err := m.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "shanghai"}}); err != nil {
			t.Error(err)
		}
		if m.report.absent["shanghai"] {
			t.Errorf("%s: it is still waited for", what)
			m.report.awaited("shanghai", false)
		}
	}
}

// A MemberCluster that isn't our copy is told, as one that keeps a cluster from being followed, for as long as it is in the way.
func TestForeignMemberClusterIsTold(t *testing.T) {
	count := func() float64 { return metric(t, "clusterset_importer_foreign_objects", "kind", "MemberCluster") }
	member := func(name string, uid types.UID, labels map[string]string) *clustersetv1alpha1.MemberCluster {
		return &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, Labels: labels, Finalizers: []string{api.MemberFinalizer}}}
	}
	hub := fake.NewClientBuilder().WithScheme(testScheme).WithObjects(member("beijing", "1", nil), member("shanghai", "3", nil)).Build()
	here := fake.NewClientBuilder().WithScheme(testScheme).WithObjects(member("beijing", "2", desired.Labels()), member("shanghai", "4", nil)).Build()
	recorder := events.NewFakeRecorder(10)
	m := &mirror{
		hub: hub, own: "beijing", local: &local{cache: here, live: here, client: here, echoes: newEchoes()}, report: newReporter(recorder, clock.RealClock{}),
	}
	before := count()
	reconciled := func() {
		t.Helper()
		if _, err := m.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "shanghai"}}); err != nil {
			t.Fatal(err)
		}
	}
	reconciled()
	if count() != before+1 || len(recorder.Events) != 1 {
		t.Fatalf("%v foreign MemberClusters, %d Events", count()-before, len(recorder.Events))
	}
	if said := <-recorder.Events; !strings.Contains(said, "don't follow what the hub says of cluster shanghai, but this object, which") {
		t.Error(said)
	}
	if err := hub.Delete(t.Context(), member("shanghai", "3", nil)); err != nil {
		t.Fatal(err)
	}
	reconciled()
	if count() != before {
		t.Errorf("%v foreign MemberClusters after the cluster has left", count()-before)
	}
}
