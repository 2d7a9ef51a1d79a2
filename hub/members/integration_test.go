package members_test

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/hub"
	"github.com/clusterset/clusterset/hub/members"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/hubtest"
	"github.com/clusterset/clusterset/test/kube"
)

// theirs are members of which somebody else made a part.
//
//go:embed testdata/theirs.yaml
var theirs string

// world is a new hub. Its hub process has only the rights of its role.
type world struct {
	*testing.T
	plane *kube.ControlPlane
	admin client.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, plane: kube.Start(t)}
	w.admin = hubtest.Admin(t, w.plane)
	hubtest.Run(t, hubtest.Account(t, w.plane, "hub", "hub-members"), func(mgr manager.Manager) error {
		return errors.Join(hub.Setup(mgr, hub.Options{}), members.Setup(mgr, w.plane.URL()))
	})
	return w
}

func (w *world) apply(manifest string) {
	w.Helper()
	w.plane.Apply(w, []byte(manifest))
}

// awaitJoined waits until the MemberCluster's condition Joined has that reason.
func (w *world) awaitJoined(name, reason string) {
	w.Helper()
	kube.Eventually(w, func() error {
		mc := &clustersetv1alpha1.MemberCluster{}
		if err := w.admin.Get(w.Context(), client.ObjectKey{Name: name}, mc); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionJoined); c == nil || c.Reason != reason {
			return fmt.Errorf("%s: want %s, got %+v", name, reason, c)
		}
		return nil
	})
}

// credentials returns a client that uses the credentials in a new member's Secret.
func (w *world) credentials(name string) client.Client {
	w.Helper()
	secret := &corev1.Secret{}
	if err := w.admin.Get(w.Context(), client.ObjectKey{Namespace: api.MemberNamespace(name), Name: api.HubSecret}, secret); err != nil {
		w.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[api.HubSecretKey])
	if err != nil {
		w.Fatal(err)
	}
	c, err := connect.NewClient(config)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// beat renews a member's Lease, as its agent would.
func (w *world) beat(name string, agent client.Client) {
	w.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(name), Name: api.HeartbeatLease}}
	err := client.IgnoreNotFound(agent.Get(w.Context(), client.ObjectKeyFromObject(lease), lease))
	lease.Spec.RenewTime = new(metav1.NowMicro())
	if err := errors.Join(err, agent.Update(w.Context(), lease)); err != nil {
		w.Fatalf("heartbeat of %s: %v", name, err)
	}
}

func (w *world) gone(o client.Object, namespace, name string) {
	w.Helper()
	kube.Eventually(w, func() error {
		if err := w.admin.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%T %s/%s is still there: %w", o, namespace, name, err)
		}
		return nil
	})
}

func (w *world) bound() []string {
	w.Helper()
	binding := &rbacv1.ClusterRoleBinding{}
	if err := w.admin.Get(w.Context(), client.ObjectKey{Name: api.MembersBinding}, binding); err != nil {
		w.Fatal(err)
	}
	var names []string
	for _, s := range binding.Subjects {
		names = append(names, s.Namespace)
	}
	return names
}

