package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// Wrong networks take all addresses of another cluster, and none of this one, and the ServiceImport says so until they are right. So it does of
// a service with nothing ready behind it. Rules C17 and C31 of docs/spec/control-plane.md.
func TestAServiceImportSaysWhatIsMissing(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"))
	w.exports("10.1.0.5")
	w.onHub(records.Exported("baoding", "shop", "theirs", "10.2.0.2", "10.12.0.6"))
	w.start(Options{})
	w.imported("shop", "web", 1)
	w.imported("shop", "theirs", 1)

	says := func(service string, endpoints int, complete, ready string) {
		t.Helper()
		kube.Eventually(t, func() error {
			o := w.objects("shop", service)
			n := 0
			for i := range o.slices {
				n += len(o.slices[i].Endpoints)
			}
			if n != endpoints {
				return fmt.Errorf("%s has %d endpoints, want %d", service, n, endpoints)
			}
			for kind, want := range map[string]string{api.ConditionComplete: complete, api.ConditionEndpoints: ready} {
				c := meta.FindStatusCondition(o.serviceImport.Status.Conditions, kind)
				if want == "" && c != nil || want != "" && (c == nil || !strings.Contains(c.Message, want)) {
					return fmt.Errorf("%s of %s is %+v, want %q", kind, service, c, want)
				}
			}
			return nil
		})
	}
	cidrs := func(cluster, is string) {
		t.Helper()
		mc := &clustersetv1alpha1.MemberCluster{}
		mc.Name = cluster
		if err := w.hubClient.Patch(t.Context(), mc, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cidrs":`+is+`}}`))); err != nil {
			t.Fatal(err)
		}
	}
	says("web", 1, "", "")
	says("theirs", 1, "", "")
	cidrs("beijing", `["10.9.0.0/16"]`)
	cidrs("baoding", `["10.9.0.0/16"]`)
	const wrong = "must lie in spec.cidrs of MemberCluster baoding on the hub, 10.9.0.0/16: correct them"
	says("theirs", 0, wrong, "no endpoint is ready in baoding, which exports the service: connections to its ClusterSetIP are refused")
	says("web", 1, "", "")
	cidrs("baoding", `["10.2.0.0/16", "10.12.0.0/16"]`)
	says("theirs", 1, "", "")
	w.here(strings.Replace(ownSlice("10.1.0.5"), "nodeName: n1", "nodeName: n1, conditions: {ready: false}", 1))
	says("web", 1, "", "no endpoint is ready in beijing")
	w.here(ownSlice("10.1.0.5"))
	says("web", 1, "", "")
}

// An object of somebody else with the name of one of ours is named for as long as it is there, and the rest is written. Rules C31 and C36 of
// docs/spec/control-plane.md.
func TestAServiceImportSaysWhatIsInTheWay(t *testing.T) {
	in := metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}
	slice := in
	slice.Name = desired.SliceName("a", web.Name, endpointsOf("a", 1, 0, 1).Name)
	for _, theirs := range []client.Object{
		derivedOf(web), &discoveryv1.EndpointSlice{ObjectMeta: slice}, &fabedgev1alpha1.GlobalService{ObjectMeta: in},
	} {
		t.Run(kindOf(theirs), func(t *testing.T) {
			g := newRig(Options{DataPath: desired.DataPathPods})
			g.hub.put(memberAt("a", "zone-0"))
			g.hub.put(exportedBy("a", mcsv1beta1.ClusterSetIP, 1))
			g.hub.put(endpointsOf("a", 1, 0, 1))
			g.here.put(theirs)
			want := kindOf(theirs) + " " + client.ObjectKeyFromObject(theirs).String() + " exists and isn't the importer's; delete or rename it"
			says := func() bool {
				g.reconcile(t)
				_, cur := g.gathered(t)
				return slices.ContainsFunc(cur.ServiceImport.Status.Conditions, func(c metav1.Condition) bool {
					return c.Status == metav1.ConditionFalse && strings.Contains(c.Message, want)
				})
			}
			if !says() {
				t.Errorf("the ServiceImport doesn't say %q", want)
			}
			if err := g.here.Delete(t.Context(), theirs); err != nil {
				t.Fatal(err)
			}
			if says() {
				t.Errorf("it says %q, which is gone", want)
			}
		})
	}
}
