package services

import (
	"fmt"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/view"
)

func no() *bool { return new(bool) }

// slice has endpoints of a cluster, of which the first is ready.
func slice(cluster, name string, family discoveryv1.AddressType, addresses ...string) discoveryv1.EndpointSlice {
	s := discoveryv1.EndpointSlice{AddressType: family, ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Labels: map[string]string{api.LabelSourceCluster: cluster, api.LabelServiceName: name},
	}}
	for i, a := range addresses {
		e := discoveryv1.Endpoint{Addresses: []string{a}}
		if i > 0 {
			e.Conditions.Ready = no()
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

func local() *view.LocalFacts {
	return &view.LocalFacts{
		Cluster: "beijing",
		Imports: []mcsv1beta1.ServiceImport{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec:       mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, IPs: []string{"10.96.1.2"}, Ports: []mcsv1beta1.ServicePort{{Name: "http", Port: 80, Protocol: "TCP"}}},
			Status:     mcsv1beta1.ServiceImportStatus{Clusters: []mcsv1beta1.ClusterStatus{{Cluster: "shanghai"}, {Cluster: "beijing"}}},
		}},
		Exports: []mcsv1beta1.ServiceExport{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}},
	}
}

func TestServicesOfACluster(t *testing.T) {
	imported := []discoveryv1.EndpointSlice{
		slice("shanghai", "web", discoveryv1.AddressTypeIPv4, "10.2.0.1", "10.2.0.2"), slice("shanghai", "web", discoveryv1.AddressTypeIPv6, "fd00::1"),
		slice("beijing", "web", discoveryv1.AddressTypeIPv4, "10.1.0.1"), slice("beijing", "web", discoveryv1.AddressTypeIPv4, "10.1.0.9"),
	}
	report := view.Report{Services: view.Services{Problems: []view.Problem{
		{Namespace: "shop", Name: "db", What: "ServiceExport", Reason: "Unseen", Message: "no agent has processed it"}, {Namespace: "else", Name: "gone", Reason: "Held"},
	}}}
	facts := local()
	facts.Imports[0].Annotations = map[string]string{api.AnnotationShares: "shanghai=25"}
	list := Of(view.Facts{Local: facts}, imported, report)
	want := `NAMESPACE  NAME  EXPORTED BY            READY  IMPORTED BY  PROBLEMS
shop       db    beijing                -      -            Unseen
shop       web   beijing, shanghai 25%  3      -            -
`
	if got := Render(list, screen.Style{}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	want = `NAMESPACE  NAME  TYPE          CLUSTERSETIP  PORTS        EXPORTED BY                    READY  IMPORTED BY  PROBLEMS
shop       db    -             -             -            beijing                        -      -            Unseen: no agent has processed it
shop       web   ClusterSetIP  10.96.1.2     http 80/TCP  beijing (2), shanghai (1) 25%  3      -            -
`
	if got := Render(list, screen.Style{Wide: true}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Endpoints of silent clusters are the last resort, and nobody uses those of Expired ones: the same on the hub and in a cluster.
func TestOfSilentClustersNothingIsReady(t *testing.T) {
	for phase, want := range map[clustersetv1alpha1.MemberClusterPhase][2]string{
		clustersetv1alpha1.MemberReady: {"2", "1"}, clustersetv1alpha1.MemberSuspect: {"1", "0 (1 silent)"}, clustersetv1alpha1.MemberExpired: {"1", "0"},
	} {
		t.Run(string(phase), func(t *testing.T) {
			shanghai := clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}, Status: clustersetv1alpha1.MemberClusterStatus{Phase: phase}}
			beijing := clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing"}}
			facts := local()
			facts.Members = []clustersetv1alpha1.MemberCluster{beijing, shanghai}
			imported := []discoveryv1.EndpointSlice{
				slice("shanghai", "web", discoveryv1.AddressTypeIPv4, "10.2.0.1"), slice("beijing", "web", discoveryv1.AddressTypeIPv4, "10.1.0.1"),
			}
			hub := known(map[string]int{"beijing web": 1, "shanghai web": 1, "shanghai alone": 1},
				&beijing, &shanghai, exported("beijing", "web", 1), exported("shanghai", "web", 2), exported("shanghai", "alone", 3))
			for from, list := range map[string][]Service{"cluster": Of(view.Facts{Local: facts}, imported, view.Report{}), "hub": Of(view.Facts{Hub: hub}, nil, view.Report{})} {
				for i := range list {
					if list[i].Name == "web" && list[i].readyCell().Text != want[0] || list[i].Name == "alone" && list[i].readyCell().Text != want[1] {
						t.Errorf("as the %s sees it, %s has %q ready endpoints, want %q of web and %q of alone", from, list[i].Name, list[i].readyCell().Text, want[0], want[1])
					}
				}
			}
		})
	}
}

// The hub knows who imports a service, and newer endpoints than the cluster: those behind its ClusterIPs. A cluster that may import it and says that
// it lacks the namespace doesn't.
func TestServicesOfTheHub(t *testing.T) {
	var objects []runtime.Object
	for _, name := range []string{"beijing", "shanghai", "lyon", "oslo"} {
		m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == "lyon" {
			m.Spec.Communities = []string{"payments"}
		}
		objects = append(objects, m)
	}
	for i, of := range []struct{ cluster, service string }{{"beijing", "web"}, {"shanghai", "web"}, {"lyon", "pay"}} {
		objects = append(objects, exported(of.cluster, of.service, i+1))
	}
	hub, digest := known(map[string]int{"shanghai web": 3}, objects...), clustersetv1alpha1.NamespaceDigest([]string{"default"})
	hub.Heard = map[string]view.Heartbeat{"oslo": {Namespaces: &digest}}
	list := Of(view.Facts{Local: local(), Hub: hub}, nil, view.Report{})
	want := `NAMESPACE  NAME  EXPORTED BY        READY  IMPORTED BY        PROBLEMS
shop       db    beijing            -      -                  -
shop       pay   lyon               0      lyon               -
shop       web   beijing, shanghai  3      beijing, shanghai  -
`
	if got := Render(list, screen.Style{}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// known is what the hub's records say. ready are the ready endpoints of services, by cluster and name.
func known(ready map[string]int, records ...runtime.Object) *view.HubFacts {
	hub := &view.HubFacts{}
	for _, o := range records {
		switch o := o.(type) {
		case *clustersetv1alpha1.MemberCluster:
			hub.Members = append(hub.Members, *o)
		case *clustersetv1alpha1.ExportedService:
			hub.Exports = append(hub.Exports, *o)
		}
	}
	var endpoints []clustersetv1alpha1.ExportedEndpoints
	for of, n := range ready {
		cluster, service, _ := strings.Cut(of, " ")
		e := clustersetv1alpha1.ExportedEndpoints{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: service + ".shop"}}
		e.Spec.ServiceNamespace, e.Spec.ServiceName = "shop", service
		for i := range n {
			e.Spec.Endpoints = append(e.Spec.Endpoints, clustersetv1alpha1.Endpoint{Addresses: []string{fmt.Sprintf("10.2.0.%d", i+1)}})
		}
		endpoints = append(endpoints, e)
	}
	hub.Know(endpoints)
	return hub
}

func exported(cluster, service string, number int) *clustersetv1alpha1.ExportedService {
	meta := metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: api.ExportedServiceName("shop", service)}
	return &clustersetv1alpha1.ExportedService{ObjectMeta: meta, Spec: clustersetv1alpha1.ExportedServiceSpec{
		ServiceNamespace: "shop", ServiceName: service, Type: mcsv1beta1.ClusterSetIP, Ports: []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}},
		ExportedAt: metav1.Now(), ClusterIPs: []string{fmt.Sprintf("10.96.0.%d", number)},
	}}
}
