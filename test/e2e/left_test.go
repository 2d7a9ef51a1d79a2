package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// lose removes MemberClusters from the hub, as a restore from an older backup does. It stops the hub process meanwhile,
// because that would add the finalizer again.
func lose(h *fleettest.Hub, names ...string) {
	h.Helper()
	h.Kill()
	none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for _, name := range names {
		mc := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := errors.Join(h.Client.Patch(context.Background(), mc, none), h.Client.Delete(context.Background(), mc)); err != nil {
			h.Fatal(err)
		}
	}
	h.Start(h.Base.Flags...)
}

// A cluster leaves, through the command or because somebody deletes its MemberCluster. The other clusters drop its exports
// within seconds, and it keeps its own imports. Its name can be used again. A cluster whose MemberCluster is only missing
// has not left: all clusters keep its exports, and report it.
func TestLeftAndLost(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("leaves")
	want := everywhere(f, ns)
	shanghai := f.Member("shanghai")
	others := f.Members[:2]
	for what, leave := range map[string]func() error{
		"by clusterset leave": func() error {
			return clustersetCommand(t.Context(), "leave", "--yes", "--hub-kubeconfig", f.Hub.Plane.Kubeconfig(), "shanghai")
		},
		"by hand": func() error {
			return f.Hub.Client.Delete(t.Context(), &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}})
		},
	} {
		// The cluster keeps running. So no cluster sees it as silent, and its agent would write removed records again.
		stop := throughout(f, map[*fleettest.Member]map[string]string{shanghai: want[shanghai]})
		began := time.Now()
		if err := leave(); err != nil {
			t.Fatal(err)
		}
		for _, m := range others {
			kube.Eventually(t, func() error { return importedFrom(m, ns, "web", "beijing", "tianjin") })
			m.DNS.Eventually("shanghai.web."+ns+".svc.global", "A", "NXDOMAIN")
			kube.Eventually(t, func() error {
				if err := m.Get("", "shanghai", &clustersetv1alpha1.MemberCluster{}); !apierrors.IsNotFound(err) {
					return fmt.Errorf("%s still has a MemberCluster of it: %w", m.Spec.Name, err)
				}
				return nil
			})
		}
		fleettest.Took(t, "leaving "+what, began)
		kube.Eventually(t, func() error {
			var mc clustersetv1alpha1.MemberCluster
			if err := f.Hub.Get("", "shanghai", &mc); err != nil {
				return err
			}
			records, err := f.Hub.Records("shanghai")
			if err != nil || len(records) > 0 || mc.Status.Phase != clustersetv1alpha1.MemberExpired || !meta.IsStatusConditionTrue(mc.Status.Conditions, clustersetv1alpha1.ConditionLeft) {
				return fmt.Errorf("%d records are left of %+v, %w", len(records), mc.Status, err)
			}
			return nil
		})
		as, err := client.New(shanghai.OnHub(), client.Options{Scheme: fleet.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		kube.Eventually(t, func() error { // an API server caches a token for some seconds
			if err := as.List(t.Context(), &clustersetv1alpha1.MemberClusterList{}); !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) {
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
		stillAnswer(f, want)
		kube.Eventually(t, func() error { return nothingHeld(f) })
	}

	stop := throughout(f, want)
	shanghai.KillAgent()
	lose(f.Hub, "shanghai")
	for _, all := range []client.Object{&clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}} {
		deleteAll(&f.Hub.Cluster, all, client.InNamespace(api.MemberNamespace("shanghai")))
	}
	for _, m := range others {
		kube.Eventually(t, func() error {
			awaited, err := m.Metrics.Sum("clusterset_importer_awaited_clusters")
			if err == nil && awaited != 1 {
				err = fmt.Errorf("%s waits for %v clusters", m.Spec.Name, awaited)
			}
			return errors.Join(err, m.HasEvent("MemberCluster", "", "shanghai", "NotRejoined", "the hub has lost shanghai"), importedFrom(m, ns, "web", "beijing", "tianjin", "shanghai"))
		})
	}
	if err := shanghai.Join(t.Context(), f.Hub, "--rejoin"); err != nil {
		t.Fatal(err)
	}
	shanghai.StartAgent()
	f.Settle()
	kube.Eventually(t, func() error { return nothingHeld(f) })
	stop()
	stillAnswer(f, want)
}

// clustersetCommand runs a command of the CLI and waits until it ends.
func clustersetCommand(ctx context.Context, args ...string) error {
	if out, err := fleettest.Binaries().Command(ctx, filepath.Dir(fleettest.Binaries().Clusterset), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("clusterset %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
