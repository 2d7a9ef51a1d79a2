package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/topology"
)

func TestParseName(t *testing.T) {
	for in, want := range map[string]string{
		"shop/web":                      "web.shop.svc.clusterset.local. mcs",
		"web.shop":                      "web.shop.svc.clusterset.local. mcs",
		"Web.Shop.":                     "web.shop.svc.clusterset.local. mcs",
		"web.shop.svc":                  "web.shop.svc.clusterset.local. mcs",
		"web.shop.svc.":                 "web.shop.svc. mcs", // the root zone
		"web.shop.svc.clusterset.local": "web.shop.svc.clusterset.local. mcs",
		"nginx.default.svc.global":      "nginx.default.svc.global. global",
		"NGINX.default.svc.GLOBAL.":     "nginx.default.svc.global. global",
		"db-0.beijing.db.shop.svc.clusterset.local": "db-0.beijing.db.shop.svc.clusterset.local. mcs",
		"_http._tcp.web.shop.svc":                   "_http._tcp.web.shop.svc.clusterset.local. mcs",
		"svc.svc.svc.clusterset.local":              "svc.svc.svc.clusterset.local. mcs",
		"we\\b.sh\\111p.svc.global":                 "web.shop.svc.global. global",
		"svc.svc":                                   "svc.svc.svc.clusterset.local. mcs",
		"a.b.c":                                     "isn't the name of a service",
		"web":                                       "isn't the name of a service",
		"":                                          "isn't the name of a service",
		"svc.global":                                "svc.global.svc.clusterset.local. mcs",
		"shop/":                                     "must be a DNS label",
		"*.shop.svc.global":                         "must be a DNS label",
		"shop/web.v1":                               "must be a DNS label",
		"shop.svc.clusterset.local":                 "isn't the name of a service",
		strings.Repeat("a", 64) + ".shop.svc.global": "must be a DNS label",
	} {
		n, err := ParseName(in)
		got := n.String() + " " + n.Dialect.String()
		if err != nil {
			got = err.Error()
		}
		if right := got == want || err != nil && strings.Contains(got, want); !right {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
		if strings.Contains(got, "\n") {
			t.Errorf("%q: the error isn't one line: %q", in, got)
		}
	}
}

// A cluster's zones are those in its spec, or else those of its nodes, as in DNS and the importer.
func TestLocate(t *testing.T) {
	for name, c := range map[string]struct {
		spec    clustersetv1alpha1.MemberClusterSpec
		learned []string
		want    string
		note    string
	}{
		"stated":           {spec: clustersetv1alpha1.MemberClusterSpec{Zone: "a", Region: "r"}, learned: []string{"x"}, want: "beijing a r"},
		"in the list":      {spec: clustersetv1alpha1.MemberClusterSpec{Zones: []string{"b"}}, want: "beijing b -"},
		"learned":          {spec: clustersetv1alpha1.MemberClusterSpec{Region: "r"}, learned: []string{"x"}, want: "beijing x r"},
		"several":          {spec: clustersetv1alpha1.MemberClusterSpec{Region: "r"}, learned: []string{"x", "y"}, want: "beijing - r", note: "beijing is in zones x, y: set that of the server with --from beijing/ZONE/r"},
		"nothing is known": {want: "beijing - -"},
	} {
		mc := &clustersetv1alpha1.MemberCluster{Spec: c.spec}
		mc.Name, mc.Status.Zones = "beijing", c.learned
		f := &Facts{}
		f.add(mc)
		if got := f.Locate("beijing").String(); got != c.want || !strings.HasPrefix(strings.Join(f.Notes, ""), c.note) || (c.note == "") != (len(f.Notes) == 0) {
			t.Errorf("%s: %s with notes %q, want %s with %q", name, got, f.Notes, c.want, c.note)
		}
	}
	if got := (&Facts{}).Locate("elsewhere"); got != (topology.Location{Cluster: "elsewhere"}) {
		t.Errorf("without a MemberCluster: %s", got)
	}
}

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

// What explain says of a Service's own name is what kube-proxy does. Rules D60 to D62 of docs/spec/data-path.md.
func TestExplainOwnName(t *testing.T) {
	far := ownSlice("shanghai", "10.2.0.1 serving")
	for _, c := range []struct {
		name          string
		extend        string
		allowed       bool
		spec          corev1.ServiceSpec
		slices        []discoveryv1.EndpointSlice
		used, because string
		notes         int
	}{
		{"of its own", "true", true, corev1.ServiceSpec{}, []discoveryv1.EndpointSlice{far, ownSlice("", "10.1.0.1 ready", "10.1.0.2 not ready")}, "10.1.0.1", "extended to other clusters", 0},
		{"elsewhere", "true", true, corev1.ServiceSpec{}, []discoveryv1.EndpointSlice{far, ownSlice("", "10.1.0.1 not ready")}, "10.2.0.1", "extended to other clusters", 0},
		{"its own that terminate share", "true", true, corev1.ServiceSpec{}, []discoveryv1.EndpointSlice{far, ownSlice("", "10.1.0.1 serving")}, "10.1.0.1 10.2.0.1", "extended to other clusters", 0},
		{"each family by itself", "true", true, corev1.ServiceSpec{}, []discoveryv1.EndpointSlice{ownSlice("", "10.1.0.1 ready"), ownSlice("shanghai", "10.2.0.1 serving"), ownSlice("shanghai", "fd00::1 serving")}, "10.1.0.1 fd00::1", "extended to other clusters", 0},
		{"besides its own", "true", true, corev1.ServiceSpec{}, []discoveryv1.EndpointSlice{ownSlice("shanghai", "10.2.0.1 ready"), ownSlice("", "10.1.0.1 ready")}, "10.1.0.1 10.2.0.1", "extended to other clusters", 0},
		{"not asked for", "", true, corev1.ServiceSpec{}, []discoveryv1.EndpointSlice{ownSlice("", "10.1.0.1 ready")}, "10.1.0.1", "kubectl annotate service -n shop web clusterset.dev/extend=true", 0},
		{"not allowed", "true", false, corev1.ServiceSpec{}, []discoveryv1.EndpointSlice{ownSlice("", "10.1.0.1 ready")}, "10.1.0.1", "kubectl label namespace shop clusterset.dev/extend=allowed", 0},
		{"nothing elsewhere", "true", true, corev1.ServiceSpec{}, nil, "", "no other cluster has a ready endpoint", 0},
		{"only here", "true", true, corev1.ServiceSpec{
			InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyLocal), ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, PublishNotReadyAddresses: true,
		}, []discoveryv1.EndpointSlice{far}, "10.2.0.1", "extended to other clusters", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Selector, c.spec.ClusterIPs = map[string]string{"app": "web"}, []string{"10.96.0.7"}
			own := &Own{Cluster: "beijing", Slices: c.slices, Service: &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.KeyExtend: c.extend}}, Spec: c.spec,
			}}
			own.asks = desired.Extended{Service: own.Service, Allowed: c.allowed}
			e := own.Explain(time.Time{})
			var used []string
			for _, at := range e.Endpoints {
				if at.Used {
					used = append(used, at.Address)
				}
			}
			if got := strings.Join(used, " "); got != c.used {
				t.Errorf("%q are used, want %q: %+v", got, c.used, e.Endpoints)
			}
			if !strings.Contains(e.Because, c.because) || len(e.Notes) != c.notes || e.Name != "web.shop.svc.cluster.local." || fmt.Sprint(e.Addresses) != "[10.96.0.7]" {
				t.Errorf("%+v", e)
			}
			text := Screen{}.Render(e)
			if strings.Contains(text, "Tiers") || !strings.Contains(text, c.because) {
				t.Error(text)
			}
		})
	}
}
