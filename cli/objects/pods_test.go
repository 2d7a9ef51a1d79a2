package objects

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Pods are found whatever the chart is called, and a service mesh's container before ours isn't taken for it.
func TestPods(t *testing.T) {
	pod := func(name, component string, commands ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{Component: component, "app.kubernetes.io/name": "ours"}}}
		for _, command := range commands {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Image: name + command, Command: []string{command}})
		}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Image: "from its own command"})
		return p
	}
	all := fake.NewClientBuilder().WithObjects(pod("agent", "member", "/proxy", "/clusterset"), pod("server", "dns", "/coredns"),
		pod("foreign", "member", "/other"), pod("elsewhere", "web", "/clusterset")).Build()
	found, err := (&Cluster{Client: all}).Pods(t.Context())
	if err != nil || len(found) != 2 {
		t.Fatalf("found %d pods, %v, want 2", len(found), err)
	}
	for i, want := range []string{"agent/clusterset", "server/coredns"} {
		if got := Program(&found[i]).Image; got != want {
			t.Errorf("found %s, want %s", got, want)
		}
	}
}

func TestImageTag(t *testing.T) {
	for image, want := range map[string][2]string{
		"clusterset/clusterset:v1.2.3": {"v1.2.3"}, "registry:5000/clusterset:v1.2.3": {"v1.2.3"}, "registry:5000/clusterset": {},
		"clusterset/clusterset:v1.2.3@sha256:00": {"v1.2.3", "sha256:00"}, "clusterset/clusterset@sha256:00": {"", "sha256:00"},
	} {
		if tag, digest := ImageTag(image); tag != want[0] || digest != want[1] {
			t.Errorf("%s: %q, %q, want %q", image, tag, digest, want)
		}
	}
}