// kubectl apply of a MemberCluster adds a member. Deleting the MemberCluster deletes what was created for it, and nothing else.
func TestMembersByTheirMemberClusters(t *testing.T) {
	w := newWorld(t)
	in := api.MemberNamespace("beijing")
	w.apply(`{apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: beijing}, spec: {zone: cn-north-1a, cidrs: [10.1.0.0/16]}}`)
	w.awaitJoined("beijing", clustersetv1alpha1.ReasonCredentialsWait)
	agent := w.credentials("beijing")

	t.Run("the first heartbeat takes the Secret away", func(t *testing.T) {
		w := &world{t, w.plane, w.admin}
		kube.Eventually(t, func() error {
			return agent.List(t.Context(), &clustersetv1alpha1.ExportedServiceList{})
		})
		w.beat("beijing", agent)
		w.awaitJoined("beijing", clustersetv1alpha1.ReasonCredentialsTaken)
		w.gone(&corev1.Secret{}, in, api.HubSecret)
		networks := &corev1.ConfigMap{}
		kube.Eventually(t, func() error {
			err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: in, Name: api.NetworksConfigMap}, networks)
			if err != nil || networks.Data[api.NetworksKey] != "10.1.0.0/16" {
				return fmt.Errorf("networks %v, %w", networks.Data, err)
			}
			return nil
		})
	})

	t.Run("what is deleted comes back", func(t *testing.T) {
		for _, o := range []client.Object{
			&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: api.MemberRole}},
			&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: api.MemberRole}},
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: api.MemberClusterRole}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: api.MembersBinding}},
		} {
			if err := w.admin.Delete(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			kube.Eventually(t, func() error {
				w.beat("beijing", w.admin)
				return w.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o)
			})
		}
	})

	t.Run("deleting the account ends its tokens and gives new ones", func(t *testing.T) {
		w := &world{t, w.plane, w.admin}
		if err := w.admin.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: api.MemberServiceAccount}}); err != nil {
			t.Fatal(err)
		}
		w.awaitJoined("beijing", clustersetv1alpha1.ReasonCredentialsWait)
		if err := agent.List(t.Context(), &clustersetv1alpha1.ExportedServiceList{}); !apierrors.IsUnauthorized(err) {
			t.Errorf("the old token still counts: %v", err)
		}
		agent = w.credentials("beijing")
		w.beat("beijing", agent)
		w.awaitJoined("beijing", clustersetv1alpha1.ReasonCredentialsTaken)
	})

	t.Run("what is somebody else's isn't touched", func(t *testing.T) {
		w := &world{t, w.plane, w.admin}
		w.apply(theirs)
		for _, name := range []string{"theirs", "half"} {
			w.awaitJoined(name, clustersetv1alpha1.ReasonNotOurs)
			if bound := w.bound(); slices.Contains(bound, api.MemberNamespace(name)) {
				t.Errorf("somebody else's account may read: %v", bound)
			}
			mc := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if err := w.admin.Delete(t.Context(), mc); err != nil {
				t.Fatal(err)
			}
			w.gone(mc, "", name)
			for _, o := range []client.Object{&rbacv1.RoleBinding{}, &rbacv1.Role{}, &corev1.Secret{}} {
				w.gone(o, api.MemberNamespace(name), api.MemberRole)
			}
			if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: api.MemberNamespace(name), Name: api.MemberServiceAccount}, &corev1.ServiceAccount{}); err != nil {
				t.Errorf("somebody else's account: %v", err)
			}
		}
	})

	t.Run("join and leave work beside it", func(t *testing.T) {
		w := &world{t, w.plane, w.admin}
		if _, err := join.Join(t.Context(), join.At(w.plane.Config()), join.Options{Cluster: "lyon"}); err != nil {
			t.Fatal(err)
		}
		w.awaitJoined("lyon", clustersetv1alpha1.ReasonCredentialsTaken)
		w.gone(&corev1.Secret{}, api.MemberNamespace("lyon"), api.HubSecret)
		if _, err := join.Leave(t.Context(), join.At(w.plane.Config()), "lyon"); err != nil {
			t.Fatal(err)
		}
		if err := w.admin.Get(t.Context(), client.ObjectKey{Name: api.MemberClusterRole}, &rbacv1.ClusterRole{}); err != nil {
			t.Errorf("the others' role went with it: %v", err)
		}
		// join takes over what the hub process created.
		if _, err := join.Join(t.Context(), join.At(w.plane.Config()), join.Options{Cluster: "beijing", Rejoin: true}); err != nil {
			t.Error(err)
		}
	})

	t.Run("deleting the MemberCluster takes the member away", func(t *testing.T) {
		w := &world{t, w.plane, w.admin}
		mc := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing"}}
		if err := w.admin.Delete(t.Context(), mc); err != nil {
			t.Fatal(err)
		}
		w.gone(&corev1.ServiceAccount{}, in, api.MemberServiceAccount)
		w.gone(&rbacv1.RoleBinding{}, in, api.MemberRole)
		kube.Eventually(t, func() error {
			if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(mc), mc); err != nil || !meta.IsStatusConditionTrue(mc.Status.Conditions, clustersetv1alpha1.ConditionLeft) {
				return fmt.Errorf("%+v, %w", mc.Status, err)
			}
			if bound := w.bound(); slices.Contains(bound, in) {
				return fmt.Errorf("%v may still read", bound)
			}
			return nil
		})
		kube.Eventually(t, func() error {
			if err := agent.List(t.Context(), &clustersetv1alpha1.ExportedServiceList{}); !apierrors.IsUnauthorized(err) {
				return fmt.Errorf("its token still counts: %w", err)
			}
			return nil
		})
	})
}
