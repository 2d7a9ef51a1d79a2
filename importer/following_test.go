package importer

import (
	"fmt"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// A heartbeat says which drains and leaves are followed once they are: in the copies, and in the slices behind ClusterSetIPs (C76 of
// docs/spec/control-plane.md).
func TestHeartbeatSaysWhatIsFollowed(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"), node("n1", "beijing-1"))
	w.exports("10.11.0.5")
	w.onHub(records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5"))
	facts := &Facts{}
	says := func() (said clustersetv1alpha1.MemberReportSpec) {
		facts.Report(t.Context(), &said)
		return said
	}
	if said := says(); said.Follows != "" || said.Namespaces != nil {
		t.Errorf("before it began: %+v", said)
	}
	run := w.start(Options{Facts: facts})
	follows := func(steered string) {
		t.Helper()
		kube.Eventually(t, func() error {
			said := says().Follows

			var there clustersetv1alpha1.MemberClusterList
			if err := w.hubClient.List(t.Context(), &there); err != nil {
				return err
			}
			if want := clustersetv1alpha1.DrainsAndLeaves(there.Items); said != want {
				return fmt.Errorf("says %q, want %s", said, want)
			}
			if is := w.steered("shop", "web"); is != steered { // what was said before is true now
				t.Errorf("says that it follows, but %q, want %q", is, steered)
			}
			return nil
		})
	}
	change := func(spec string) {
		t.Helper()
		mc := &clustersetv1alpha1.MemberCluster{}
		mc.Name = "beijing"
		if err := w.hubClient.Patch(t.Context(), mc, client.RawPatch("application/merge-patch+json", []byte(spec))); err != nil {
			t.Fatal(err)
		}
	}
	const undrained = "beijing routed beijing-1, shanghai routed none"
	kube.Eventually(t, func() error {
		if is := w.steered("shop", "web"); is != undrained {
			return fmt.Errorf("%q, want %q", is, undrained)
		}
		return nil
	})
	follows(undrained)
	change(`{"spec":{"drain":true}}`)
	follows("beijing routed none, shanghai routed beijing-1")
	change(`{"spec":{"drain":null}}`)
	follows(undrained)
	run.stop()
}

// A cluster that left is gone once nothing of it is imported, also where a person has described a cluster of that name: the copies are to say
// the same, and that isn't one. If this cluster is the hub, the MemberCluster is the hub's own, which has left when the cache says so. Rule C76 of
// docs/spec/control-plane.md.
func TestALeaveIsFollowedBesideAForeignMemberCluster(t *testing.T) {
	member := func(uid types.UID, labels map[string]string) *clustersetv1alpha1.MemberCluster {
		return &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai", UID: uid, Labels: labels}}
	}
	left := member("1", nil)
	left.SetLeft(time.Unix(1e9, 0))
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x", Labels: desired.Labels()}}
	slice.Labels[api.LabelSourceCluster] = "shanghai"
	for _, c := range []struct {
		name    string
		here    []client.Object
		follows bool
	}{
		{"no MemberCluster", nil, true},
		{"our copy", []client.Object{member("2", desired.Labels())}, false},
		{"somebody's own", []client.Object{member("2", nil)}, true},
		{"somebody's own, and endpoints", []client.Object{member("2", nil), slice}, false},
		{"the hub's, and the cache is behind", []client.Object{member("1", nil)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f following
			hub := newShelf()
			hub.put(left)
			is := hub.get(left)
			is.SetUID(left.UID)
			if err := hub.of(left).Update(is); err != nil {
				t.Fatal(err)
			}
			f.begin(&fakeHub{shelf: hub}, fake.NewClientBuilder().WithScheme(testScheme).WithObjects(c.here...).Build(), func(string) []types.NamespacedName { return nil })
			if said := f.digest(t.Context()); (said != "") != c.follows {
				t.Errorf("says %q, follows: %v", said, c.follows)
			}
		})
	}
}
