package clusterset_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/test/faultproxy"
	"github.com/clusterset/clusterset/test/kube"
)

// apiProxy is a proxy in front of the API server, with a kubeconfig for CoreDNS.
type apiProxy struct {
	*faultproxy.API
	kubeconfig string
}

// startProxy starts a proxy and writes a kubeconfig for it.
func startProxy(t *testing.T, control *kube.ControlPlane) *apiProxy {
	t.Helper()
	proxy, err := faultproxy.NewAPI(control.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return &apiProxy{proxy, writeKubeconfig(t, proxy.URL())}
}

// liveLostWatches ends every watch in each way in which a watch can end. While none can be started again, it changes and
// deletes objects and checks the answers that clients get.
func liveLostWatches(t *testing.T, control *kube.ControlPlane) {
	proxy := startProxy(t, control)
	s := startLive(t, liveCorefile(proxy.kubeconfig))
	const (
		web   = "A web.watches.svc.clusterset.local"
		db    = "A db.watches.svc.clusterset.local"
		brief = "A brief.watches.svc.global"
	)
	control.Apply(t, namespaceYAML("watches"), importYAML("watches", "web", "ClusterSetIP", "10.0.0.1"), importYAML("watches", "db", "Headless"))
	n := 0
	answers := func(n int) map[string]string {
		return map[string]string{web: fmt.Sprintf("10.0.1.%d", n), db: fmt.Sprintf("10.0.2.%d", n)}
	}
	change := func() map[string]string {
		n++
		now := answers(n)
		control.Apply(t, importYAML("watches", "web", "ClusterSetIP", now[web]), sliceYAML("watches", "db-1", "db", "watches-c", now[db]))
		return now
	}
	nothing := func(string) ([]byte, error) { return nil, nil }

	for _, c := range []struct {
		name  string
		end   func(mediaType string) ([]byte, error)
		fault http.HandlerFunc
	}{
		{"at its time limit", nothing, nil},
		{"with an ERROR event 410 Expired", faultproxy.Expired, nil},
		{"with half an event and a broken connection", faultproxy.Torn, nil},
		{"and the next is 410 Gone", nothing, faultproxy.Status(http.StatusGone, metav1.StatusReasonExpired)},
		{"and the next is 429 with a time to wait", nothing, faultproxy.Status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "Retry-After", "1")},
		{"and the next is a load balancer's 503", faultproxy.Torn, faultproxy.BadGateway},
		{"and the next is 401", nothing, faultproxy.Status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)},
		{"and the next is 404, as of an API server that has no CRDs yet", nothing, faultproxy.Status(http.StatusNotFound, metav1.StatusReasonNotFound)},
		{"and the next connection breaks", faultproxy.Torn, faultproxy.Break},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := change()
			control.Apply(t, globalYAML("watches", "brief", "10.0.3.1"))
			s.expect(t, before)
			s.expect(t, map[string]string{brief: "10.0.3.1"})
			next := answers(n + 1)
			stop := s.askAlong(t, map[string][]string{web: {before[web], next[web]}, db: {before[db], next[db]}, brief: {"10.0.3.1", "NXDOMAIN"}})
			if c.fault != nil {
				proxy.Begin(c.fault)
			}
			if err := proxy.End(c.end); err != nil {
				t.Error(err)
			}
			after := change()
			control.Delete(t, globalYAML("watches", "brief"))
			if c.fault != nil {
				// After some retries, the answers are still the same.
				kube.Eventually(t, func() error {
					if got := proxy.Faulted(); got < 10 {
						return fmt.Errorf("only %d requests came", got)
					}
					return nil
				})
				for question, answer := range before {
					if got, err := s.ask(question); got != answer || err != nil {
						t.Errorf("dig %s: got %s, %v, want %s as before", question, got, err, answer)
					}
				}
				proxy.Begin(nil)
			}
			s.expect(t, after)
			s.expect(t, map[string]string{brief: "NXDOMAIN"}) // deleted while no watch was open
			stop()
			for _, kind := range liveKinds {
				expectMetric(t, 1, "source_synced", "source", "kubernetes", "kind", kind)
				expectMetric(t, 0, "source_absent", "source", "kubernetes", "kind", kind)
			}
		})
	}
	proxy.Begin(faultproxy.Break)
	if err := proxy.End(faultproxy.Torn); err != nil {
		t.Error(err)
	}
	for _, kind := range liveKinds { // the metric says that the API server is away
		expectMetric(t, 0, "source_synced", "source", "kubernetes", "kind", kind)
	}
	proxy.Begin(nil)
	s.expect(t, change())
	expectWatched(t, proxy)
}

// expectWatched waits until each kind has exactly one watch.
func expectWatched(t *testing.T, proxy *apiProxy) {
	t.Helper()
	kube.Eventually(t, func() error {
		got := proxy.Watched()
		slices.Sort(got)
		if want := "endpointslices globalservices memberclusters reachabilities serviceimports"; strings.Join(got, " ") != want {
			return fmt.Errorf("watched: %q, want %s", got, want)
		}
		return nil
	})
}

func liveSharedWatches(t *testing.T, control *kube.ControlPlane) {
	proxy := startProxy(t, control)
	s := startLive(t, withSource(`here.test:0 {
    bind 127.0.0.1
    clusterset {
        dialect global
        location here a r1
    }
}
there.test:0 {
    bind 127.0.0.1
    clusterset {
        dialect global
        location there z r2
    }
}
`, "kubeconfig "+proxy.kubeconfig))
	control.Apply(t, namespaceYAML("shared"), importYAML("shared", "db", "Headless"),
		memberYAML("shared-here", "a", "r1", false), memberYAML("shared-there", "z", "r2", false),
		sliceYAML("shared", "db-1", "db", "shared-here", "10.0.0.1"), sliceYAML("shared", "db-2", "db", "shared-there", "10.0.0.2"))
	const here, there = "A db.shared.svc.here.test", "A db.shared.svc.there.test"
	s.expect(t, map[string]string{here: "10.0.0.1", there: "10.0.0.2"})
	expectWatched(t, proxy)
	control.ApplyStatus(t, memberStatusYAML("shared-here", "Suspect"))
	s.expect(t, map[string]string{here: "10.0.0.2", there: "10.0.0.2"})
	expectWatched(t, proxy)
}
