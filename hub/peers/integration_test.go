package peers_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/hub/access"
	"github.com/clusterset/clusterset/hub/peers"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/hubtest"
	"github.com/clusterset/clusterset/test/kube"
)

// world is a hub whose process maintains the rights of communities. The process has only the rights of its role.
type world struct {
	*testing.T
	plane  *kube.ControlPlane
	admin  client.Client
	agents map[string]client.WithWatch // with the members' own credentials
	config map[string]*rest.Config
}

func newWorld(t *testing.T, opts ...kube.Option) *world {
	t.Helper()
	w := &world{T: t, plane: kube.Start(t, opts...), agents: map[string]client.WithWatch{}, config: map[string]*rest.Config{}}
	w.admin = hubtest.Admin(t, w.plane)
	hubtest.Run(t, hubtest.Account(t, w.plane, "hub"), peers.Setup)
	return w
}

// join joins a cluster that has a running agent and one service on the hub.
func (w *world) join(name string, communities ...string) {
	w.Helper()
	kubeconfig, err := join.Join(w.Context(), join.At(w.plane.Config()), join.Options{Cluster: name, Spec: clustersetv1alpha1.MemberClusterSpec{Communities: communities}})
	if err != nil {
		w.Fatal(err)
	}
	if w.config[name], err = clientcmd.RESTConfigFromKubeConfig(kubeconfig); err != nil {
		w.Fatal(err)
	}
	w.config[name].QPS = -1
	if w.agents[name], err = client.NewWithWatch(w.config[name], client.Options{Scheme: connect.NewScheme()}); err != nil {
		w.Fatal(err)
	}
	w.beat(name)
	w.export(name, "web")
	mc := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Ready"}}`))
	if err := w.admin.Status().Patch(w.Context(), mc, patch); err != nil {
		w.Fatal(err)
	}
}

// beat makes a member's agent create its Lease and its report, as soon as it has the right to.
func (w *world) beat(name string) {
	w.Helper()
	kube.Eventually(w, func() error {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(name), Name: api.HeartbeatLease}}
		report := &clustersetv1alpha1.MemberReport{ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: clustersetv1alpha1.MemberReportName}}
		return errors.Join(w.agents[name].Update(w.Context(), lease), client.IgnoreAlreadyExists(w.agents[name].Create(w.Context(), report)))
	})
}

func (w *world) export(cluster, name string) {
	w.Helper()
	err := w.agents[cluster].Create(w.Context(), &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: name + ".shop"},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: "shop", ServiceName: name, Type: mcsv1beta1.ClusterSetIP, ExportedAt: metav1.Now(),
		},
	})
	if err != nil {
		w.Fatal(err)
	}
}

// put sets the communities of a member.
func (w *world) put(name string, communities ...string) {
	w.Helper()
	kube.Eventually(w, func() error {
		mc := &clustersetv1alpha1.MemberCluster{}
		if err := w.admin.Get(w.Context(), client.ObjectKey{Name: name}, mc); err != nil {
			return err
		}
		mc.Spec.Communities = communities
		return w.admin.Update(w.Context(), mc)
	})
}

// reads reads the records and the report of one cluster with the credentials of another.
func (w *world) reads(by, of string) error {
	in := client.InNamespace(api.MemberNamespace(of))
	return errors.Join(
		w.agents[by].List(w.Context(), &clustersetv1alpha1.ExportedServiceList{}, in),
		w.agents[by].List(w.Context(), &clustersetv1alpha1.ExportedEndpointsList{}, in),
		w.agents[by].Get(w.Context(), client.ObjectKey{Namespace: string(in), Name: clustersetv1alpha1.MemberReportName}, &clustersetv1alpha1.MemberReport{}),
	)
}

// awaitReads waits until each member can read exactly the records and reports of the clusters listed for it, such as "a: a b, b: a b, c: c".
func (w *world) awaitReads(want string) {
	w.Helper()
	var names []string
	for name := range w.agents {
		names = append(names, name)
	}
	slices.Sort(names)
	kube.Eventually(w, func() error {
		var got []string
		for _, by := range names {
			line := by + ":"
			for _, of := range names {
				if err := w.reads(by, of); err == nil {
					line += " " + of
				} else if !apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "forbidden") {
					return err
				}
			}
			got = append(got, line)
		}
		if got := strings.Join(got, ", "); got != want {
			return fmt.Errorf("got %s; want %s", got, want)
		}
		return nil
	})
}

