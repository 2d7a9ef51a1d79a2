package objects

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/connect"
)

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
