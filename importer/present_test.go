package importer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/namespaces"
)

// The heartbeat says which namespaces are here, looked for once a minute, unless a missing one says nothing (C77 of
// docs/spec/control-plane.md).
func TestHeartbeatSaysWhichNamespacesAreHere(t *testing.T) {
	named := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	c := fake.NewClientBuilder().WithObjects(named("default")).Build()
	var h present
	if _, known := h.digest(t.Context(), time.Now()); known {
		t.Error("known before it began")
	}
	h.begin(c, Options{ExcludeNamespaces: namespaces.System})
	began := time.Now()
	lacks := func(after time.Duration) bool {
		t.Helper()
		digest, known := h.digest(t.Context(), began.Add(after))
		if !known {
			t.Error("not known")
		}
		return clustersetv1alpha1.ParseNamespaces(digest).Lack("shop")
	}
	if !lacks(0) {
		t.Error("shop is here")
	}
	if err := c.Create(t.Context(), named("shop")); err != nil {
		t.Fatal(err)
	}
	if !lacks(time.Minute-1) || lacks(time.Minute) {
		t.Error("not looked for once a minute")
	}
	for _, o := range []Options{{ExcludeNamespaces: namespaces.System, CreateNamespaces: true}, {IncludeNamespaces: []string{"a"}, ExcludeNamespaces: namespaces.System}, {ExcludeNamespaces: []string{"shop-*"}}} {
		var h present
		h.begin(c, o)
		if digest, known := h.digest(t.Context(), began); digest != "" || !known {
			t.Errorf("%+v: says %q", o, digest)
		}
	}
}
