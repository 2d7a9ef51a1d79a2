package live

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/cli/view"
)

const typeLine = "# TYPE coredns_clusterset_answers_total counter\n"

// answer is what a pod answers to GET /metrics.
func answer(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Join(lines, "")) }
}

func counter(tier, n string) string {
	return fmt.Sprintf("coredns_clusterset_answers_total{tier=%q} %s\n", tier, n)
}

// endless answers with an error until nobody reads any more.
func endless(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusInternalServerError)
	for {
		if _, err := io.WriteString(w, "no "); err != nil {
			return
		}
	}
}

// memberAt returns a member whose API server passes requests on to this pod.
func memberAt(t *testing.T, pod http.HandlerFunc) *Member {
	server := httptest.NewServer(pod)
	t.Cleanup(server.Close)
	m, err := NewMember(&rest.Config{Host: server.URL, BearerToken: "the-users-token"}, "bj", "", console.New(console.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var dnsPod = view.Pod{Namespace: "dns", Name: "coredns-1", MetricsPort: 9153}

func TestMetricsOfADNSServer(t *testing.T) {
	m := memberAt(t, answer("# TYPE up gauge\nup NaN\n", typeLine, counter("zone", "40"), counter("any", "2e3")))
	got, err := m.answers(t.Context(), dnsPod)
	if want := map[string]float64{"zone": 40, "any": 2000}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// Any pod can say that it is a DNS server, and serve what it likes. It is named as unread, in few words.
func TestHostileMetrics(t *testing.T) {
	var tiers, series strings.Builder
	for i := range 5000 {
		tiers.WriteString(counter(fmt.Sprintf("t%d", i), "1"))
		fmt.Fprintf(&series, "coredns_clusterset_answers_total{tier=\"zone\",n=\"%d\"} 9e15\n", i)
	}
	for name, c := range map[string]struct {
		pod  http.HandlerFunc
		want string
	}{
		"too large":                       {answer(typeLine, counter("zone", "1"), strings.Repeat("# comment\n", maxMetrics/10)), "more than 4 MiB"},
		"an endless error":                {endless, ""},
		"not text":                        {answer("\x00\xff\x1f\x8b"), "read its metrics"},
		"a huge number":                   {answer(typeLine, counter("zone", "1e308")), "can't be a DNS server's"},
		"a tier with markup":              {answer(typeLine, counter("<img src=x onerror=alert(1)>", "1")), "can't be a DNS server's"},
		"thousands of tiers":              {answer(typeLine, tiers.String()), "can't be a DNS server's"},
		"thousands of series, a huge sum": {answer(typeLine, series.String()), "can't be a DNS server's"},
	} {
		t.Run(name, func(t *testing.T) {
			m := memberAt(t, c.pod)
			got, err := m.answers(t.Context(), dnsPod)
			if err == nil {
				t.Fatalf("%d tiers, want an error", len(got))
			}
			if said := m.unread(dnsPod, err); len(said) > 600 || !strings.HasPrefix(said, "dns/coredns-1: ") || !strings.Contains(said, c.want) {
				t.Errorf("%d characters, want %q: %.700s", len(said), c.want, said)
			}
		})
	}
}

// The API server passes on a pod's redirects. The user's token must not go along.
func TestMetricsThatRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("elsewhere was asked, with Authorization %q", r.Header.Get("Authorization"))
		answer(typeLine, counter("zone", "1"))(w, r)
	}))
	defer elsewhere.Close()
	m := memberAt(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) })
	if _, err := m.answers(t.Context(), dnsPod); err == nil || !strings.Contains(m.unread(dnsPod, err), "redirects") {
		t.Errorf("got %v", err)
	}
}
