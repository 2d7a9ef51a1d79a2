package join_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

// newHub starts a bare API server with our CRDs, which is all that a hub needs.
func newHub(t *testing.T) (*kube.ControlPlane, client.Client) {
	t.Helper()
	t.Parallel()
	hub := kube.Start(t)
	if err := join.InstallHubCRDs(t.Context(), join.At(hub.Config())); err != nil {
		t.Fatal(err)
	}
	return hub, newClient(t, hub.Config())
}

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := connect.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustJoin(t *testing.T, hub *kube.ControlPlane, o join.Options) []byte {
	t.Helper()
	kubeconfig, err := join.Join(t.Context(), join.At(hub.Config()), o)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func configOf(t *testing.T, kubeconfig []byte) *rest.Config {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

func record(cluster string) *clustersetv1alpha1.ExportedService {
	return &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: "web.shop"},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: "shop", ServiceName: "web",
			Type: mcsv1beta1.ClusterSetIP, ExportedAt: metav1.Now(),
		},
	}
}

// recordOn returns the record on the hub.
func recordOn(t *testing.T, admin client.Client) *clustersetv1alpha1.ExportedService {
	t.Helper()
	r := record("beijing")
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestJoinMakesAMemberAndLeaveUndoesIt(t *testing.T) {
	hub, admin := newHub(t)
	ctx := t.Context()
	kubeconfig := mustJoin(t, hub, join.Options{Cluster: "beijing", Spec: clustersetv1alpha1.MemberClusterSpec{Zone: "cn-north-1a", Region: "cn-north-1"}})

	mc := &clustersetv1alpha1.MemberCluster{}
	if err := admin.Get(ctx, types.NamespacedName{Name: "beijing"}, mc); err != nil || mc.Spec.Zone != "cn-north-1a" || mc.Spec.Region != "cn-north-1" {
		t.Errorf("MemberCluster %+v, %v", mc.Spec, err)
	}
	member := newClient(t, configOf(t, kubeconfig))
	if err := member.Create(ctx, record("beijing")); err != nil {
		t.Errorf("the member can't export: %v", err)
	}

	t.Run("a name in use is refused", func(t *testing.T) {
		if _, err := join.Join(ctx, join.At(hub.Config()), join.Options{Cluster: "beijing", Spec: clustersetv1alpha1.MemberClusterSpec{Zone: "elsewhere"}}); !errors.Is(err, join.ErrNameInUse) {
			t.Errorf("got %v", err)
		}
		if err := admin.Get(ctx, types.NamespacedName{Name: "beijing"}, mc); err != nil || mc.Spec.Zone != "cn-north-1a" {
			t.Errorf("the refused join changed the MemberCluster: %+v, %v", mc.Spec, err)
		}
		if err := admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.MemberNamespace("lyon")}}); err != nil {
			t.Fatal(err)
		}
		if _, err := join.Join(ctx, join.At(hub.Config()), join.Options{Cluster: "lyon"}); !errors.Is(err, join.ErrNameInUse) {
			t.Errorf("with its namespace there: %v", err)
		}
	})
	t.Run("rejoin takes it up", func(t *testing.T) {
		again := mustJoin(t, hub, join.Options{Cluster: "beijing", Spec: clustersetv1alpha1.MemberClusterSpec{Region: "cn-north-2"}, Rejoin: true})
		if err := newClient(t, configOf(t, again)).List(ctx, &clustersetv1alpha1.ExportedServiceList{}); err != nil {
			t.Error(err)
		}
		if err := admin.Get(ctx, types.NamespacedName{Name: "beijing"}, mc); err != nil || mc.Spec.Zone != "cn-north-1a" || mc.Spec.Region != "cn-north-2" {
			t.Errorf("MemberCluster %+v, %v", mc.Spec, err)
		}
	})
	t.Run("leave undoes all", func(t *testing.T) {
		// The member tries to stay by adding a finalizer.
		stay := recordOn(t, admin)
		stay.Finalizers = []string{"example.com/stay"}
		if err := member.Update(ctx, stay); err != nil {
			t.Fatal(err)
		}
		found, err := join.Leave(ctx, join.At(hub.Config()), "beijing")
		if err != nil || !found {
			t.Fatalf("found %v, %v", found, err)
		}
		for _, gone := range []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "clusterset-member-beijing"}},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "clusterset-member-beijing", Name: api.MemberServiceAccount}},
			&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "clusterset-member-beijing", Name: api.MemberRole}},
			&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "clusterset-member-beijing", Name: api.MemberRole}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "clusterset-member-beijing"}},
			record("beijing"),
		} {
			if err := admin.Get(ctx, client.ObjectKeyFromObject(gone), gone); !apierrors.IsNotFound(err) {
				t.Errorf("%T %s is still there: %v", gone, client.ObjectKeyFromObject(gone), err)
			}
		}
		if err := admin.Get(ctx, types.NamespacedName{Name: "beijing"}, mc); err != nil || !mc.Left() {
			t.Errorf("the MemberCluster doesn't say that the cluster has left: %+v, %v", mc.ObjectMeta, err)
		}
		kube.Eventually(t, func() error { // the API server caches checked tokens for some seconds
			if err := member.List(ctx, &clustersetv1alpha1.ExportedServiceList{}); !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) {
				return errors.New("the member's token still works")
			}
			return nil
		})
		if found, err := join.Leave(ctx, join.At(hub.Config()), "beijing"); err != nil || !found {
			t.Errorf("leaving again: found %v, %v", found, err)
		}
		mustJoin(t, hub, join.Options{Cluster: "beijing"})
		mc = &clustersetv1alpha1.MemberCluster{}
		if err := admin.Get(ctx, types.NamespacedName{Name: "beijing"}, mc); err != nil || mc.Left() {
			t.Errorf("after joining again: %+v, %v", mc.ObjectMeta, err)
		}
	})
	t.Run("an account that somebody else has made since stays", func(t *testing.T) {
		mustJoin(t, hub, join.Options{Cluster: "nice"})
		theirs := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "clusterset-member-nice", Name: api.MemberServiceAccount}}
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "clusterset-member-nice"}}
		if err := errors.Join(admin.Delete(ctx, theirs.DeepCopy()), admin.Create(ctx, theirs)); err != nil {
			t.Fatal(err)
		}
		if err := admin.Patch(ctx, space, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"clusterset.dev/managed-by":null}}}`))); err != nil {
			t.Fatal(err)
		}
		if found, err := join.Leave(ctx, join.At(hub.Config()), "nice"); err != nil || !found {
			t.Fatalf("found %v, %v", found, err)
		}
		if err := admin.Get(ctx, client.ObjectKeyFromObject(theirs), theirs); err != nil || theirs.DeletionTimestamp != nil {
			t.Errorf("somebody else's account: %v", err)
		}
	})
	t.Run("what a deleted MemberCluster said is taken over", func(t *testing.T) {
		was := clustersetv1alpha1.MemberClusterSpec{
			Zone: "cn-north-1a", Zones: []string{"cn-north-1b"}, Region: "cn-north-1", Drain: true, Weight: ptr.To(int32(7)), CIDRs: []string{"10.1.0.0/16"},
			Network: "core", ExternalCIDRs: []string{"192.0.2.0/24"}, Communities: []string{"default", "payments"},
		}
		again := join.Options{Cluster: "beijing", Spec: clustersetv1alpha1.MemberClusterSpec{Region: "cn-north-2"}, Rejoin: true}
		want := was
		want.Region = "cn-north-2"
		for _, how := range []string{"it has left", "the hub has lost it"} {
			if err := admin.Get(ctx, types.NamespacedName{Name: "beijing"}, mc); err != nil {
				t.Fatal(err)
			}
			mc.Spec = was
			if err := errors.Join(admin.Update(ctx, mc), admin.Delete(ctx, mc)); err != nil {
				t.Fatal(err)
			}
			o := again
			if how == "the hub has lost it" {
				o.Previous = was // Recall reads it in the member
				if err := admin.Patch(ctx, mc, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
					t.Fatal(err)
				}
			}
			mustJoin(t, hub, o)
			if err := admin.Get(ctx, types.NamespacedName{Name: "beijing"}, mc); err != nil || !reflect.DeepEqual(mc.Spec, want) {
				t.Errorf("%s: %+v, %v, want %+v", how, mc.Spec, err, want)
			}
		}
	})
}

// Its hub process would take away what the cluster had, but may not have run since, and then takes it for the new member's.
// Rule C25 of docs/spec/control-plane.md, S12 of docs/security.md.
func TestJoinUnderTheNameOfOneThatLeftWhileNoHubProcessRan(t *testing.T) {
	hub, admin := newHub(t)
	ctx := t.Context()
	old := newClient(t, configOf(t, mustJoin(t, hub, join.Options{Cluster: "beijing"})))
	kept := record("beijing") // it tries to stay by adding a finalizer
	kept.Finalizers = []string{"example.com/stay"}
	heartbeat := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: api.HeartbeatLease}}
	report := &clustersetv1alpha1.MemberReport{ObjectMeta: metav1.ObjectMeta{Namespace: heartbeat.Namespace, Name: clustersetv1alpha1.MemberReportName}}
	if err := errors.Join(old.Create(ctx, kept), old.Update(ctx, heartbeat), old.Create(ctx, report)); err != nil {
		t.Fatal(err)
	}
	mc := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing"}}
	if err := admin.Delete(ctx, mc); err != nil {
		t.Fatal(err)
	}

	current := newClient(t, configOf(t, mustJoin(t, hub, join.Options{Cluster: "beijing"})))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: api.HeartbeatLease}}
	for _, gone := range []client.Object{record("beijing"), lease, report} {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(gone), gone); !apierrors.IsNotFound(err) {
			t.Errorf("the new member has the old one's %T: %v", gone, err)
		}
	}
	if err := admin.Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil || mc.Left() {
		t.Errorf("MemberCluster %+v, %v", mc.ObjectMeta, err)
	}
	kube.Eventually(t, func() error { // the API server caches checked tokens for some seconds
		if err := old.List(ctx, &clustersetv1alpha1.ExportedServiceList{}); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("the old token still works: %w", err)
		}
		return nil
	})
	if err := current.Create(ctx, record("beijing")); err != nil {
		t.Errorf("the new member can't export: %v", err)
	}
}

// All members share a ClusterRole. Each join creates it if it doesn't exist.
func TestManyJoinAtOnce(t *testing.T) {
	hub, _ := newHub(t)
	var group errgroup.Group
	for i := range 20 {
		group.Go(func() error {
			_, err := join.Join(t.Context(), join.At(hub.Config()), join.Options{Cluster: fmt.Sprintf("c%d", i)})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// What a finalizer keeps of a member that leaves has no address that somebody else may get. Rules C85 of docs/spec/control-plane.md and
// D71 of docs/spec/data-path.md.
func TestTracesThatStayLeadNowhere(t *testing.T) {
	member := kube.Start(t)
	for range 2 { // the second time they exist already
		if err := join.InstallMemberCRDs(t.Context(), join.At(member.Config())); err != nil {
			t.Fatal(err)
		}
	}
	member.Apply(t, []byte(`
