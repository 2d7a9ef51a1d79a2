package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/connect"
)

// smallHub is a hub to which beijing exports shop/web.
func smallHub() *objects.Cluster {
	export := &clustersetv1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: api.ExportedServiceName("shop", "web")}}
	export.Labels = map[string]string{api.LabelExportedNamespace: "shop", api.LabelExportedName: "web"}
	export.Spec.ServiceNamespace, export.Spec.ServiceName, export.Spec.Type, export.Spec.ExportedAt = "shop", "web", "Headless", metav1.NewTime(time.Unix(1e9, 0))
	return &objects.Cluster{What: "hub", Client: fake.NewClientBuilder().WithScheme(connect.NewScheme()).
		WithIndex(&coordinationv1.Lease{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
		WithObjects(memberIn("beijing", clustersetv1alpha1.MemberReady, false), export).Build()}
}

// The hub that is asked for is shown though the cluster of the current context can't be read. That fails only if that cluster was chosen.
func TestTheHubIsShownWithoutTheCurrentContext(t *testing.T) {
	down := &objects.Cluster{What: "cluster", Client: fake.NewClientBuilder().WithScheme(connect.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no route to host")
		},
	}).Build()}
	for _, chosen := range []string{"", "beijing"} {
		s := statusCommand{output: output{format: "table"}}
		s.context = chosen
		var out strings.Builder
		err := s.show(t.Context(), &out, func(ctx context.Context) (view.Facts, error) { return s.look(ctx, down, smallHub(), nil) })
		if !strings.Contains(out.String(), "beijing") || !strings.Contains(out.String(), "only the hub is read: the cluster at : no route to host") {
			t.Errorf("--context %q: %v\n%s", chosen, err, out.String())
		}
		if failed := err != nil && strings.Contains(err.Error(), "no route to host"); failed != (chosen != "") {
			t.Errorf("--context %q: %v", chosen, err)
		}
	}
}

// A cluster that is the hub is read as the hub.
func TestServicesOfTheHubReadAsACluster(t *testing.T) {
	list, err := servicesOf(t.Context(), smallHub(), nil)
	if err != nil || len(list) != 1 || list[0].Name != "web" || len(list[0].ExportedBy) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}
