package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

func node(name, zone string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {topology.kubernetes.io/zone: %q}}}", name, zone)
}

// steered returns, for each cluster of a service, how its slices tell kube-proxy to use its endpoints.
func (w *world) steered(ns, name string) string {
	var all []string
	for _, s := range w.objects(ns, name).slices {
		how := "unrouted"
		if records.Routed(&s) {
			how = "routed"
		}
		for _, e := range s.Endpoints {
			if e.Hints != nil {
				for _, z := range e.Hints.ForZones {
					how += " " + strings.TrimSuffix(z.Name, ".clusterset.dev")
				}
			}
		}
		all = append(all, s.Labels[api.LabelSourceCluster]+" "+how)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestKubeProxyIsTold checks what beijing's EndpointSlices tell kube-proxy about a service of beijing and shanghai, and that nothing else is
// written. Rule D28 of docs/spec/data-path.md.
func TestKubeProxyIsTold(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"), node("n1", "beijing-1"))
	w.exports("10.11.0.5")
	w.onHub(records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5"))
	run := w.start(Options{})
	becomes := func(what, want string) {
		t.Helper()
		kube.Eventually(t, func() error {
			if got := w.steered("shop", "web"); got != want {
				return fmt.Errorf("%s: %q, want %q", what, got, want)
			}
			return nil
		})
		w.quiet(run, 1)
	}
	phase := func(cluster string, is clustersetv1alpha1.MemberClusterPhase) {
		w.hub.ApplyStatus(t, fmt.Appendf(nil, "{apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: %s}, status: {phase: %q}}", cluster, is))
	}
	becomes("each zone its own", "beijing routed beijing-1, shanghai routed none")
	if o := w.objects("shop", "web"); o.derived.Annotations["service.kubernetes.io/topology-mode"] != "Auto" {
		t.Errorf("the derived Service has annotations %v", o.derived.Annotations)
	}

	t.Run("the time of a change comes with the change alone", func(t *testing.T) {
		const key = corev1.EndpointsLastChangeTriggerTime
		state := func(address string) (stated string) {
			t.Helper()
			stated = time.Now().UTC().Add(-time.Second).Format(time.RFC3339Nano)
			patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}, "spec": {"endpoints": [{"addresses": [%q]}]}}`, key, stated, address)
			o := &clustersetv1alpha1.ExportedEndpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "clusterset-member-shanghai", Name: "web.shop.x-0"}}
			if err := w.hubClient.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, patch)); err != nil {
				t.Fatal(err)
			}
			return stated
		}
		note := func(address, want string) {
			t.Helper()
			kube.Eventually(t, func() error {
				for _, s := range w.objects("shop", "web").slices {
					if s.Labels[api.LabelSourceCluster] == "shanghai" {
						if s.Endpoints[0].Addresses[0] != address || s.Annotations[key] != want {
							return fmt.Errorf("%s: annotations %v, want %s and the time %q", s.Endpoints[0].Addresses, s.Annotations, address, want)
						}
					}
				}
				return nil
			})
		}
		stated := state("10.12.0.6")
		note("10.12.0.6", stated)
		w.quiet(run, 1)
		before := run.local.written()
		state("10.12.0.6")
		w.quiet(run, 1)
		if after := run.local.written(); len(after) != len(before) {
			t.Errorf("wrote %v for a time alone", after[len(before):])
		}
		w.onHub(strings.Replace(memberOf("beijing"), "region: cn", "region: cn, drain: true", 1))
		becomes("beijing is drained", "beijing routed none, shanghai routed beijing-1")
		note("10.12.0.6", "")
		w.onHub(memberOf("beijing"))
		becomes("each zone its own again", "beijing routed beijing-1, shanghai routed none")
		note("10.12.0.6", "")
		note("10.12.0.5", state("10.12.0.5"))
	})

	t.Run("a node's heartbeat writes nothing", func(t *testing.T) {
		w.quiet(run, 1) // the importer may still get the event of its own last write
		before, done := run.local.written(), reconciles(t)
		w.member.ApplyStatus(t, []byte("{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {conditions: [{type: Ready, status: 'True', lastHeartbeatTime: 2026-01-01T00:00:00Z}]}}"))
		w.here(node("n2", "beijing-1"))
		w.quiet(run, 1)
		if after := run.local.written(); len(after) != len(before) || reconciles(t) != done {
			t.Errorf("wrote %v, worked on %v services", after[len(before):], reconciles(t)-done)
		}
		for path := range run.local.watched() {
			if strings.HasSuffix(path, "/nodes") {
				return
			}
		}
		t.Error("it doesn't watch nodes")
	})
	t.Run("nothing is written where ranks stay", func(t *testing.T) {
		for _, word := range []string{"weight: 7", "region: north", "cidrs: [10.0.0.0/8]"} {
			w.quiet(run, 1)
			before, done := run.local.written(), reconciles(t)
			w.onHub(strings.Replace(strings.Replace(memberOf("shanghai"), "region: cn", "", 1), "spec: {", "spec: {"+word+", ", 1))
			kube.Eventually(t, func() error {
				if reconciles(t) == done {
					return errors.New("the service wasn't worked on again")
				}
				return nil
			})
			w.quiet(run, 1)
			for _, write := range run.local.written()[len(before):] {
				if strings.Contains(write, "/endpointslices/") || strings.Contains(write, "/services/") || strings.Contains(write, "/serviceimports/") {
					t.Errorf("wrote %s for shanghai's %s", write, word)
				}
			}
		}
		w.onHub(memberOf("shanghai"))
		w.quiet(run, 1)
	})
	t.Run("a node in another zone", func(*testing.T) {
		w.here(node("n2", "beijing-2"))
		becomes("a zone without endpoints gets its region's", "beijing routed beijing-1 beijing-2, shanghai routed beijing-2")
		w.member.Delete(t, []byte(node("n2", "")))
		becomes("it is gone", "beijing routed beijing-1, shanghai routed none")
	})
	t.Run("health", func(t *testing.T) {
		phase("beijing", clustersetv1alpha1.MemberExpired)
		phase("shanghai", clustersetv1alpha1.MemberReady)
		becomes("to itself a cluster is never Expired", "beijing routed beijing-1, shanghai routed none")
		drained := strings.Replace(memberOf("beijing"), "region: cn", "region: cn, drain: true", 1)
		before := run.local.written()
		w.onHub(drained)
		becomes("drained", "beijing routed none, shanghai routed beijing-1")
		writes := map[string]int{}
		for _, write := range run.local.written()[len(before):] {
			if !strings.Contains(write, "/memberclusters/") {
				writes[write]++
			}
		}
		for write, n := range writes {
			if n > 1 || !strings.Contains(write, "/endpointslices/") {
				t.Errorf("wrote %s %d times", write, n)
			}
		}
		if len(writes) != 2 {
			t.Errorf("wrote %v, want both slices", writes)
		}
		phase("shanghai", clustersetv1alpha1.MemberExpired)
		becomes("Expired and drained", "beijing routed beijing-1, shanghai unrouted")
		w.onHub(memberOf("beijing"))
		becomes("Expired", "beijing routed beijing-1, shanghai unrouted")
		phase("shanghai", clustersetv1alpha1.MemberReady)
		becomes("back", "beijing routed beijing-1, shanghai routed none")
	})
	t.Run("nodes without zones", func(*testing.T) {
		w.here("{apiVersion: v1, kind: Node, metadata: {name: edge}}")
		becomes("labels", "beijing routed, shanghai unrouted")
		if err := client.IgnoreNotFound(w.client.Delete(t.Context(), w.objects("shop", "web").derived)); err != nil {
			t.Fatal(err)
		}
		w.member.Delete(t, []byte("{apiVersion: v1, kind: Node, metadata: {name: edge}}"))
		becomes("hints again", "beijing routed beijing-1, shanghai routed none")
	})
	t.Run("a place that is no label value", func(*testing.T) {
		w.onHub(strings.Replace(memberOf("shanghai"), "shanghai-1", "'Pudong, 上海 (2)'", 1))
		becomes("it is no hint", "beijing routed beijing-1, shanghai routed none")
		kube.Eventually(t, func() error {
			for _, s := range w.objects("shop", "web").slices {
				if e := s.Endpoints[0]; s.Labels[api.LabelSourceCluster] == "shanghai" && (e.Zone == nil || *e.Zone != "Pudong, 上海 (2)") {
					return fmt.Errorf("shanghai's zone is %v", e.Zone)
				}
			}
			return nil
		})
	})
}
