package prober

import (
	"context"
	_ "embed"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/records"
)

//go:embed testdata/agents.yaml
var agents string

//go:embed testdata/apiserver.yaml
var apiServer string

// Rule D42 of docs/spec/data-path.md.
func TestAnnouncer(t *testing.T) {
	four, services := []string{"10.0.0.2:19471", "10.0.0.3:19471", "10.0.0.4:19471", "10.0.0.5:19471", "[fd00::2]:19471"}, []string{"10.1.9.9:9471", "[fd01::9]:9471"}
	own := types.NamespacedName{Namespace: "sys", Name: "agents"}
	for _, c := range []struct {
		name   string
		of     Announcer
		change func(*testing.T, client.Client)
		want   clustersetv1alpha1.MemberReportSpec
	}{
		{"at most four ready replicas of a family, and the Service", Announcer{Service: own}, nil, clustersetv1alpha1.MemberReportSpec{Beacons: four, BeaconServices: services}},
		{"neither a Service nor addresses: there are none", Announcer{}, nil, clustersetv1alpha1.MemberReportSpec{Beacons: []string{}}},
		{"a Service that there isn't", Announcer{Service: types.NamespacedName{Namespace: "sys", Name: "none"}}, nil, clustersetv1alpha1.MemberReportSpec{}},
		{"addresses instead", Announcer{Service: own, Addresses: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.7:443")}}, nil, clustersetv1alpha1.MemberReportSpec{Beacons: []string{"192.0.2.7:443"}}},
		{"none is ready: those known before stay", Announcer{Service: own}, func(t *testing.T, here client.Client) {
			t.Helper()
			if err := here.DeleteAllOf(t.Context(), &discoveryv1.EndpointSlice{}, client.InNamespace("sys")); err != nil {
				t.Fatal(err)
			}
		}, clustersetv1alpha1.MemberReportSpec{}},
		{"a headless Service has no address to state", Announcer{Service: own}, func(t *testing.T, here client.Client) {
			t.Helper()
			svc := &corev1.Service{}
			if err := here.Get(t.Context(), own, svc); err != nil {
				t.Fatal(err)
			}
			svc.Spec.ClusterIPs = []string{corev1.ClusterIPNone}
			if err := here.Update(t.Context(), svc); err != nil {
				t.Fatal(err)
			}
		}, clustersetv1alpha1.MemberReportSpec{Beacons: four, BeaconServices: []string{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			here := fake.NewClientBuilder().WithObjects(records.Decode(t, agents)...).Build()
			if c.change != nil {
				c.change(t, here)
			}
			c.of.Here = here
			var got clustersetv1alpha1.MemberReportSpec
			if c.of.Report(t.Context(), &got); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// Rule D44: this cluster's API server and the hub, however they are written, are not dialled.
func TestAvoid(t *testing.T) {
	away := false
	here := fake.NewClientBuilder().WithObjects(records.Decode(t, apiServer)...).WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
		if away {
			return errors.New("the cache has not started")
		}
		return c.List(ctx, l, opts...)
	}}).Build()
	avoid := Avoid(here, "https://192.0.2.1:6443", "https://[fd00::1]:6443", "192.0.2.3", "https://localhost:6443")
	all := []string{"192.0.2.1", "fd00::1", "192.0.2.3", "127.0.0.1", "10.96.0.1", "192.0.2.10", "192.0.2.11"}
	for _, away = range []bool{false, true} {
		want := all
		if away {
			want = all[:5]
		}
		got := avoid(t.Context())
		for _, w := range want {
			if !slices.ContainsFunc(got, func(a netip.Addr) bool { return a.Unmap() == netip.MustParseAddr(w) }) {
				t.Errorf("%s isn't among %v", w, got)
			}
		}
	}
}

// Rule D44: the hub is not dialled either if its name couldn't be resolved when the agent started. Its addresses stay while that fails.
func TestAvoidAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, away, asked := []netip.Addr{netip.MustParseAddr("192.0.2.1")}, true, 0
		known := avoid(func(context.Context, string, string) ([]netip.Addr, error) {
			asked++
			if away {
				return nil, errors.New("no such host")
			}
			return hub, nil
		}, fake.NewClientBuilder().Build(), "https://hub.example:6443")
		for i, step := range []struct {
			after time.Duration
			away  bool
			want  []netip.Addr
			asked int
		}{{0, true, nil, 1}, {time.Second, false, nil, 1}, {resolveEvery, false, hub, 2}, {resolveEvery, true, hub, 3}} {
			elapse(step.after)
			away = step.away
			if got := known(t.Context()); !slices.Equal(got, step.want) || asked != step.asked {
				t.Errorf("step %d: it avoids %v after %d questions", i, got, asked)
			}
		}
	})
}
