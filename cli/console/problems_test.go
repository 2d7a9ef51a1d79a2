package console

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/importer/desired"
)

// observed returns the console of testdata/hub.yaml with a member that it reads, and one that it can't read.
func observed(t *testing.T) *Server {
	t.Helper()
	s, _ := hub(t)
	s.options.Flags = Flags{Hub: []string{"--hub-context", "hub"}, Preview: []string{"--hub-context", "hub"}}
	s.SetHeard(map[string]view.Heartbeat{
		"beijing": {Renewed: time.Now(), Measures: true, CantReach: []string{"shanghai"}, Unmeasured: []string{"lyon"}},
		"tianjin": {Renewed: time.Now(), Measures: true},
	})
	local := &view.LocalFacts{
		Cluster: "beijing", Namespaces: map[string]bool{"shop": true},
		Imports: []mcsv1beta1.ServiceImport{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: mcsv1beta1.ServiceImportSpec{IPs: []string{"10.96.7.7"}}}},
		Exports: []mcsv1beta1.ServiceExport{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "unseen"}}},
		Asking: []view.Asking{
			{Extended: desired.Extended{Allowed: true, Service: own("web")}, Is: true},
			{Extended: desired.Extended{Service: own("cart")}},
		},
		Reach: &clustersetv1alpha1.Reachability{ObjectMeta: metav1.ObjectMeta{Name: clustersetv1alpha1.ReachabilityName}, Cluster: "beijing", Stamp: metav1.NowMicro(), Clusters: []clustersetv1alpha1.ClusterReachability{
			{Name: "tianjin", Reachable: metav1.ConditionTrue, Reason: "Answers", RoundTripMicroseconds: 1200},
			{Name: "shanghai", Reachable: metav1.ConditionFalse, Reason: "NoAnswer", Since: metav1.NewTime(time.Now().Add(-72 * time.Hour)), Beacons: []string{"10.3.0.1:7353"}},
		}},
	}
	report := view.Build(view.Facts{Local: local, Now: time.Now()})
	s.SetSources([]Source{
		{Role: RoleHub, Context: "hub", State: Live},
		{Role: RoleMember, Context: "bj", Cluster: "beijing", State: Live, Local: local, Report: &report},
		{Role: RoleMember, Context: "tj", Cluster: "tianjin", State: Away, Error: errors.New("connection refused").Error()},
	})
	return s
}

// own is a Service that asks to be extended.
func own(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{api.KeyExtend: api.ExtendTrue}},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.9", Selector: map[string]string{"app": name}},
	}
}

// Problems has all that status knows of the hub and of each member, what can't be read, and what services have, each with a cure and
// a command. The most urgent are first.
func TestProblems(t *testing.T) {
	s := observed(t)
	answers(t, s, "problems", "/api/problems")
	answers(t, s, "service-member", "/api/service?service=shop/web&from=tianjin")
	answers(t, s, "services-clustersetip", "/api/services?q=10.96.7.7")
}

// Links has what leads from each cluster to each, and who reaches whom: as its Lease says, or with the round trip as its own cluster does.
func TestLinks(t *testing.T) {
	s := observed(t)
	answers(t, s, "links", "/api/links")
	got := ask(t, s, "/api/links.csv", nil)
	if want := "from,to,services,names,clusterSetIPs,lastResort,reachable,reason,roundTripMicroseconds\n"; !strings.HasPrefix(got.Body.String(), want) {
		t.Errorf("the table begins with %.200s", got.Body)
	}
	if lines := strings.Count(got.Body.String(), "\n"); lines < 5 || !strings.Contains(got.Body.String(), "\nbeijing,tianjin,1,1,1,1,True,Answers,1200\n") {
		t.Errorf("the table is\n%s", got.Body)
	}
}
