package bundle

import (
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

// Any pod can have the labels of ours, and send what it likes: the answer is cut off. TestMetricsThatRedirect in cli/console/live tests the rest.
func TestMetricsOfAHostilePod(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		line := strings.Repeat("x", 1<<20)
		for err := error(nil); err == nil; {
			_, err = io.WriteString(w, line)
		}
	}))
	defer server.Close()
	from, err := NewCluster(&objects.Cluster{Config: &rest.Config{Host: server.URL}}, "bj")
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(io.Discard, time.Now())
	w.metrics(t.Context(), from, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "dns", Name: "coredns-1"}}, 9153, "bj")
	if len(w.Left) != 1 || !strings.Contains(w.Left[0], "too large") {
		t.Errorf("left out: %.300q, want one that is too large", w.Left)
	}
}
