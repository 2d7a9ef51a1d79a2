package view

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/internal/namespaces"
	"github.com/clusterset/clusterset/internal/topology"
)

// The agent's own settings are those of its pod, from flags or its environment; other software's pods aren't ours.
func TestPods(t *testing.T) {
	pod := func(part string, c corev1.Container) *corev1.Pod {
		c.Name = "main"
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "clusterset-system", Name: "p", Labels: map[string]string{labelPart: part}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{c}},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main", RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}},
		}
	}
	p, ok := podOf(pod("member", corev1.Container{
		Image: "registry.example:5000/clusterset:v1.2.3", Command: []string{"/clusterset", "member"},
		Args: []string{"--import-namespaces=shop,team-*", "--extend-everywhere", "--leader-elect"}, Env: []corev1.EnvVar{{Name: "CLUSTERSET_CREATE_NAMESPACES", Value: "true"}},
	}))
	want := Pod{
		Part: PartMember, Namespace: "clusterset-system", Name: "p", Version: "v1.2.3", Restarts: 3, Waits: "CrashLoopBackOff",
		settings: Settings{Imports: namespaces.Filter{Include: []string{"shop", "team-*"}, Exclude: []string{"kube-*"}}, CreateNamespaces: true, ExtendEverywhere: true, DataPath: "pods"},
	}
	if !ok || !reflect.DeepEqual(p, want) {
		t.Errorf("%+v, want %+v", p, want)
	}
	if s := SettingsOf([]Pod{{Part: PartDNS}, p}); s == nil || !s.imports("team-a") || s.imports("other") {
		t.Errorf("%+v", s)
	}
	if s := SettingsOf(nil); s != nil || !s.imports("other") || s.imports("kube-system") {
		t.Errorf("unknown settings: %+v", s)
	}
	if _, ok := podOf(pod("dns", corev1.Container{Command: []string{"/coredns"}})); ok {
		t.Error("another product's DNS server is ours")
	}
	if _, ok := podOf(pod("dns", corev1.Container{Command: []string{"/coredns"}, Env: []corev1.EnvVar{{Name: "CLUSTERSET_CLUSTER"}}})); !ok {
		t.Error("our DNS server isn't ours")
	}
}

// A DNS server's location is that of its variables, which may be its pod's labels.
func TestLocationOfAServer(t *testing.T) {
	variable := func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	label := func(name, label string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + label + "']"}}}
	}
	const zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
	cluster := variable("CLUSTERSET_CLUSTER", "Beijing")
	for _, c := range []struct {
		env    []corev1.EnvVar
		want   topology.Location
		ofNode bool
	}{
		{[]corev1.EnvVar{cluster, variable("CLUSTERSET_ZONE", "z"), variable("CLUSTERSET_REGION", "r")}, topology.Location{Cluster: "beijing", Zone: "z", Region: "r"}, false},
		{[]corev1.EnvVar{cluster, label("CLUSTERSET_ZONE", zone), label("CLUSTERSET_REGION", region)}, topology.Location{Cluster: "beijing", Zone: "a"}, true},
		{[]corev1.EnvVar{cluster, variable("CLUSTERSET_ZONE", "-"), variable("CLUSTERSET_REGION", "")}, topology.Location{Cluster: "beijing"}, false},
	} {
		p, ok := podOf(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelPart: PartDNS, zone: "a"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Command: []string{"/coredns"}, Env: c.env}}},
		})
		if !ok || p.Location != c.want || p.ZoneOfNode != c.ofNode {
			t.Errorf("%+v: %+v %t, want %+v %t", c.env, p.Location, p.ZoneOfNode, c.want, c.ofNode)
		}
	}
}

// An agent's flags are read as it reads them: lists may be repeated, and switches have several words for true.
func TestSettingsAreReadAsTheAgentDoes(t *testing.T) {
	got := settingsOf([]string{
		"/clusterset", "member", "--metrics-bind-address", ":8080", "--import-namespaces=shop", "--import-namespaces", "team-*", "--create-namespaces=1", "--leader-elect", "--data-path=none",
	}, []corev1.EnvVar{{Name: "CLUSTERSET_EXTEND_EVERYWHERE", Value: "TRUE"}, {Name: "CLUSTERSET_DATA_PATH", Value: "pods"}, {Name: "CLUSTERSET_EXCLUDE_NAMESPACES", Value: "a,b"}})
	want := Settings{Imports: namespaces.Filter{Include: []string{"shop", "team-*"}, Exclude: []string{"a", "b"}}, CreateNamespaces: true, ExtendEverywhere: true, DataPath: "none"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A tenant's pod that looks like an agent's doesn't decide what the agents' settings are.
func TestOnlyTheAgentsOwnPodsDecide(t *testing.T) {
	agent := func(namespace string, ready, creates bool) Pod {
		return Pod{Part: PartMember, Namespace: namespace, Ready: ready, settings: Settings{CreateNamespaces: creates}}
	}
	for _, c := range []struct {
		name  string
		pods  []Pod
		known bool
	}{
		{"a tenant's first", []Pod{agent("a-tenant", true, false), agent("clusterset-system", true, true)}, true},
		{"an update whose pod isn't ready", []Pod{agent("clusterset-system", false, false), agent("clusterset-system", true, true)}, true},
		{"none is ready", []Pod{agent("clusterset-system", false, true)}, true},
		{"in another namespace", []Pod{agent("names", true, true)}, true},
		{"in another namespace, and a tenant's", []Pod{agent("a-tenant", true, false), agent("names", true, true)}, false},
		{"a tenant's that says the same", []Pod{agent("a-tenant", true, true), agent("names", true, true)}, true},
	} {
		if got := SettingsOf(c.pods); (got != nil) != c.known || got != nil && !got.CreateNamespaces {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
