package clusterset_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset/clusterset/test/faultproxy"
	"github.com/clusterset/clusterset/test/kube"
)

// gaugeLabels returns the values of the label source in clusterset's gauges.
func gaugeLabels(t *testing.T) map[string]bool {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]bool{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "coredns_clusterset_") || strings.HasSuffix(f.GetName(), "_total") {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "source" {
					labels[l.GetValue()] = true
				}
			}
		}
	}
	return labels
}

func stanzaOf(zone, source string) string {
	return fmt.Sprintf("%s:0 {\n    bind 127.0.0.1\n    clusterset {\n        startup_timeout 1ms\n        %s\n    }\n}\n", zone, source)
}

// A gauge of a source that no longer runs is misleading, and so is one gauge for two sources.
func TestGaugesAreThoseOfTheSourcesThatRun(t *testing.T) {
	dir := setupFiles(t)
	one, two := provideUnreachable(t, t.TempDir(), nil), provideUnreachable(t, t.TempDir(), nil)
	files := "manifests " + filepath.Join(dir, "objects")
	s := startLive(t, stanzaOf("a.test", one)+stanzaOf("b.test", two)+stanzaOf("c.test", one))
	expect := func(step string, want ...string) {
		t.Helper()
		got := gaugeLabels(t)
		for _, label := range want {
			if !got[label] {
				t.Errorf("%s: no gauge of %s", step, label)
			}
			delete(got, label)
		}
		if len(got) > 0 {
			t.Errorf("%s: gauges of %v", step, got)
		}
	}
	expect("three stanzas, two API servers", "kubernetes", "kubernetes-2")
	if err := s.reload(stanzaOf("a.test", two)); err != nil {
		t.Fatal(err)
	}
	expect("one API server", "kubernetes")
	if err := s.reload(stanzaOf("a.test", files)); err != nil {
		t.Fatal(err)
	}
	expect("files", "manifests")
	if err := s.reload(stanzaOf("a.test", one) + ".:0 {\n    startupfails\n}\n"); err == nil {
		t.Fatal("a plugin that fails to start doesn't fail the reload")
	}
	expect("a reload that failed", "manifests")
	expectMetric(t, 1, "source_synced", "source", "manifests", "kind", "EndpointSlice") // its start waited a millisecond only
	const none = ".:0 {\n    bind 127.0.0.1\n}\n"
	if err := s.reload(none); err != nil {
		t.Fatal(err)
	}
	expect("no stanza")
}

// A failed reload leaves the source that it started running, if the old server had no clusterset stanza. The next Corefile with a
// clusterset stanza stops it.
func TestAnAbandonedSourceIsEndedByTheNext(t *testing.T) {
	const none = ".:0 {\n    bind 127.0.0.1\n}\n"
	unreachable := provideUnreachable(t, t.TempDir(), nil)
	s := startLive(t, none)
	before, _ := takeCensus()
	for range 3 {
		if err := s.reload(stanzaOf("a.test", unreachable) + ".:0 {\n    bind 127.0.0.1\n    startupfails\n}\n"); err == nil {
			t.Fatal("a plugin that fails to start doesn't fail the reload")
		}
	}
	if err := s.reload(stanzaOf("a.test", "manifests "+filepath.Join(setupFiles(t), "objects"))); err != nil {
		t.Fatal(err)
	}
	if err := s.reload(none); err != nil {
		t.Fatal(err)
	}
	expectCensus(t, before)
	if got := gaugeLabels(t); len(got) > 0 {
		t.Errorf("gauges of %v", got)
	}
}

// After a failed watch the Reflector lists, which fails too. Both together count as one failure and write one line to the log.
func TestAFailedWatchIsCountedOnce(t *testing.T) {
	var watches, lists atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.Count(r.URL.Path, "/") == 3 { // /apis/GROUP/VERSION
			_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
				TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
				APIResources: []metav1.APIResource{{Name: "serviceimports"}, {Name: "endpointslices"}, {Name: "globalservices"}, {Name: "memberclusters"}},
			})
			return
		}
		if strings.HasSuffix(r.URL.Path, "/globalservices") {
			if r.URL.Query().Get("watch") != "" {
				watches.Add(1)
			} else {
				lists.Add(1)
			}
		}
		faultproxy.Status(http.StatusForbidden, metav1.StatusReasonForbidden)(w, r)
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		CurrentContext: "c",
	}, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	before := metric(t, "source_errors_total", "source", "kubernetes", "kind", "GlobalService")
	s := startLive(t, stanzaOf("a.test", "kubeconfig "+kubeconfig))
	kube.Eventually(t, func() error {
		if lists.Load() < 5 {
			return fmt.Errorf("%d lists", lists.Load())
		}
		return nil
	})
	if err := s.reload(".:0 {\n    bind 127.0.0.1\n}\n"); err != nil { // waits until the sources have stopped
		t.Fatal(err)
	}
	rounds := float64(max(watches.Load(), lists.Load()))
	if got := metric(t, "source_errors_total", "source", "kubernetes", "kind", "GlobalService") - before; got > rounds || got < rounds-1 {
		t.Errorf("%v failures were counted of %d watches and %d lists", got, watches.Load(), lists.Load())
	}
}
