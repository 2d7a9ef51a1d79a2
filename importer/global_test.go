package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// A field that isn't compared would never be updated.
func TestEveryFieldOfAnEndpointIsCompared(t *testing.T) {
	text, no := "x", false
	full := fabedgev1alpha1.Endpoint{
		Addresses: []string{"10.0.0.1"}, Hostname: &text, TargetRef: &corev1.ObjectReference{}, Cluster: "c", Zone: "z", Region: "r", Ready: &no,
		Ports: []fabedgev1alpha1.EndpointPort{{Name: "http"}},
	}
	all := reflect.ValueOf(full)
	for i := range all.NumField() {
		var one fabedgev1alpha1.Endpoint
		reflect.ValueOf(&one).Elem().Field(i).Set(all.Field(i))
		if all.Field(i).IsZero() || sameEndpoint(one, fabedgev1alpha1.Endpoint{}) {
			t.Errorf("%s is not compared", all.Type().Field(i).Name)
		}
	}
	if n := reflect.TypeFor[fabedgev1alpha1.GlobalServiceSpec]().NumField(); n != 3 {
		t.Errorf("isGlobal knows three fields of the spec, which has %d", n)
	}
}

// A rollout changes a headless service's endpoints one after another. The service's GlobalService contains all of them and is only
// written occasionally, but the last state is always written. EndpointSlices, and everything that isn't an endpoint, are written at once.
// Rule D28 of docs/spec/data-path.md.
func TestLargeGlobalServicesAreWrittenNowAndThen(t *testing.T) {
	const changes, each = 250, 50 * time.Millisecond
	for _, c := range []struct{ clusters, endpoints, most int }{
		{10, 100, 14},         // 1,000 endpoints: one write per second for 12.5 s
		{41, 100, 5},          // more than a GlobalService can keeper: one write per 4.1 s
		{2, 100, changes + 1}, // few endpoints: every change is written
	} {
		g := large(t, mcsv1beta1.Headless, c.clusters, c.endpoints)
		global := &fabedgev1alpha1.GlobalService{}
		global.Namespace, global.Name = "shop", "web"
		writes, slicesWritten, bytes := 0, 0, 0
		reconciled := func() time.Duration {
			t.Helper()
			for range 10 {
				g.here.writes = nil
				result, err := g.Reconcile(context.Background(), reconcile.Request{NamespacedName: web})
				if err != nil {
					t.Fatal(err)
				}
				for _, w := range g.here.writes {
					if w == "update GlobalService web" {
						writes++
						object, _ := json.Marshal(g.here.get(global))
						bytes += len(object)
					} else {
						slicesWritten++
					}
				}
				if len(g.here.writes) == 0 {
					return result.RequeueAfter
				}
			}
			t.Fatalf("it doesn't come to an end: %v", g.here.writes)
			return 0
		}
		g.clock.Step(time.Hour)
		var again time.Duration
		for i := range changes {
			g.flip("cluster-000", i%2 == 1)
			again = reconciled()
			g.clock.Step(each)
		}
		t.Logf("%d changes of %d endpoints in %s: the GlobalService is written %d times, %d kB", changes, c.clusters*c.endpoints, changes*each, writes, bytes/1000)
		if writes == 0 || writes > c.most || slicesWritten != changes || c.most > changes && writes != changes {
			t.Errorf("%d endpoints: %d writes of the GlobalService, want at most %d, and %d others", c.clusters*c.endpoints, writes, c.most, slicesWritten)
		}
		g.clock.Step(again)
		if again = reconciled(); again != 0 {
			t.Errorf("it waits on for %s", again)
		}
		in, cur := g.gathered(t)
		out, _, err := g.compute(t.Context(), &in, cur)
		if err != nil || !slices.EqualFunc(cur.Global.Spec.Endpoints, out.Global.Spec.Endpoints, sameEndpoint) {
			t.Errorf("%d endpoints: the last state isn't written: %v", c.clusters*c.endpoints, err)
		}

		// Changes other than endpoints are written at once.
		g.flip("cluster-000", true)
		reconciled()
		g.flip("cluster-000", false)
		for cluster := range c.clusters {
			record := exportedBy(fmt.Sprintf("cluster-%03d", cluster), mcsv1beta1.Headless, cluster)
			record.Spec.Ports = append(record.Spec.Ports, record.Spec.Ports[0])
			record.Spec.Ports[1].Name, record.Spec.Ports[1].Port = "more", 81
			g.hub.put(record)
		}
		reconciled()
		if _, cur = g.gathered(t); len(cur.Global.Spec.Ports) != 2 {
			t.Errorf("%d endpoints: a port waits; it has %v", c.clusters*c.endpoints, cur.Global.Spec.Ports)
		}
	}
}
