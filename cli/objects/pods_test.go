package objects

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/connect"
)

// Pods are found whatever the chart is called. Other software's aren't ours, nor is a service mesh's container before ours.
func TestPods(t *testing.T) {
	pod := func(name, component, env string, commands ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{Component: component, "app.kubernetes.io/name": "ours"}}}
		for _, command := range commands {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Image: name + command, Command: strings.Fields(command), Env: []corev1.EnvVar{{Name: env}}})
		}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Image: "from its own command"})
		return p
	}
	all := fake.NewClientBuilder().WithObjects(pod("agent", "member", "", "/proxy", "/clusterset member"), pod("server", "dns", EnvCluster, "/coredns"),
		pod("theirs", "dns", "", "/coredns"), pod("foreign", "member", "", "/other"), pod("elsewhere", "web", "", "/clusterset member")).Build()
	found, err := (&Cluster{Client: all}).Pods(t.Context())
	if err != nil || len(found) != 2 {
		t.Fatalf("found %d pods, %v, want 2", len(found), err)
	}
	for i, want := range []string{"agent/clusterset member", "server/coredns"} {
		if got := Program(&found[i].Spec, found[i].Labels[Component]).Image; got != want {
			t.Errorf("found %s, want %s", got, want)
		}
	}
}

// The API server passes on a pod's redirects. The user's token must not go along.
func TestPodsThatRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("elsewhere was asked, with Authorization %q", r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer server.Close()
	pods, err := PodClient(&rest.Config{Host: server.URL, BearerToken: "the-users-token"}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pods.CoreV1().Pods("dns").ProxyGet("http", "coredns-1", "9153", "metrics", nil).DoRaw(t.Context())
	if err == nil || !strings.Contains(err.Error(), "redirects") {
		t.Errorf("got %v", err)
	}
}

func TestImageTag(t *testing.T) {
	for image, want := range map[string]string{
		"clusterset/clusterset:v1.2.3": "v1.2.3", "registry:5000/clusterset:v1.2.3": "v1.2.3", "registry:5000/clusterset": "",
		"clusterset/clusterset:v1.2.3@sha256:00": "v1.2.3", "clusterset/clusterset@sha256:00": "",
	} {
		if got := ImageTag(image); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}

// The agent's Reachability names the cluster where the Secret is elsewhere, or was copied without its label.
func TestNameWithoutTheSecret(t *testing.T) {
	secret := func(labels map[string]string) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.SystemNamespace, Name: api.HubSecret, Labels: labels}}
	}
	reach := &clustersetv1alpha1.Reachability{ObjectMeta: metav1.ObjectMeta{Name: clustersetv1alpha1.ReachabilityName}, Cluster: "beijing"}
	for name, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"the Secret":                 {[]client.Object{secret(map[string]string{api.LabelCluster: "shanghai"}), reach}, "shanghai"},
		"a Secret without the label": {[]client.Object{secret(nil), reach}, "beijing"},
		"no Secret":                  {[]client.Object{reach}, "beijing"},
		"nothing":                    {nil, ""},
	} {
		cluster := &Cluster{Client: fake.NewClientBuilder().WithScheme(connect.NewScheme()).WithObjects(c.objects...).Build()}
		if got := cluster.Name(t.Context()); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
