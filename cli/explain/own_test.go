package explain

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/clusterset/clusterset/api"
)

// ownSlice returns a slice of shop/web; of another cluster's endpoints, if one is named. Endpoints are addresses with what they are: "10.1.0.1 ready".
func ownSlice(cluster string, endpoints ...string) discoveryv1.EndpointSlice {
	s := discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}}
	if cluster != "" {
		s.Labels[api.LabelManagedBy], s.Labels[api.LabelExtends], s.Labels[api.LabelSourceCluster] = api.ManagedByImporter, "web", cluster
	}
	for _, e := range endpoints {
		address, is, _ := strings.Cut(e, " ")
		if s.AddressType = discoveryv1.AddressTypeIPv4; strings.Contains(address, ":") {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{
			Ready: ptr.To(is == "ready"), Serving: ptr.To(is != "not ready"), Terminating: ptr.To(is == "serving"),
		}})
	}
	return s
}

// What explain says of a Service's own name is what kube-proxy does. Rules D60 to D62 and D70 of docs/spec/data-path.md.
func TestExplainOwnName(t *testing.T) {
	far := ownSlice("shanghai", "10.2.0.1 serving")
	unused := ownSlice("tianjin", "10.3.0.1 ready")
	unused.Endpoints[0].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: api.HintNone}}}
	for _, c := range []struct {
		name          string
		extend        string
		slices        []discoveryv1.EndpointSlice
		used, because string
	}{
		{"of its own", "true", []discoveryv1.EndpointSlice{far, ownSlice("", "10.1.0.1 ready", "10.1.0.2 not ready")}, "10.1.0.1", "extended to other clusters"},
		{"elsewhere", "true", []discoveryv1.EndpointSlice{far, ownSlice("", "10.1.0.1 not ready")}, "10.2.0.1", "extended to other clusters"},
		{"its own that terminate share", "true", []discoveryv1.EndpointSlice{far, ownSlice("", "10.1.0.1 serving")}, "10.1.0.1 10.2.0.1", "extended to other clusters"},
		{"each family by itself", "true", []discoveryv1.EndpointSlice{ownSlice("", "10.1.0.1 ready"), ownSlice("shanghai", "10.2.0.1 serving"), ownSlice("shanghai", "fd00::1 serving")}, "10.1.0.1 fd00::1", "extended to other clusters"},
		{"besides its own", "true", []discoveryv1.EndpointSlice{ownSlice("shanghai", "10.2.0.1 ready"), ownSlice("", "10.1.0.1 ready")}, "10.1.0.1 10.2.0.1", "extended to other clusters"},
		{"not asked for", "", []discoveryv1.EndpointSlice{ownSlice("", "10.1.0.1 ready")}, "10.1.0.1", "kubectl annotate service -n shop web clusterset.dev/extend=true"},
		{"nothing elsewhere", "true", nil, "", "no other cluster has a ready endpoint"},
		{"the agent's", "made", []discoveryv1.EndpointSlice{ownSlice("shanghai", "10.2.0.1 ready"), unused}, "10.2.0.1", "made by the agent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, ClusterIPs: []string{"10.96.0.7"}}
			own := &Own{Cluster: "beijing", Slices: c.slices, Service: &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.KeyExtend: c.extend}}, Spec: spec,
			}}
			if c.extend == "made" {
				own.Service.Labels = map[string]string{api.LabelManagedBy: api.ManagedByImporter, api.LabelExtends: "web"}
			}
			e := own.Explain()
			var used []string
			for _, at := range e.Endpoints {
				if at.Used {
					used = append(used, at.Address)
				}
			}
			if got := strings.Join(used, " "); got != c.used {
				t.Errorf("%q are used, want %q: %+v", got, c.used, e.Endpoints)
			}
			if !strings.Contains(e.Because, c.because) || e.Name != "web.shop.svc.cluster.local." || fmt.Sprint(e.Addresses) != "[10.96.0.7]" {
				t.Errorf("%+v", e)
			}
			text := Screen{}.Render(e)
			if strings.Contains(text, "Tiers") || !strings.Contains(text, c.because) {
				t.Error(text)
			}
		})
	}
}
