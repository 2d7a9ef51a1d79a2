package clusterset_test

import (
	"fmt"
	"strings"
	"testing"

	mcscrd "sigs.k8s.io/mcs-api/config/crd"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/kube"
)

// TestLiveCustomResourceDefinitions starts CoreDNS on an API server that has none of the kinds except EndpointSlice.
// While CoreDNS keeps running, the test installs, upgrades and removes their CRDs.
func TestLiveCustomResourceDefinitions(t *testing.T) {
	control := kube.Start(t)
	control.Apply(t, namespaceYAML("crds"), sliceYAML("crds", "db-1", "db", "c", "10.0.0.2"))
	s := startLive(t, liveCorefile(control.Kubeconfig()))
	const (
		web    = "A web.crds.svc.clusterset.local"
		db     = "A db.crds.svc.clusterset.local"
		fabdns = "A nginx.crds.svc.global"
	)
	absent := func(kind string, want float64) {
		t.Helper()
		expectMetric(t, want, "source_absent", "source", "kubernetes", "kind", kind)
	}

	// The other kinds are not installed, so names that depend on them don't exist.
	s.expect(t, map[string]string{web: "NXDOMAIN", db: "NXDOMAIN", fabdns: "NXDOMAIN"})
	absent("EndpointSlice", 0)
	for _, kind := range []string{"ServiceImport", "GlobalService", "MemberCluster"} {
		absent(kind, 1)
	}

	// One kind is installed while another is still absent.
	for _, crd := range crds.All() {
		if strings.Contains(string(crd), "dns.fabedge.io") {
			control.Apply(t, crd)
		}
	}
	control.Apply(t, globalYAML("crds", "nginx", "10.0.0.1"))
	s.expect(t, map[string]string{fabdns: "10.0.0.1", web: "NXDOMAIN", db: "NXDOMAIN"})
	absent("GlobalService", 0)
	absent("ServiceImport", 1)

	// The MCS implementation dates from before v1beta1.
	control.Apply(t, servedImportCRD(t, "v1alpha1"))
	alpha := func(manifest []byte) []byte {
		return []byte(strings.Replace(string(manifest), "/v1beta1", "/v1alpha1", 1))
	}
	control.Apply(t, alpha(importYAML("crds", "web", "ClusterSetIP", "10.0.0.3")), alpha(importYAML("crds", "db", "Headless")))
	s.expect(t, map[string]string{web: "10.0.0.3", db: "10.0.0.2", fabdns: "10.0.0.1"})
	absent("ServiceImport", 0)
	control.Apply(t, alpha(importYAML("crds", "web", "ClusterSetIP", "10.0.0.4")))
	s.expect(t, map[string]string{web: "10.0.0.4"})

	// The served versions change while the server runs, and no name is missing at any time.
	stop := s.askAlong(t, map[string][]string{web: {"10.0.0.4", "10.0.0.5", "10.0.0.6"}, db: {"10.0.0.2"}, fabdns: {"10.0.0.1"}})
	control.Apply(t, servedImportCRD(t, "v1alpha1", "v1beta1"))
	control.Apply(t, importYAML("crds", "web", "ClusterSetIP", "10.0.0.5"))
	s.expect(t, map[string]string{web: "10.0.0.5"})
	control.Apply(t, servedImportCRD(t, "v1beta1"))
	control.Apply(t, importYAML("crds", "web", "ClusterSetIP", "10.0.0.6"))
	s.expect(t, map[string]string{web: "10.0.0.6"})
	stop()

	// The remaining kinds are installed.
	control.Apply(t, crds.All()...)
	absent("MemberCluster", 0)
	control.Apply(t, memberYAML("c", "a", "r1", false))
	control.ApplyStatus(t, memberStatusYAML("c", "Expired"))
	s.expect(t, map[string]string{db: "NXDOMAIN", web: "10.0.0.6"})

	// Removing a CRD deletes its objects. After the CRD is installed again, they can be created again.
	control.Delete(t, servedImportCRD(t, "v1beta1"))
	s.expect(t, map[string]string{web: "NXDOMAIN", fabdns: "10.0.0.1"})
	absent("ServiceImport", 1)
	kube.Eventually(t, func() error { // a CRD is only gone some time after its objects
		if err := control.ApplyContext(t.Context(), servedImportCRD(t, "v1alpha1", "v1beta1")); err != nil {
			return err
		}
		return control.ApplyContext(t.Context(), importYAML("crds", "web", "ClusterSetIP", "10.0.0.7"))
	})
	s.expect(t, map[string]string{web: "10.0.0.7"})
	absent("ServiceImport", 0)
}

// servedImportCRD returns the CRD of ServiceImport with these versions served.
func servedImportCRD(t *testing.T, versions ...string) []byte {
	t.Helper()
	var crd map[string]any
	if err := yaml.Unmarshal(mcscrd.ServiceImportCRD, &crd); err != nil {
		t.Fatal(err)
	}
	for _, v := range crd["spec"].(map[string]any)["versions"].([]any) {
		version := v.(map[string]any)
		version["served"] = strings.Contains(fmt.Sprint(versions), version["name"].(string))
	}
	out, err := yaml.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
