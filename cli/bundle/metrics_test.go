package bundle

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/cli/objects"
)

// Any pod can have the labels of ours. The API server passes on its redirects: the user's token must not go along.
func TestMetricsOfAHostilePod(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("elsewhere was asked, with Authorization %q", r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	for _, c := range []struct {
		name, left string
		pod        http.HandlerFunc
	}{
		{"redirects", "redirects", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }},
		{"is endless", "too large", func(w http.ResponseWriter, _ *http.Request) {
			line := strings.Repeat("x", 1<<20)
			for {
				if _, err := io.WriteString(w, line); err != nil {
					return
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(c.pod)
			defer server.Close()
			from, err := NewCluster(&objects.Cluster{Config: &rest.Config{Host: server.URL, BearerToken: "the-users-token"}}, "bj")
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			w := NewWriter(&b, time.Now())
			w.metrics(t.Context(), from, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "dns", Name: "coredns-1"}}, 9153, "bj")
			if len(w.Left) != 1 || !strings.Contains(w.Left[0], c.left) {
				t.Errorf("left out: %.300q, want one with %q", w.Left, c.left)
			}
		})
	}
}
