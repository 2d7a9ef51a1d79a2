package view

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/test/page"
)

// The answers of all DNS servers are added up (rule A65). A server that fails is named; one that isn't ready isn't asked, nor is anything else.
func TestTraffic(t *testing.T) {
	line := func(namespace, name, tier, n string) string {
		return fmt.Sprintf("coredns_clusterset_service_answers_total{service_name=%q,service_namespace=%q,tier=%q} %s\n", name, namespace, tier, n)
	}
	first := line("shop", "db", "zone", "870") + line("shop", "db", "region", "100") + line("shop", "db", "any", "30") +
		line("shop", "web", "any", "2.5e+06") + line("shop", "web", "degraded", "2.5e+06") + line("", "", "cluster", "7") + line("", "", "any", "0") + line("shop", "ill", "degraded", "3")
	hostile := line("shop", "db", "zone", "NaN") + line("shop", "db", "any", "+Inf") + line("shop", "db", "any", "1e+999") + line("shop", "db", "any", strings.Repeat("9", 400)) +
		line("shop", "<b>", "any", "1") + line("shop", "\x1b[31m", "any", "1") + line("shop", "db", "-", "1") + "not text \x00\xff\n"
	texts := map[string]string{"a": "# TYPE up gauge\n" + first, "b": line("shop", "db", "cluster", "1000") + hostile}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/dns/pods/http:"), ":")
		text, ok := texts[name]
		if rest != "9153/proxy/metrics" || !ok && name != "fails" {
			t.Errorf("%s is asked for", r.URL)
		}
		if ok {
			_, _ = io.WriteString(w, text)
		} else {
			http.Error(w, strings.Repeat("no ", 1<<16), http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	c := &objects.Cluster{Config: &rest.Config{Host: server.URL}, What: "cluster", Server: "https://cluster", Flags: "--context"}
	pods := []Pod{{Part: PartDNS, Namespace: "dns", Name: "unready"}, {Part: PartMember, Namespace: "dns", Name: "agent", Ready: true}}
	for _, name := range []string{"a", "b", "fails"} {
		pods = append(pods, Pod{Part: PartDNS, Namespace: "dns", Name: name, Ready: true})
	}
	f := Facts{Now: now, Local: local(), Traffic: FetchTraffic(t.Context(), c, pods)}
	page.Fresh(t, "testdata/traffic.txt", Screen{Wide: true}.Render(Build(f)))
	f.Traffic = FetchTraffic(t.Context(), c, pods[:2])
	if text := (Screen{Wide: true}).Render(Build(f)); !strings.Contains(text, "no DNS server of clusterset is ready here") || strings.Contains(text, "LEFT ZONE") {
		t.Errorf("without a server that is ready:\n%s", text)
	}
}
