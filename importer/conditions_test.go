package importer

import (
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

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
