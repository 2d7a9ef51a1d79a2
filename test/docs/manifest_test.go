package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

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
	client, err := dynamic.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
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
			if err := tryCreate(t, client, mapper, o); err != nil {
				t.Errorf("%s: %s %s: %v", b, o.GetKind(), o.GetName(), err)
			}
		}
	}
}

func decodeAll(text string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}

func tryCreate(t *testing.T, client dynamic.Interface, mapper meta.RESTMapper, o *unstructured.Unstructured) error {
	t.Helper()
	mapping, err := mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if o.GetNamespace() == "" {
			return errors.New("it has no namespace: where would a reader put it?")
		}
		resource = client.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	_, err = resource.Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	if apierrors.IsAlreadyExists(err) { // the namespace that another page needs; it was decoded as strictly
		return nil
	}
	return err
}

// foreign has the kinds of other projects that the pages show, by the module with their CRDs. These are files beside its code, not in a
// package that can be imported, so go.mod can't require them.
var foreign = map[string]struct {
	folder string
	files  []string
}{
	"sigs.k8s.io/gateway-api@v1.6.0": {"config/crd/standard", []string{
		"gateway.networking.k8s.io_gateways.yaml", "gateway.networking.k8s.io_gatewayclasses.yaml",
		"gateway.networking.k8s.io_httproutes.yaml", "gateway.networking.k8s.io_referencegrants.yaml",
	}},
	"github.com/cert-manager/cert-manager@v1.21.2": {"deploy/crds", []string{"cert-manager.io_certificates.yaml"}},
	"github.com/envoyproxy/gateway@v1.9.1": {"charts/gateway-helm/charts/crds/crds/generated", []string{
		"gateway.envoyproxy.io_backendtrafficpolicies.yaml",
	}},
}

func foreignCRDs(t *testing.T) [][]byte {
	t.Helper()
	var all [][]byte
	for name, has := range foreign {
		out, err := command(t.TempDir(), "go", "mod", "download", "-json", name).Output() // outside any module: go.mod and go.sum don't change
		if err != nil {
			t.Fatal(err)
		}
		var module struct{ Dir string }
		if err := json.Unmarshal(out, &module); err != nil {
			t.Fatal(err)
		}
		for _, file := range has.files {
			all = append(all, []byte(read(t, filepath.Join(module.Dir, filepath.FromSlash(has.folder), file))))
		}
	}
	return all
}

// make manifests renders for the version of Kubernetes that it is told (docs/quickstart.md): PreferSameZone came with 1.34.
func TestManifestsForAnOlderKubernetes(t *testing.T) {
	for version, want := range map[string]string{"": "PreferSameZone", "v1.33.5": "PreferClose", "v1.33.5-gke.1162000": "PreferClose"} {
		dir := t.TempDir()
		if _, err := command(root, "make", "manifests", "OUT="+dir, "KUBE_VERSION="+version).Output(); err != nil {
			t.Fatal(err)
		}
		if text := read(t, filepath.Join(dir, "clusterset.yaml")); !strings.Contains(text, "  trafficDistribution: "+want+"\n") {
			t.Errorf("with KUBE_VERSION=%s the Service of the DNS servers hasn't %s", version, want)
		}
	}
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
