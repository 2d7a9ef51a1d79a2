package join_test

import (
	"cmp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

func TestWhatIsPutIntoAMember(t *testing.T) {
	t.Parallel()
	member := kube.Start(t)
	ctx := t.Context()
	c := newClient(t, member.Config())
	key := types.NamespacedName{Namespace: api.SystemNamespace, Name: api.HubSecret}
	kubeconfigIn := func() string {
		secret := &corev1.Secret{}
		if err := c.Get(ctx, key, secret); err != nil {
			return err.Error()
		}
		return string(secret.Data[api.HubSecretKey])
	}

	t.Run("the Secret is installed, updated and removed", func(t *testing.T) {
		for _, content := range []string{"first", "second"} {
			if err := join.InstallSecret(ctx, c, key, "beijing", []byte(content)); err != nil || kubeconfigIn() != content {
				t.Fatalf("%q, %v", kubeconfigIn(), err)
			}
		}
		if err := join.RemoveSecret(ctx, c, key); err != nil {
			t.Error(err)
		}
		if err := c.Get(ctx, key, &corev1.Secret{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Secret is left: %v", err)
		}
		if err := (connect.SecretStore{Client: c, Key: key}).Save(ctx, "", []byte("renewed")); err == nil {
			t.Error("a renewal made the Secret of a cluster that has left")
		}
	})
	t.Run("someone else's Secret stays", func(t *testing.T) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		if err := c.Create(ctx, secret); err != nil {
			t.Fatal(err)
		}
		if err := join.RemoveSecret(ctx, c, key); err != nil {
			t.Error(err)
		}
		if err := c.Get(ctx, key, secret); err != nil {
			t.Error(err)
		}
	})
}

// Where the hub moves away from a cluster that is a member too, that cluster has no copy of its MemberCluster, but the old hub's own.
func TestRejoinOfTheOldHubKeepsTheAgeOfItsExports(t *testing.T) {
	created, said := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	joined := map[string]string{api.AnnotationJoined: said.Format(time.RFC3339)}
	for name, c := range map[string]struct {
		mc   metav1.ObjectMeta
		left bool
		want time.Time
	}{
		"a copy":              {metav1.ObjectMeta{Annotations: joined}, false, said},
		"the hub's":           {metav1.ObjectMeta{Finalizers: []string{api.MemberFinalizer}}, false, created},
		"the hub's, rejoined": {metav1.ObjectMeta{Finalizers: []string{api.MemberFinalizer}, Annotations: joined}, false, said},
		"it has left":         {metav1.ObjectMeta{Finalizers: []string{api.MemberFinalizer}}, true, time.Time{}},
		"only described":      {metav1.ObjectMeta{}, false, time.Time{}},
		"another's":           {metav1.ObjectMeta{Name: "shanghai", Annotations: joined}, false, time.Time{}},
	} {
		c.mc.Name, c.mc.CreationTimestamp = cmp.Or(c.mc.Name, "beijing"), metav1.NewTime(created)
		mc := &clustersetv1alpha1.MemberCluster{ObjectMeta: c.mc}
		if c.left {
			mc.SetLeft(created)
		}
		member := fake.NewClientBuilder().WithScheme(connect.NewScheme()).WithObjects(mc).Build()
		o := join.Options{Cluster: "beijing"}
		if err := o.Recall(t.Context(), member); err != nil || !o.Joined.Equal(c.want) {
			t.Errorf("%s: %v, %v, want %v", name, o.Joined, err, c.want)
		}
	}
}
