package join_test

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

// The Secret is installed, updated and removed. A renewal doesn't make it again, and someone else's stays.
func TestTheSecretInAMember(t *testing.T) {
	ctx, c := t.Context(), fake.NewClientBuilder().WithScheme(connect.NewScheme()).Build()
	key := types.NamespacedName{Namespace: api.SystemNamespace, Name: api.HubSecret}
	secret := &corev1.Secret{}
	for _, content := range []string{"first", "second"} {
		if err := join.InstallSecret(ctx, c, key, "beijing", []byte(content)); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(ctx, key, secret); err != nil || string(secret.Data[api.HubSecretKey]) != content {
			t.Fatalf("%q, %v", secret.Data, err)
		}
	}
	if err := join.RemoveSecret(ctx, c, key); err != nil {
		t.Error(err)
	}
	if err := (connect.SecretStore{Client: c, Key: key}).Save(ctx, "", []byte("renewed")); err == nil {
		t.Error("a renewal made the Secret of a cluster that has left")
	}
	if err := c.Get(ctx, key, secret); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret is left: %v", err)
	}
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := errors.Join(c.Create(ctx, theirs), join.RemoveSecret(ctx, c, key), c.Get(ctx, key, theirs)); err != nil {
		t.Errorf("someone else's: %v", err)
	}
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

const foreignProperty = `{apiVersion: about.k8s.io/v1beta1, kind: ClusterProperty, metadata: {name: clusterset.k8s.io}, spec: {value: theirs}}`

// If a member has the kind, its ClusterProperties contain its name and the set's name from join to leave.
func TestClusterProperties(t *testing.T) {
	t.Parallel()
	plane := kube.Start(t)
	ctx := t.Context()
	member := newClient(t, plane.Config())
	if err := join.WriteProperties(ctx, member, "beijing", "china"); err != nil {
		t.Errorf("without their CRD: %v", err)
	}
	if err := join.RemoveProperties(ctx, member); err != nil {
		t.Errorf("without their CRD: %v", err)
	}
	crd, err := os.ReadFile("testdata/clusterproperties.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plane.Apply(t, crd)
	check := func(what string, want map[string]string) {
		t.Helper()
		all := &unstructured.UnstructuredList{}
		all.SetAPIVersion("about.k8s.io/v1beta1")
		all.SetKind("ClusterPropertyList")
		if err := member.List(ctx, all); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, p := range all.Items {
			got[p.GetName()], _, _ = unstructured.NestedString(p.Object, "spec", "value")
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	write := func(cluster, set string) {
		t.Helper()
		if err := join.WriteProperties(ctx, member, cluster, set); err != nil {
			t.Error(err)
		}
	}
	member = newClient(t, plane.Config()) // the first client has cached that the kind doesn't exist
	write("beijing", "china")
	check("after a join", map[string]string{"cluster.clusterset.k8s.io": "beijing", "clusterset.k8s.io": "china"})
	write("beijing", "") // like the agent, which doesn't know the set's name
	check("after a start of the agent", map[string]string{"cluster.clusterset.k8s.io": "beijing", "clusterset.k8s.io": "china"})
	write("tianjin", "china")
	check("after a join under another name", map[string]string{"cluster.clusterset.k8s.io": "tianjin", "clusterset.k8s.io": "china"})
	if err := join.RemoveProperties(ctx, member); err != nil {
		t.Error(err)
	}
	check("after a leave", map[string]string{})

	plane.Apply(t, []byte(foreignProperty))
	if err := join.WriteProperties(ctx, member, "", "china"); err == nil || !strings.Contains(err.Error(), `it says "theirs", not "china"; clusterset didn't create it`) {
		t.Errorf("somebody else's property: %v", err)
	}
	write("beijing", "theirs")
	if err := join.RemoveProperties(ctx, member); err != nil {
		t.Error(err)
	}
	check("somebody else's stays", map[string]string{"clusterset.k8s.io": "theirs"})
}
