package view

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/namespaces"
	"github.com/clusterset/clusterset/internal/topology"
)

// The agent's own settings are those of its pod, read as it reads them: from flags or its environment, lists may be repeated, and switches have
// several words for true.
func TestPods(t *testing.T) {
	pod := func(part string, c corev1.Container) *corev1.Pod {
		c.Name = "main"
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "clusterset-system", Name: "p", Labels: map[string]string{objects.Component: part}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{c}},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main", RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}},
		}
	}
	p := podOf(pod("member", corev1.Container{
		Image: "registry.example:5000/clusterset:v1.2.3", Command: []string{"/clusterset", "member"},
		Args: []string{"--metrics-bind-address", ":8080", "--import-namespaces=shop", "--import-namespaces", "team-*", "--create-namespaces=1", "--leader-elect", "--data-path=none"},
		Env:  []corev1.EnvVar{{Name: "CLUSTERSET_EXTEND_EVERYWHERE", Value: "TRUE"}, {Name: "CLUSTERSET_DATA_PATH", Value: "pods"}, {Name: "CLUSTERSET_EXCLUDE_NAMESPACES", Value: "a,b"}},
	}))
	want := Pod{
		Part: PartMember, Namespace: "clusterset-system", Name: "p", Version: "v1.2.3", Restarts: 3, Waits: "CrashLoopBackOff",
		settings: Settings{Imports: namespaces.Filter{Include: []string{"shop", "team-*"}, Exclude: []string{"a", "b"}}, CreateNamespaces: true, ExtendEverywhere: true, DataPath: "none"},
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("%+v, want %+v", p, want)
	}
	if s := SettingsOf([]Pod{{Part: PartDNS}, p}); s == nil || !s.imports("team-a") || s.imports("other") {
		t.Errorf("%+v", s)
	}
	if s := SettingsOf(nil); s != nil || !s.imports("other") || s.imports("kube-system") {
		t.Errorf("unknown settings: %+v", s)
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
		p := podOf(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{objects.Component: PartDNS, zone: "a"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Command: []string{"/coredns"}, Env: c.env}}},
		})
		if p.Location != c.want || p.ZoneOfNode != c.ofNode {
			t.Errorf("%+v: %+v %t, want %+v %t", c.env, p.Location, p.ZoneOfNode, c.want, c.ofNode)
		}
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
		{"a tenant's that says the same", []Pod{agent("a-tenant", true, true), agent("names", true, true)}, false},
	} {
		if got := SettingsOf(c.pods); (got != nil) != c.known || got != nil && !got.CreateNamespaces {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// cluster has objects. Where refuses has an error for a kind, it can't be read.
func cluster(refuses map[string]error, all ...client.Object) *objects.Cluster {
	scheme := connect.NewScheme()
	delete(refuses, "") // none
	refused := func(o runtime.Object) error {
		gvk, _ := apiutil.GVKForObject(o, scheme) // of an unknown kind the client says so
		return refuses[strings.TrimSuffix(gvk.Kind, "List")]
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(all...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if err := refused(list); err != nil {
				return err
			}
			return w.List(ctx, list, o...)
		},
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if err := refused(o); err != nil {
				return err
			}
			return w.Get(ctx, key, o, options...)
		},
	})
	b.WithIndex(&coordinationv1.Lease{}, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} })
	return &objects.Cluster{What: "cluster", Client: b.Build()}
}

// What the agent of the cluster here shows by its Lease, its pod and its Secret, its problem says (C82 of docs/spec/control-plane.md).
func TestTheAgentHereIsKnownByItsLease(t *testing.T) {
	lease := func(namespace string, age time.Duration, seconds int32) client.Object {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.MemberLeaderLease}}
		l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = ptr.To(metav1.NewMicroTime(time.Now().Add(-age))), ptr.To(seconds)
		return l
	}
	copied := func(change ...func(*clustersetv1alpha1.MemberCluster)) client.Object {
		m := member("beijing", "", clustersetv1alpha1.MemberReady, nil, change...)
		m.Labels = desired.Labels()
		return &m
	}
	left := func(m *clustersetv1alpha1.MemberCluster) { m.SetLeft(now) }
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.SystemNamespace, Name: api.HubSecret, Labels: map[string]string{api.LabelCluster: "beijing"}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: api.SystemNamespace, Name: "agent", Labels: map[string]string{objects.Component: PartMember}}}
	pod.Spec.Containers = []corev1.Container{{Command: []string{"/clusterset", "member"}, Args: []string{"--hub-secret=" + api.SystemNamespace + "/" + api.HubSecret}}}
	for name, c := range map[string]struct {
		objects []client.Object
		refused string // the kind that the account may not read
		want    string // the reasons and beginnings of messages, which leave out the seconds that the test itself may take
	}{
		"it runs":                         {[]client.Object{copied(), pod, secret, lease(api.SystemNamespace, 5*time.Second, 15)}, "", ""},
		"it is stopped":                   {[]client.Object{copied(), secret, lease(api.SystemNamespace, time.Minute, 15)}, "", "AgentStopped: the agent of this cluster has not renewed its Lease clusterset-system/clusterset-member-leader for 1m"},
		"it has stopped in good order":    {[]client.Object{copied(), secret, lease(api.SystemNamespace, 12*time.Second, 1)}, "", "AgentStopped: the agent of this cluster has not renewed its Lease clusterset-system/clusterset-member-leader for 1"},
		"the next is about to take over":  {[]client.Object{copied(), pod, secret, lease(api.SystemNamespace, 3*time.Second, 1)}, "", ""},
		"it was elsewhere before":         {[]client.Object{copied(), pod, secret, lease("old", time.Hour, 15), lease(api.SystemNamespace, time.Second, 15)}, "", ""},
		"its Leases may not be read":      {[]client.Object{copied(), pod, secret, lease(api.SystemNamespace, time.Minute, 15)}, "Lease", ""},
		"a program without a Lease":       {[]client.Object{copied(), secret}, "", ""},
		"its cluster has left":            {[]client.Object{copied(left), secret, lease(api.SystemNamespace, time.Hour, 1)}, "", "Left: this cluster has left"},
		"its cluster has been cleaned up": {[]client.Object{lease(api.SystemNamespace, time.Hour, 1)}, "", "NotAMember: it is in no cluster set"},
		"it waits":                        {[]client.Object{pod}, "", "NoCredentials: there is no Secret clusterset-system/clusterset-hub-credentials with its agent's credentials for the hub: one that starts waits for it"},
		"few may see that it waits":       {[]client.Object{pod}, "Secret", "NotAMember: it is in no cluster set"},
		"its Secret is gone":              {[]client.Object{copied(), pod, lease(api.SystemNamespace, time.Second, 15)}, "", "NoCredentials: there is no Secret clusterset-system/clusterset-hub-credentials"},
	} {
		f, err := Fetch(t.Context(), cluster(map[string]error{c.refused: apierrors.NewForbidden(corev1.Resource("it"), "", nil)}, c.objects...), nil)
		if err != nil {
			t.Fatal(err)
		}
		problems := Build(f).Problems
		switch {
		case c.want == "" && len(problems) > 0 || len(problems) > 1:
			t.Errorf("%s: %+v, want %q", name, problems, c.want)
		case c.want != "" && (len(problems) == 0 || !strings.HasPrefix(problems[0].Reason+": "+problems[0].Message, c.want)):
			t.Errorf("%s: %+v, want %q", name, problems, c.want)
		}
	}
}
