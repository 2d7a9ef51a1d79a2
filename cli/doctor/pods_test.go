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
		{"all are there", deployment(&three, 3, ""), ""},
		{"none is wanted", deployment(&zero, 0, ""), ""},
		{"other software's", foreign, ""},
		{"one node's", &appsv1.DaemonSet{ObjectMeta: metadata, Spec: appsv1.DaemonSetSpec{Template: template(server)}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, CurrentNumberScheduled: 2}}, "2 of 3 pods"},
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
	none := member("", nil, nil)
	for _, c := range []struct {
		name   string
		is     topology.Location
		ofNode bool
		member clustersetv1alpha1.MemberCluster
		want   Level
	}{
		{"a node's", at("beijing", "b", "north"), true, two, OK},
		{"one of several zones", at("beijing", "b", "north"), false, two, OK},
		{"several zones, and a pod without its node's labels", at("beijing", "", "north"), true, two, OK},
		{"the cluster has none", at("beijing", "a", "north"), false, none, OK},

		{"the old name of a cluster", at("peking", "a", "north"), false, one, Problem},
		{"no zone", at("beijing", "", "north"), true, one, Problem},
		{"no region", at("beijing", "a", ""), false, two, Problem},
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
