package docs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// The objects that docs/gitops.md keeps in Git make a working cluster set. The MemberClusters are applied on a hub, the exports in
// beijing, and the page states correctly which clusters import them. guangzhou isn't on the page; it shares the community payments.
func TestGitOps(t *testing.T) {
	const page = "docs/gitops.md"
	onHub := []string{"apiVersion: clusterset.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: guangzhou}\nspec: {communities: [payments]}"}
	var inBeijing []string
	for _, b := range blocks(t, page) {
		switch {
		case b.kind != "yaml" || b.args != "":
		case strings.Contains(b.text, "kind: MemberCluster"):
			onHub = append(onHub, b.text)
		default:
			inBeijing = append(inBeijing, b.text)
		}
	}
	if len(onHub) != 2 || len(inBeijing) != 2 {
		t.Fatalf("the page has %d blocks for the hub and %d for beijing", len(onHub)-1, len(inBeijing))
	}
	dir, bin := t.TempDir(), fleet.BinariesIn(filepath.Dir(binary(t, "clusterset")))
	hub := fleet.NewHub(dir, bin)
	all := map[string]*fleet.Member{}
	var group errgroup.Group
	group.Go(func() error { return hub.Launch(context.Background()) })
	for i, name := range []string{"beijing", "shanghai"} {
		all[name] = fleet.NewMember(dir, bin, fleet.Location{Cluster: name})
		group.Go(func() error {
			return all[name].Launch(context.Background(), kube.WithServiceCIDRs(fmt.Sprintf("10.%d.0.0/16", 96+i)))
		})
	}
	err := group.Wait()
	t.Cleanup(func() {
		for _, m := range all {
			m.Agent.Stop()
			m.Stop()
		}
		hub.Process.Stop()
		hub.Stop()
	})
	if err != nil {
		t.Fatal(err)
	}
	hub.Flags = []string{"--manage-members"}
	hub.Plane.Apply(t, append(crds.All(), fleet.Rights("hub"), fleet.Rights("hub-members"))...)
	for _, text := range onHub {
		hub.Plane.Apply(t, []byte(text))
	}
	if err := hub.Process.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, m := range all {
		m.Plane.Apply(t, slices.Concat(crds.All(), kube.MCSCRDs(), [][]byte{namespace(api.SystemNamespace), namespace("shop"), fleet.Rights("member")})...)
		// The Secret is copied by hand, as on the page.
		kube.Eventually(t, func() error {
			var secret corev1.Secret
			if err := hub.Client.Get(t.Context(), client.ObjectKey{Namespace: api.MemberNamespace(name), Name: api.HubSecret}, &secret); err != nil {
				return err
			}
			return os.WriteFile(m.HubKubeconfig, secret.Data[api.HubSecretKey], 0o600)
		})
		if err := m.Agent.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	beijing, shanghai := all["beijing"], all["shanghai"]
	for _, text := range inBeijing {
		beijing.Plane.Apply(t, []byte(text))
	}
	shanghai.Plane.Apply(t, namespace("catalogue"))
	for _, service := range []string{"{namespace: shop, name: web}", "{namespace: catalogue, name: books}"} {
		beijing.Plane.Apply(t, []byte("apiVersion: v1\nkind: Service\nmetadata: "+service+"\nspec: {ports: [{name: http, port: 80}]}"))
	}
	for service, says := range map[client.ObjectKey]string{
		{Namespace: "shop", Name: "web"}:        "these other clusters can import it: shanghai",
		{Namespace: "catalogue", Name: "books"}: "these other clusters can import it: guangzhou, shanghai",
	} {
		kube.Eventually(t, func() error {
			var export mcsv1beta1.ServiceExport
			if err := beijing.Client.Get(t.Context(), service, &export); err != nil {
				return err
			}
			if c := meta.FindStatusCondition(export.Status.Conditions, api.ConditionVisible); c == nil || c.Message != says {
				return fmt.Errorf("%s: %+v, want %q", service, c, says)
			}
			return shanghai.Client.Get(t.Context(), service, &mcsv1beta1.ServiceImport{})
		})
	}
	if !strings.Contains(read(t, filepath.Join(root, page)), "\nthese other clusters can import it: shanghai\n") {
		t.Error("the page doesn't show what the condition Visible says")
	}
	for name, want := range map[string][]string{"beijing": {"payments", "edge-asia"}, "shanghai": {"payments"}} {
		kube.Eventually(t, func() error {
			var mc clustersetv1alpha1.MemberCluster
			if err := hub.Client.Get(t.Context(), client.ObjectKey{Name: name}, &mc); err != nil {
				return err
			}
			joined := meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionJoined)
			if joined == nil || joined.Reason != clustersetv1alpha1.ReasonCredentialsTaken || !slices.Equal(mc.Spec.Communities, want) ||
				!meta.IsStatusConditionTrue(mc.Status.Conditions, clustersetv1alpha1.ConditionCommunitiesEnforced) {
				return fmt.Errorf("%s in %v: %+v", name, mc.Spec.Communities, mc.Status.Conditions)
			}
			return nil
		})
	}
}

func namespace(name string) []byte {
	return []byte("{apiVersion: v1, kind: Namespace, metadata: {name: " + name + "}}")
}

// An Application or Kustomization that is moved, renamed or deleted deletes no MemberCluster of the page, or its clusters would leave.
func TestGitOpsKeepsMembers(t *testing.T) {
	members := 0
	for _, b := range blocks(t, "docs/gitops.md") {
		if b.kind != "yaml" || b.args != "" {
			continue
		}
		objects, err := decodeAll(b.text)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if o.GetKind() != "MemberCluster" {
				continue
			}
			members++
			options := strings.Split(o.GetAnnotations()["argocd.argoproj.io/sync-options"], ",")
			// Argo CD looks at Prune when the file is gone, and at Delete when the Application is.
			if !slices.Contains(options, "Prune=false") || !slices.Contains(options, "Delete=false") {
				t.Errorf("Argo CD deletes %s: its options are %q", o.GetName(), options)
			}
			if got := o.GetAnnotations()["kustomize.toolkit.fluxcd.io/prune"]; got != "disabled" {
				t.Errorf("Flux deletes %s: prune is %q", o.GetName(), got)
			}
		}
	}
	if members == 0 {
		t.Error("the page has no MemberCluster")
	}
}
