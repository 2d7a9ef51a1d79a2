package importer

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// Rule C30 of docs/spec/control-plane.md, and D26, D27 and D30 of docs/spec/data-path.md.
func TestImporter(t *testing.T) {
	w := newWorld(t, kube.WithControllerManager())
	w.member.InstallMCS(t)
	w.here(namespace("shop"), namespace("other"), "{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {topology.kubernetes.io/zone: beijing-1}}}")

	// The importer deletes objects that an earlier importer left behind, if the hub has no record of them. Those with "stray" in their names were
	// restored from a backup, into another namespace or without their owners (C36).
	w.here(string(readFile(t, "testdata/strays.yaml")))
	w.onHub(records.Exported("baoding", "shop", "web", "10.1.0.1", "10.11.0.5"),
		records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5"))
	run := w.start(Options{})

	var vip string
	t.Run("imports what two clusters export", func(t *testing.T) {
		o := w.imported("shop", "web", 2)
		vip = o.derived.Spec.ClusterIP
		if got := o.serviceImport.Spec.IPs; !slices.Equal(got, []string{vip}) {
			t.Errorf("ips are %v, the derived Service has %s", got, vip)
		}
		if o.serviceImport.Status.EndpointSliceObjects != mcsv1beta1.EndpointSliceObjectsPresent {
			t.Errorf("endpointSliceObjects is %q", o.serviceImport.Status.EndpointSliceObjects)
		}
		for _, s := range o.slices {
			if !metav1.IsControlledBy(&s, o.serviceImport) || s.Labels[discoveryv1.LabelServiceName] != o.derived.Name {
				t.Errorf("slice %s has owners %v, labels %v", s.Name, s.OwnerReferences, s.Labels)
			}
		}
		if len(o.global.Spec.Endpoints) != 2 || o.global.Spec.Endpoints[1].Zone != "shanghai-1" {
			t.Errorf("GlobalService has %+v", o.global.Spec)
		}
	})
	t.Run("removes orphans at the start", func(*testing.T) { w.gone("shop", "orphan") })
	t.Run("removes what a backup brought to where nobody uses it", func(t *testing.T) {
		kube.Eventually(t, func() error {
			var left []string
			for _, list := range []client.ObjectList{&corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}, &mcsv1beta1.ServiceImportList{}} {
				if err := w.client.List(t.Context(), list, client.MatchingLabels(desired.Labels())); err != nil {
					return err
				}
				_ = meta.EachListItem(list, func(o runtime.Object) error {
					if name := o.(client.Object).GetName(); strings.Contains(name, "stray") {
						left = append(left, kindOf(o.(client.Object))+" "+client.ObjectKeyFromObject(o.(client.Object)).String())
					}
					return nil
				})
			}
			if len(left) > 0 {
				return fmt.Errorf("left are %s", strings.Join(left, ", "))
			}
			return nil
		})
		// A Service whose owner has copied our label, and so has its slice, isn't one of ours.
		for _, o := range []client.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}} {
			if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "other", Name: "copied-label"}, o); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("writes nothing when it starts again", func(t *testing.T) {
		kube.Eventually(t, func() error { // that the hub answers is written once
			own := &clustersetv1alpha1.MemberCluster{}
			if err := w.client.Get(t.Context(), client.ObjectKey{Name: "beijing"}, own); err != nil {
				return err
			}
			steered := meta.FindStatusCondition(own.Status.Conditions, clustersetv1alpha1.ConditionSteered)
			if !meta.IsStatusConditionTrue(own.Status.Conditions, clustersetv1alpha1.ConditionHubAnswers) || steered == nil {
				return fmt.Errorf("conditions are %v", own.Status.Conditions)
			}
			if steered.Message != "by hints, because neither Cilium nor OVN-Kubernetes was found" { // and the agent could look
				t.Error(steered.Message)
			}
			return nil
		})
		w.quiet(run, 1)
		run.stop()
		run = w.start(Options{})
		w.quiet(run, 1)
		if got := run.local.written(); len(got) > 0 {
			t.Errorf("wrote %v", got)
		}
		o := w.imported("shop", "web", 2)
		if o.derived.Spec.ClusterIP != vip {
			t.Errorf("the VIP is %s, was %s", o.derived.Spec.ClusterIP, vip)
		}
		if was := o.derived.Spec.TrafficDistribution; (was == nil) != (os.Getenv("CLUSTERSET_KUBE_RELEASE") == string(kube.Oldest)) {
			t.Errorf("trafficDistribution is %v", was)
		}
		for _, s := range o.slices { // Kubernetes' own controllers leave them alone
			if s.Endpoints[0].Hints == nil || len(s.ManagedFields) != 1 || s.ManagedFields[0].Manager != api.FieldManagerImporter {
				t.Errorf("slice %s has %+v, and was written by %+v", s.Name, s.Endpoints, s.ManagedFields)
			}
		}
	})
	t.Run("drops a cluster that un-exports, and the service with the last", func(t *testing.T) {
		w.withdraw(records.Exported("shanghai", "shop", "web", "", ""))
		o := w.imported("shop", "web", 1)
		if !slices.Equal(o.serviceImport.Spec.IPs, []string{vip}) || o.slices[0].Labels[api.LabelSourceCluster] != "baoding" {
			t.Errorf("left are %+v", o)
		}
		w.withdraw(records.Exported("baoding", "shop", "web", "", ""))
		w.gone("shop", "web")
	})
}
