package merge_test

import (
	"fmt"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
)

func endpoints(cluster string, chunk int, addresses ...string) *clustersetv1alpha1.ExportedEndpoints {
	e := &clustersetv1alpha1.ExportedEndpoints{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: api.MemberNamespace(cluster),
			Name:      api.ExportedEndpointsName("shop", "web", "web-x", chunk),
		},
		Spec: clustersetv1alpha1.ExportedEndpointsSpec{
			ServiceNamespace: "shop", ServiceName: "web", AddressType: discoveryv1.AddressTypeIPv4,
		},
	}
	for _, a := range addresses {
		e.Spec.Endpoints = append(e.Spec.Endpoints, clustersetv1alpha1.Endpoint{Addresses: []string{a}})
	}
	return e
}

// Rule C17 of docs/spec/control-plane.md.
func TestARecordsClusterIsItsNamespaces(t *testing.T) {
	stray := record("a", 1)
	stray.Namespace = "default"
	lying := record("a", 1)
	lying.Labels = map[string]string{api.LabelCluster: "b"}
	exports, drops := merge.Sanitize([]*clustersetv1alpha1.ExportedService{stray, lying}, nil)
	if len(exports) != 1 || exports[0].Cluster != "a" {
		t.Errorf("exports are %v", exports)
	}
	if len(drops) != 1 || drops[0].Cluster != "" || !strings.Contains(drops[0].String(), `"default"`) {
		t.Errorf("drops are %v", drops)
	}
}

func TestTheRestOfABadRecordIsKept(t *testing.T) {
	bad := record("a", 1, ports("http:80 http:81 big:70000"), policy("zone near", "zone", 200_000), func(s *clustersetv1alpha1.ExportedServiceSpec) {
		s.ClusterIPs = []string{"127.0.0.1", "10.0.0.1"}
	})
	exports, drops := merge.Sanitize([]*clustersetv1alpha1.ExportedService{bad}, nil)
	if len(exports) != 1 || len(exports[0].Service.Spec.Ports) != 1 || len(exports[0].Service.Spec.ClusterIPs) != 1 {
		t.Fatalf("exports are %+v", exports)
	}
	if want := (clustersetv1alpha1.ServicePolicy{Boundary: "zone"}); exports[0].Service.Spec.Policy == nil || *exports[0].Service.Spec.Policy != want {
		t.Errorf("the policy is %+v", exports[0].Service.Spec.Policy)
	}
	said := fmt.Sprint(drops)
	for _, want := range []string{`spec.policy.prefer: Invalid value: "zone near": unknown tier "near": want one or more of`, `spec.policy.minReady: Invalid value: "200000": want a whole number from 1 to 100000`} {
		if !strings.Contains(said, want) {
			t.Errorf("drops are %v, want one that says %s", drops, want)
		}
	}
	if len(drops) != 1 || drops[0].Values.Count != 5 {
		t.Errorf("drops are %v", drops)
	}
	if len(bad.Spec.Ports) != 3 || bad.Spec.Policy.Prefer != "zone near" {
		t.Error("the record, which may be an informer's, was changed")
	}
}

func TestAnUnusableRecordIsDropped(t *testing.T) {
	ageless := record("a", 1)
	ageless.Spec.ExportedAt = metav1.Time{}
	exports, drops := merge.Sanitize([]*clustersetv1alpha1.ExportedService{ageless, record("b", 5)}, nil)
	if len(exports) != 1 || exports[0].Cluster != "b" || len(drops) != 1 || drops[0].Cluster != "a" {
		t.Errorf("exports are %v, drops %v", exports, drops)
	}
}

func TestOneClusterExportsAServiceOnce(t *testing.T) {
	exports, drops := merge.Sanitize([]*clustersetv1alpha1.ExportedService{record("a", 1), record("a", 2)}, nil)
	if len(exports) != 1 || len(drops) != 1 {
		t.Errorf("exports are %v, drops %v", exports, drops)
	}
}

// admitted is a record that can be imported.
type admitted struct {
	Cluster   string
	Endpoints *clustersetv1alpha1.ExportedEndpoints
}

func sanitizeEndpoints(records []*clustersetv1alpha1.ExportedEndpoints) (all []admitted, drops []merge.Drop) {
	drops = merge.SanitizeEndpoints(records, func(cluster string, record *clustersetv1alpha1.ExportedEndpoints) api.LeftOut {
		clean, left := record.Sanitized()
		if clean != nil {
			all = append(all, admitted{cluster, clean})
		}
		return left
	})
	return all, drops
}

func TestEndpointsNobodyElseCanReachAreDropped(t *testing.T) {
	good := []string{"10.1.0.7", "192.168.3.4"}
	bad := []string{"127.0.0.1", "169.254.169.254", "224.0.0.1", "0.0.0.0", "255.255.255.255", "fd00::1", "::ffff:127.0.0.1", "web"}
	all, drops := sanitizeEndpoints([]*clustersetv1alpha1.ExportedEndpoints{endpoints("a", 0, append(bad, good...)...)})
	if len(all) != 1 || len(all[0].Endpoints.Spec.Endpoints) != len(good) {
		t.Errorf("kept %+v", all)
	}
	if len(drops) != 1 || drops[0].Values.Count != len(bad) {
		t.Errorf("drops are %v", drops)
	}
}

func TestOneClustersSlicesHaveALimit(t *testing.T) {
	var records []*clustersetv1alpha1.ExportedEndpoints
	for i := range merge.MaxSlices + 5 {
		records = append(records, endpoints("a", i, fmt.Sprintf("10.0.%d.%d", i/250, i%250)))
	}
	records = append(records, endpoints("b", 0, "10.9.0.1"))
	all, drops := sanitizeEndpoints(records)
	if len(all) != merge.MaxSlices+1 || len(drops) != 1 || drops[0].Values.Count != 5 {
		t.Errorf("kept %d, dropped %v", len(all), drops)
	}
	if last := all[len(all)-1]; last.Cluster != "b" {
		t.Errorf("the last is of %s: another cluster paid for the first's excess", last.Cluster)
	}
}