apiVersion: v1
kind: Service
metadata: {namespace: default, name: derived-x, labels: {clusterset.dev/managed-by: importer}}
spec: {clusterIP: 10.96.0.77, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {namespace: default, name: taken, labels: {clusterset.dev/managed-by: importer, clusterset.dev/extends: taken}}
spec: {ports: [{port: 80}], selector: {app: theirs}}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {namespace: default, name: web, labels: {clusterset.dev/managed-by: importer}, finalizers: [example.com/hold]}
spec: {type: ClusterSetIP, ips: [10.96.0.77], ports: [{port: 80}]}
`))
	c := newClient(t, member.Config())
	if err := errors.Join(mcsv1beta1.Install(c.Scheme()), join.RemoveTraces(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
	imp := &mcsv1beta1.ServiceImport{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, imp); err != nil || imp.DeletionTimestamp == nil || len(imp.Spec.IPs) > 0 {
		t.Errorf("the ServiceImport, deleted at %v, leads to %v: %v", imp.DeletionTimestamp, imp.Spec.IPs, err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "derived-x"}, &corev1.Service{}); !apierrors.IsNotFound(err) {
		t.Errorf("the derived Service: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "taken"}, &corev1.Service{}); err != nil {
		t.Errorf("a Service that somebody took: %v", err)
	}
}
