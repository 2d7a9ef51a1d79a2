package connectivity

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterset/clusterset/cli/objects"
)

// Ctrl-C while a namespace is being created leaves none behind.
func TestInterruptedCreation(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	all := fake.NewClientBuilder().Build()
	through := interceptor.NewClient(all, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
		interrupt()
		if err := c.Create(ctx, o, options...); err != nil {
			return err
		}
		return ctx.Err() // the answer of the API server doesn't reach who has gone
	}})
	test := &Test{Namespace: "probe", Clusters: []*Cluster{{Cluster: &objects.Cluster{Client: through}, Name: "beijing"}}}
	if _, err := test.Run(ctx); err == nil {
		t.Error("an interrupted test passed")
	}
	var namespaces corev1.NamespaceList
	if err := all.List(t.Context(), &namespaces); err != nil || len(namespaces.Items) != 0 {
		t.Errorf("it left %d namespaces, %v", len(namespaces.Items), err)
	}
}
