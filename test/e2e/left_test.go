package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// withoutCopy returns nil if a member has no copy of a MemberCluster.
func withoutCopy(m *fleettest.Member, of string) error {
	if err := m.Get("", of, &clustersetv1alpha1.MemberCluster{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s still has its MemberCluster %s: %v", m.Spec.Name, of, err)
	}
	return nil
}

// A cluster leaves, through the command or because somebody deletes its MemberCluster. The other clusters drop its exports within seconds, and
// it keeps its own imports. Its name can be used again. A cluster whose MemberCluster is only missing has not left: all clusters keep its
// exports, and report it. What it exported stays until somebody deletes the copy of its MemberCluster. Commands return with --wait when what
// they changed is so in every cluster. Rules C44 and C76 of docs/spec/control-plane.md.
func TestLeftAndLost(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("leaves")
	want := everywhere(f, ns)
	beijing, tianjin, shanghai := f.Member("beijing"), f.Member("tianjin"), f.Member("shanghai")
	others := f.Members[:2]
	run := func(args ...string) {
		t.Helper()
		if err := clustersetCommand(t.Context(), append(args, "--hub-kubeconfig", f.Hub.Plane.Kubeconfig(), "--wait")...); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { patchMember(f, "beijing", `{"spec":{"drain":false}}`) })
	for _, command := range []string{"drain", "undrain"} {
		run(command, "beijing")
		for _, m := range f.Members {
			var mc clustersetv1alpha1.MemberCluster
			if err := m.Get("", "beijing", &mc); err != nil || mc.Spec.Drain != (command == "drain") {
				t.Errorf("%s in %s: %+v, %v", command, m.Spec.Name, mc.Spec, err)
			}
		}
	}
	for what, leave := range map[string]func(){
		"by clusterset leave": func() {
			run("leave", "--yes", "shanghai")
			for _, m := range others {
				var left discoveryv1.EndpointSliceList
				if err := m.List(&left, client.MatchingLabels{api.LabelSourceCluster: "shanghai"}); err != nil || len(left.Items) > 0 {
					t.Errorf("%d EndpointSlices of shanghai are left in %s, %v", len(left.Items), m.Spec.Name, err)
				}
			}
		},
		"by hand": func() {
			if err := f.Hub.Client.Delete(t.Context(), &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		// The cluster keeps running. So no cluster sees it as silent, and its agent would write removed records again.
		stop := asked{shanghai: want[shanghai]}.throughout()
		began := time.Now()
		leave()
		for _, m := range others {
			kube.Eventually(t, func() error {
				return errors.Join(importedFrom(m, ns, "web", "beijing", "tianjin"), withoutCopy(m, "shanghai"))
			})
			m.DNS.Eventually("shanghai.web."+ns+".svc.global", "A", "NXDOMAIN")
		}
		fleettest.Took(t, "leaving "+what, began)
		as, err := client.New(shanghai.OnHub(), client.Options{Scheme: fleet.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		kube.Eventually(t, func() error {
			var mc clustersetv1alpha1.MemberCluster
			records, err := f.Hub.Records("shanghai")
			if err = errors.Join(err, f.Hub.Get("", "shanghai", &mc)); err != nil || len(records) > 0 || mc.Status.Phase != clustersetv1alpha1.MemberExpired ||
				!meta.IsStatusConditionTrue(mc.Status.Conditions, clustersetv1alpha1.ConditionLeft) {
				return fmt.Errorf("%d records are left of %+v, %w", len(records), mc.Status, err)
			}
			if err := as.List(t.Context(), &clustersetv1alpha1.MemberClusterList{}); !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) { // an API server caches a token for some seconds
				return fmt.Errorf("with the token of a cluster that left: %w", err)
			}
			return nil
		})
		stop()
		if err := shanghai.Join(t.Context(), f.Hub); err != nil {
			t.Fatalf("taking the name up again: %v", err)
		}
		shanghai.RestartAgent()
		f.Settle()
		want.are(f)
		kube.Eventually(t, func() error { return nothingHeld(f) })
	}
	run("join", "--rejoin", "shanghai")
	run("status", "--kubeconfig", shanghai.Plane.Kubeconfig())

	stop := asked{tianjin: want[tianjin], shanghai: want[shanghai]}.throughout()
	shanghai.KillAgent()
	lose(f, "shanghai")
	deleteRecords(f.Hub, "shanghai")
	for _, m := range others {
		kube.Eventually(t, func() error {
			return errors.Join(waitsFor(m, 1), m.HasEvent("MemberCluster", "", "shanghai", "NotRejoined", "the hub has lost shanghai"), importedFrom(m, ns, "web", "beijing", "tianjin", "shanghai"))
		})
	}
	if err := beijing.Client.Delete(t.Context(), &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}}); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error { return importedFrom(beijing, ns, "web", "beijing", "tianjin") })
	if err := importedFrom(tianjin, ns, "web", "beijing", "tianjin", "shanghai"); err != nil {
		t.Error(err)
	}
	if err := shanghai.Join(t.Context(), f.Hub, "--rejoin"); err != nil {
		t.Fatal(err)
	}
	shanghai.StartAgent()
	f.Settle()
	kube.Eventually(t, func() error { return nothingHeld(f) })
	stop()
	want.are(f)
}
