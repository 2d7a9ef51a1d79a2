package docs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/kube"
)

// A real API server accepts every object in a yaml block, with strict validation, which rejects unknown and duplicate fields. It
// has the CRDs of clusterset, of the Multi-Cluster Services API, of the Gateway API, of cert-manager and of Envoy Gateway.
func TestManifestsAreAccepted(t *testing.T) {
	plane := kube.Start(t)
	plane.Apply(t, slices.Concat(kube.MCSCRDs(), crds.All(), foreignCRDs(t))...)
	// The pages' objects need this namespace and this service account.
	plane.Apply(t, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}"), []byte("apiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: default, name: default}"))
	plain, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	strict := client.WithFieldValidation(plain, metav1.FieldValidationStrict)
	for _, b := range blocksOf(t, "yaml") {
		if b.args != "" {
			continue
		}
		objects, err := decodeAll(b.text)
		if err != nil || len(objects) == 0 {
			t.Errorf("%s: %d objects, %v", b, len(objects), err)
			continue
		}
		for _, o := range objects {
			if b.page == "docs/gitops.md" {
				keeps(t, o)
			}
			namespaced, err := strict.IsObjectNamespaced(o)
			if namespaced && o.GetNamespace() == "" {
				err = errors.New("it has no namespace: where would a reader put it?")
			}
			if err == nil {
				err = strict.Create(t.Context(), o, client.DryRunAll)
			}
			if err != nil && !apierrors.IsAlreadyExists(err) { // the namespace that another page needs; it was decoded as strictly
				t.Errorf("%s: %s %s: %v", b, o.GetKind(), o.GetName(), err)
			}
		}
	}
}

// keeps requires that no MemberCluster is deleted when an Application or Kustomization is moved, renamed or deleted: its cluster would leave.
func keeps(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	// Argo CD looks at Prune when the file is gone, and at Delete when the Application is.
	argo, flux := o.GetAnnotations()["argocd.argoproj.io/sync-options"], o.GetAnnotations()["kustomize.toolkit.fluxcd.io/prune"]
	if o.GetKind() == "MemberCluster" && (!strings.Contains(argo, "Prune=false") || !strings.Contains(argo, "Delete=false") || flux != "disabled") {
		t.Errorf("%s is deleted with what has it: Argo CD's options are %q, Flux's prune is %q", o.GetName(), argo, flux)
	}
}

func decodeAll(text string) (all []*unstructured.Unstructured, err error) {
	for _, document := range strings.Split(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
	return all, nil
}

// foreignCRDs returns the kinds of other projects that the pages show. These are files beside its code, not in a package that can be imported,
// so go.mod can't require them.
func foreignCRDs(t *testing.T) (all [][]byte) {
	t.Helper()
	for _, of := range [][]string{
		{
			"sigs.k8s.io/gateway-api@v1.6.0", "config/crd/standard", "gateway.networking.k8s.io_gateways.yaml", "gateway.networking.k8s.io_gatewayclasses.yaml",
			"gateway.networking.k8s.io_httproutes.yaml", "gateway.networking.k8s.io_referencegrants.yaml",
		},
		{"github.com/cert-manager/cert-manager@v1.21.2", "deploy/crds", "cert-manager.io_certificates.yaml"},
		{"github.com/envoyproxy/gateway@v1.9.1", "charts/gateway-helm/charts/crds/crds/generated", "gateway.envoyproxy.io_backendtrafficpolicies.yaml"},
	} {
		files, err := kube.ModuleFiles(t.Context(), of[0], of[1], of[2:]...)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, files...)
	}
	return all
}

// The chart accepts every set of values in a yaml block.
func TestValues(t *testing.T) {
	for _, b := range blocksOf(t, "yaml") {
		if b.args != "values" {
			continue
		}
		path := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(path, []byte(b.text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := command(filepath.Join(root, "test", "chart"), "go", "run", "./manifests", "-f", path).Output()
		if err != nil || !bytes.Contains(out, []byte("kind: Deployment")) {
			t.Errorf("%s: %v", b, err)
		}
	}
}
