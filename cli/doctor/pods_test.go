package doctor

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/connect"
)

func cluster(o ...client.Object) *objects.Cluster {
	return &objects.Cluster{Client: fake.NewClientBuilder().WithScheme(connect.NewScheme()).WithObjects(o...).Build()}
}

// Pods that the API server refuses to create are a problem, of which its reason is part, and not something that was never installed.
func TestPodsThatCannotBeCreated(t *testing.T) {
	labels := map[string]string{objects.Component: view.PartDNS}
	metadata := metav1.ObjectMeta{Namespace: "clusterset-system", Name: "clusterset-dns", Labels: labels}
	server := corev1.Container{Command: []string{"/coredns"}, Env: []corev1.EnvVar{{Name: "CLUSTERSET_CLUSTER"}}}
	template := func(c corev1.Container) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	}
	deployment := func(replicas *int32, pods int32, refused string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metadata, Spec: appsv1.DeploymentSpec{Replicas: replicas, Template: template(server)}, Status: appsv1.DeploymentStatus{Replicas: pods}}
		if refused != "" {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: refused}}
		}
		return d
	}
	foreign := deployment(nil, 0, "")
	foreign.Spec.Template = template(corev1.Container{Command: []string{"/coredns"}})
	zero, three := int32(0), int32(3)
	const forbidden = `pods "clusterset-dns-1" is forbidden: violates PodSecurity "restricted:latest"`
	for _, c := range []struct {
		name string
		is   client.Object
		want string // empty if there is no problem
	}{
		{"none", deployment(&three, 0, forbidden), "0 of 3 pods of the DNS servers exist (Deployment clusterset-system/clusterset-dns), and no more can be created: " + forbidden},
		{"one of three", deployment(&three, 1, forbidden), "1 of 3 pods"},
		{"those of an upgrade", deployment(&three, 3, forbidden), "3 of 3 pods"},
		{"a reason isn't known", deployment(nil, 0, ""), "0 of 1 pods of"},
		{"all are there", deployment(&three, 3, ""), ""},
		{"more, in an upgrade", deployment(&three, 4, ""), ""},
		{"none is wanted", deployment(&zero, 0, ""), ""},
		{"other software's", foreign, ""},
		{"one node's", &appsv1.DaemonSet{ObjectMeta: metadata, Spec: appsv1.DaemonSetSpec{Template: template(server)}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, CurrentNumberScheduled: 2}}, "2 of 3 pods"},
		{"every node's", &appsv1.DaemonSet{ObjectMeta: metadata, Spec: appsv1.DaemonSetSpec{Template: template(server)}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, CurrentNumberScheduled: 3}}, ""},
	} {
		var f Facts
		f.Cluster = &Server{}
		if f.Workloads, f.WorkloadsErr = workloads(t.Context(), cluster(c.is)); f.WorkloadsErr != nil {
			t.Fatal(f.WorkloadsErr)
		}
		all := checkWorkloads(&f)
		switch {
		case c.want == "" && len(all) == 0:
		case len(all) != 1 || c.want == "" || all[0].Level != Problem || !strings.HasPrefix(all[0].Message, c.want):
			t.Errorf("%s: %+v, want %q", c.name, all, c.want)
		}
		for _, finding := range checkPods(&f) {
			if len(all) > 0 && strings.Contains(finding.Message, programs[view.PartDNS]) {
				t.Errorf("%s: besides, %s", c.name, finding.Message)
			}
		}
	}
	if all := checkWorkloads(&Facts{WorkloadsErr: errors.New("forbidden")}); len(all) != 1 || all[0].Level != Skipped {
		t.Errorf("without the right: %+v", all)
	}
}
