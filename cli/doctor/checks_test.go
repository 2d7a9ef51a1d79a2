package doctor

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"

	"github.com/clusterset/clusterset/test/kube"
)

func TestExpress(t *testing.T) {
	text := `# HELP coredns_clusterset_express_enabled Gauge.
# TYPE coredns_clusterset_express_enabled gauge
coredns_clusterset_express_enabled{server="dns://:53"} 1
coredns_clusterset_express_enabled{server="dns://[fd00::1]:5353"} 0
coredns_clusterset_answers_total{tier="zone"} 1
`
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			t.Errorf("asked for %s", r.URL)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	defer s.Close()
	address := strings.TrimPrefix(s.URL, "http://")
	f := &Facts{DNSServer: "10.96.0.53:53"}
	find := func() []string {
		var found []string
		f.Express = express(t.Context(), address)
		for _, finding := range checkExpress(f) {
			found = append(found, string(finding.Level)+" "+finding.Message)
		}
		return found
	}
	want := []string{
		"ok the express path is off at dns://[fd00::1]:5353, where every query takes the plugin chain; the log of the DNS server says why (docs/cluster-dns.md)",
		"ok the express path is on at dns://:53",
	}
	if got := find(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	text = "up 1\n"
	if got := find(); len(got) != 1 || !strings.HasPrefix(got[0], "skipped the metrics at "+address+" have no express path") {
		t.Errorf("of metrics of something else: %q", got)
	}
	status = http.StatusForbidden
	if got := find(); len(got) != 1 || !strings.Contains(got[0], "403 Forbidden; --dns-metrics says where the metrics of 10.96.0.53:53 are") {
		t.Errorf("refused: %q", got)
	}
	s.Close()
	if got := find(); len(got) != 1 || !strings.HasPrefix(got[0], "skipped ") {
		t.Errorf("unreached: %q", got)
	}
	if got := metricsAddress("[fd00::10]:53"); got != "[fd00::10]:9153" {
		t.Errorf("the metrics of [fd00::10]:53 are looked for at %s", got)
	}
}

// A definition without the status subresource is found: nothing can say what is wrong with its objects. Rule C2 of docs/spec/control-plane.md.
func TestADefinitionWithoutStatusIsFound(t *testing.T) {
	plane := kube.Start(t)
	for _, crd := range kube.MCSCRDs() {
		if bytes.Contains(crd, []byte("kind: ServiceExport\n")) {
			crd = bytes.ReplaceAll(crd, []byte("      subresources:\n        status: {}\n"), nil)
		}
		plane.Apply(t, crd)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error {
		s := &Server{What: "cluster", CRDs: definitions(t.Context(), disco, plane.Config(), "cluster")}
		said := map[string]string{}
		for _, c := range s.CRDs {
			if f, bad := checkCRD(s, c, ""); bad {
				said[c.Name] = f.Message
			}
		}
		const want = "the definition of serviceexports.multicluster.x-k8s.io in the cluster is older than this clusterset: " +
			"it lacks the status subresource, and the API server drops what is written there"
		if imports, bad := said["serviceimports.multicluster.x-k8s.io"]; bad || said["serviceexports.multicluster.x-k8s.io"] != want {
			return fmt.Errorf("of exports %q, of imports %q", said["serviceexports.multicluster.x-k8s.io"], imports)
		}
		return nil
	})
}
