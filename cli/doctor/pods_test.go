package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/topology"
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
		asked client.ObjectKey
		want  string
		level Level
	}{
		{"taken over", []client.Object{deployment, pod("ours", labels, spec)}, ClusterDNS, "ours", OK},
		{"our pods can't be created", []client.Object{deployment}, ClusterDNS, "ours", OK},
		{"both run", []client.Object{deployment, pod("ours", labels, spec), old}, ClusterDNS, "coredns", Problem},
		{"a namespace that isn't the cluster DNS's", []client.Object{elsewhere}, ClusterDNS, "coredns", Problem},
		{"only the old ones", []client.Object{old}, ClusterDNS, "coredns", Problem},
		{"another was asked for", []client.Object{deployment}, key("mine"), "mine", Skipped},
	} {
		c.are = append(c.are, configMap("coredns", stock), configMap("ours", string(corefile)))
		f := Facts{Zones: zones}
		in := cluster(c.are...)
		f.readClusterDNS(t.Context(), in, c.asked)
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

// Servers that rank from another place than their cluster's MemberCluster says are a problem, unless that is right: a node's own zone in a cluster
// with several.
func TestServersElsewhereThanTheirCluster(t *testing.T) {
	at := func(cluster, zone, region string) topology.Location {
		return topology.Location{Cluster: cluster, Zone: zone, Region: region}
	}
	member := func(region string, zones, ofNodes []string) (m clustersetv1alpha1.MemberCluster) {
		m.Name, m.Spec.Region, m.Spec.Zones, m.Status.Zones = "beijing", region, zones, ofNodes
		return m
	}
	one, two := member("north", []string{"a"}, nil), member("north", nil, []string{"a", "b"})
	none, nodes := member("", nil, nil), member("", nil, []string{"a"})
	for _, c := range []struct {
		name   string
		is     topology.Location
		ofNode bool
		member clustersetv1alpha1.MemberCluster
		want   Level
	}{
		{"the same", at("beijing", "a", "north"), false, one, OK},
		{"a node's", at("beijing", "b", "north"), true, two, OK},
		{"a node's in a zone that spec doesn't name", at("beijing", "b", "north"), true, one, OK},
		{"one of several zones", at("beijing", "b", "north"), false, two, OK},
		{"several zones, and a pod without its node's labels", at("beijing", "", "north"), true, two, OK},
		{"the cluster has none", at("beijing", "a", "north"), false, none, OK},
		{"neither has one", at("beijing", "", ""), true, none, OK},

		{"the old name of a cluster", at("peking", "a", "north"), false, one, Problem},
		{"no name", at("", "a", "north"), false, one, Problem},
		{"no location, before Kubernetes 1.35", at("beijing", "", ""), true, one, Problem},
		{"no zone", at("beijing", "", "north"), true, one, Problem},
		{"no zone, which the nodes have", at("beijing", "", ""), true, nodes, Problem},
		{"no region", at("beijing", "a", ""), false, two, Problem},
		{"a typo in the region", at("beijing", "a", "nroth"), false, one, Problem},
		{"the nodes' region is another", at("beijing", "a", "cn-north"), true, one, Problem},
		{"a typo in the zone", at("beijing", "A", "north"), false, one, Problem},
	} {
		pods := []view.Pod{{Part: view.PartDNS, Name: "a", Location: c.is, ZoneOfNode: c.ofNode}, {Part: view.PartMember, Name: "b"}}
		local := view.LocalFacts{Cluster: "beijing", Members: []clustersetv1alpha1.MemberCluster{{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}}, c.member}, Pods: pods}
		var f, unknown Facts
		f.See(&view.Facts{Local: &local}, view.Report{})
		if got := checkLocation(&f); len(got) != 1 || got[0].Level != c.want {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
		local.Cluster = ""
		unknown.See(&view.Facts{Local: &local}, view.Report{})
		if got := checkLocation(&unknown); got != nil {
			t.Errorf("of a cluster whose name isn't known: %+v", got)
		}
	}
}
