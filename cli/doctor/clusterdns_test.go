package doctor

import (
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/view"
)

// Once our servers have taken the cluster DNS's place, it is their Corefile that counts, whatever the old one says. While old servers run, it is theirs.
func TestDoctorAfterTheTakeover(t *testing.T) {
	corefile, err := os.ReadFile(filepath.Join("..", "..", "corefile.example"))
	if err != nil {
		t.Fatal(err)
	}
	configMap := func(name, corefile string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Data: map[string]string{"Corefile": corefile}}
	}
	labels := map[string]string{labelClusterDNS: clusterDNS, objects.Component: view.PartDNS}
	var spec corev1.PodSpec
	spec.Containers = []corev1.Container{{Command: []string{"/coredns"}, Env: []corev1.EnvVar{{Name: "CLUSTERSET_CLUSTER"}}}}
	spec.Volumes = []corev1.Volume{{Name: "corefile", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "ours"}}}}}
	pod := func(name string, labels map[string]string, spec corev1.PodSpec) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: labels}, Spec: spec}
	}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ours", Labels: labels},
		Spec:       appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}},
	}
	elsewhere := deployment.DeepCopy()
	elsewhere.Namespace = "other"
	old := pod("coredns", map[string]string{labelClusterDNS: clusterDNS}, corev1.PodSpec{Containers: []corev1.Container{{Args: []string{"-conf", "/etc/coredns/Corefile"}}}})
	key := func(name string) client.ObjectKey { return client.ObjectKey{Namespace: "kube-system", Name: name} }
	for _, c := range []struct {
		name  string
		are   []client.Object
		want  string
		level Level
	}{
		{"taken over", []client.Object{deployment, pod("ours", labels, spec)}, "ours", OK},
		{"our pods can't be created", []client.Object{deployment}, "ours", OK},
		{"both run", []client.Object{deployment, pod("ours", labels, spec), old}, "coredns", Problem},
		{"a namespace that isn't the cluster DNS's", []client.Object{elsewhere}, "coredns", Problem},
		{"only the old ones", []client.Object{old}, "coredns", Problem},
	} {
		c.are = append(c.are, configMap("coredns", stock), configMap("ours", string(corefile)))
		f := Facts{Zones: zones}
		in := cluster(c.are...)
		f.Workloads, f.WorkloadsErr = workloads(t.Context(), in)
		f.findDNS(t.Context(), in)
		if f.ClusterDNS.Key != key(c.want).String() {
			t.Errorf("%s: it reads %s, want %s", c.name, f.ClusterDNS.Key, c.want)
		}
		for _, got := range checkClusterDNS(&f) {
			if got.Level != c.level {
				t.Errorf("%s: %+v, want %s", c.name, got, c.level)
			}
		}
	}
}