// awaitSaid waits until a member's condition CommunitiesEnforced has this status and reason, such as "True Enforced". If want is empty, it
// waits until the condition is absent.
func (w *world) awaitSaid(name, want string) {
	w.Helper()
	kube.Eventually(w, func() error {
		mc := &clustersetv1alpha1.MemberCluster{}
		if err := w.admin.Get(w.Context(), client.ObjectKey{Name: name}, mc); err != nil {
			return err
		}
		got := ""
		if c := meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionCommunitiesEnforced); c != nil {
			got = string(c.Status) + " " + c.Reason
		}
		if got != want {
			return fmt.Errorf("%s: got %q, want %q", name, got, want)
		}
		return nil
	})
}

// access lists what a member may do, except for what everyone may do and for what concerns its own records, heartbeat and token, which
// package join tests.
func (w *world) access(name string, places map[string]string) []string {
	w.Helper()
	return slices.DeleteFunc(w.plane.Access(w, w.config[name], places), func(a string) bool {
		return strings.HasPrefix(a, "create selfsubject") || strings.HasPrefix(a, "create ") && strings.HasSuffix(a, ".clusterset.dev own") ||
			strings.HasSuffix(a, " own") && !strings.HasPrefix(a, "get ") && !strings.HasPrefix(a, "list ") && !strings.HasPrefix(a, "watch ")
	})
}

// What members may read follows from their communities, before and after a change. They may read and write nothing else.
// Rule C27 of docs/spec/control-plane.md.
func TestMembersReadTheirPeers(t *testing.T) {
	w := newWorld(t)
	w.join("a")
	w.join("b")
	w.awaitReads("a: a b, b: a b")
	w.awaitSaid("a", "")
	w.put("a", "x")
	w.put("b", "x", "y")
	w.join("c", "y")
	w.join("d")
	w.awaitReads("a: a b, b: a b c, c: b c, d: d")
	for _, name := range []string{"a", "b", "c", "d"} {
		w.awaitSaid(name, "True Enforced")
	}
	places := map[string]string{"own": api.MemberNamespace("a"), "b": api.MemberNamespace("b"), "c": api.MemberNamespace("c"), "hub": "kube-system", "all": ""}
	allowed := func(records ...string) (all []string) {
		for _, verb := range []string{"get", "list", "watch"} {
			for place := range places {
				all = append(all, verb+" memberclusters.clusterset.dev "+place)
			}
			for _, place := range records {
				all = append(all, verb+" exportedendpoints.clusterset.dev "+place, verb+" exportedservices.clusterset.dev "+place)
			}
		}
		slices.Sort(all)
		return all
	}
	if got, want := w.access("a", places), allowed("own", "b"); !slices.Equal(got, want) {
		t.Errorf("a may\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	w.put("a", "y")
	w.put("b", "x")
	w.awaitReads("a: a c, b: b, c: a c, d: d")
	if got, want := w.access("a", places), allowed("own", "c"); !slices.Equal(got, want) {
		t.Errorf("after the change a may\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	t.Run("one that is taken out is refused at once", func(t *testing.T) {
		w := &world{t, w.plane, w.admin, w.agents, w.config}
		w.put("c", "z")
		kube.Eventually(t, func() error {
			if err := w.reads("c", "a"); err == nil || !strings.Contains(err.Error(), "forbidden") {
				return fmt.Errorf("it may still read: %w", err)
			}
			return nil
		})
		if err := w.reads("c", "c"); err != nil {
			t.Errorf("its own: %v", err)
		}
		w.put("c", "y")
		w.awaitReads("a: a c, b: b, c: a c, d: d")
	})

	t.Run("what somebody changes is put right", func(t *testing.T) {
		w := &world{t, w.plane, w.admin, w.agents, w.config}
		for _, o := range []client.Object{
			&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("a"), Name: api.PeersBinding}},
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: api.MemberPeerRole}},
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: api.MemberClusterRole}},
		} {
			if err := w.admin.Delete(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			kube.Eventually(t, func() error { return w.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o) })
			w.awaitReads("a: a c, b: b, c: a c, d: d")
		}
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: api.MemberClusterRole}}
		kube.Eventually(t, func() error { // all may read all, for a moment
			err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(role), role)
			role.Rules = access.ReaderRules()
			return errors.Join(err, w.admin.Update(t.Context(), role))
		})
		kube.Eventually(t, func() error {
			if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil || slices.Contains(role.Rules[0].Resources, "exportedservices") {
				return fmt.Errorf("the rules are %+v, %w", role.Rules, err)
			}
			return nil
		})
		w.awaitReads("a: a c, b: b, c: a c, d: d")
	})
}
