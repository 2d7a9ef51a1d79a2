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

func TestRedact(t *testing.T) {
	const jwt = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
	for _, secret := range []string{
		jwt, "Bearer abcdefgh12345678", "basic YWRtaW46aHVudGVyMg==", `"token": "0123456789abcdef"`, "password=correct-horse-battery", "client-key-data: LS0tLS1CRUdJTiBSU0EK",
		"password: Pa$$w0rd-2024!", "secretKey=hunter2",
		"-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIA\n-----END EC PRIVATE KEY-----",
	} {
		if got := string(Redact([]byte("before " + secret + " after"))); got != "before [removed] after" && got != `before "[removed]" after` {
			t.Errorf("%s: %s", secret, got)
		}
	}
	if got := string(Redact([]byte("before -----BEGIN PRIVATE KEY-----\nMHcCAQEEIA\nthe log ends"))); got != "before [removed]" {
		t.Errorf("a key without its end became %s", got)
	}
	for _, harmless := range []string{
		"tokens are renewed", "token-lifetime: 336h", "the hub doesn't accept this member's token", "clusterset_hub_token_expiry_seconds 1.7e+09", "10.1.2.3:8080", strings.Repeat("a", 100),
	} {
		if got := string(Redact([]byte(harmless))); got != harmless {
			t.Errorf("%s became %s", harmless, got)
		}
	}
}

// Any pod can have the labels of ours, and send what it likes: the answer is cut off. TestPodsThatRedirect in cli/objects tests the rest.
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
