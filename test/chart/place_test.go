package chart

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// tellsPodsTheirPlace binds a DNS server's pod to a node, as the scheduler does, and checks the environment that the kubelet would
// derive from the pod.
func (c *cluster) tellsPodsTheirPlace(t *testing.T) {
	all := objects(t, render(t, Options{"place", "clusterset-system", "", newest}).Manifests)
	defer c.admitPods(t, all)()
	clients, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, []byte(`
apiVersion: v1
kind: Node
metadata: {name: place, labels: {topology.kubernetes.io/zone: cn-north-1a, topology.kubernetes.io/region: cn-north-1}}
`))
	d := deployment(t, all, "dns")
	pods := clients.CoreV1().Pods(d.Namespace)
	pod := podOf(d)
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "place"}}
	if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bound, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := environment(t, d, bound.Labels)
	for name, want := range map[string]string{"CLUSTERSET_ZONE": "cn-north-1a", "CLUSTERSET_REGION": "cn-north-1"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q; the pod's labels are %v", name, got[name], want, bound.Labels)
		}
	}
}

// environment returns a container's environment as the kubelet would set it.
func environment(t *testing.T, d *appsv1.Deployment, labels map[string]string) map[string]string {
	t.Helper()
	env := make(map[string]string)
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		if env[e.Name] = e.Value; e.ValueFrom != nil {
			label, ok := strings.CutPrefix(e.ValueFrom.FieldRef.FieldPath, "metadata.labels['")
			if !ok {
				t.Fatalf("%s comes from %s", e.Name, e.ValueFrom.FieldRef.FieldPath)
			}
			env[e.Name] = labels[strings.TrimSuffix(label, "']")]
		}
	}
	return env
}
