package exporter

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/nodes"
)

// A report costs the hub one question a minute while nothing in it changes. If somebody else changed or deleted it, it is written again within a
// minute, and at once after doubt. Rule C29 of docs/spec/control-plane.md.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		hub := fake.NewClientBuilder().WithScheme(connect.NewScheme()).Build()
		counting := interceptor.NewClient(hub, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				requests++
				return c.Get(ctx, key, o, opts...)
			},
		})
		follows := "a"
		r := &reporter{hub: counting, opts: Options{Cluster: "beijing", Version: "v1", HeartbeatInterval: 10 * time.Second, Nodes: nodes.New(), Report: func(_ context.Context, said *clustersetv1alpha1.MemberReportSpec) {
			said.Follows, said.Unreachable = follows, []string{}
		}}}
		report := &clustersetv1alpha1.MemberReport{}
		report.Namespace, report.Name = api.MemberNamespace("beijing"), clustersetv1alpha1.MemberReportName
		expect := func(what string, want int) {
			t.Helper()
			before := requests
			for range 50 {
				if err := r.bringUpToDate(t.Context()); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			if n := requests - before; n != want {
				t.Errorf("%s: the hub is asked %d times, want %d", what, n, want)
			}
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(report), report); err != nil || report.Spec.Follows != follows || report.Spec.AgentVersion != "v1" || report.Spec.Unreachable == nil || len(report.Annotations) > 0 {
				t.Errorf("%s: %+v, %v", what, report, err)
			}
		}
		expect("at first", 1)
		expect("nothing has changed", 0)
		follows = "b"
		expect("it follows a change", 1)
		change := func() {
			t.Helper()
			report.Spec.Follows, report.Annotations = "c", map[string]string{"a": "b"}
			if err := hub.Update(t.Context(), report); err != nil {
				t.Fatal(err)
			}
		}
		change()
		r.doubt()
		expect("somebody else changed it while the hub was away", 1)
		change()
		time.Sleep(time.Minute) //nolint:forbidigo // on the clock of synctest
		expect("a thief changed it", 1)
		if err := hub.Delete(t.Context(), report); err != nil {
			t.Fatal(err)
		}
		r.doubt()
		expect("the hub was emptied", 1)
	})
}
