package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
)

func ptr[T any](v T) *T { return &v }

// compare holds the errors that came out against the beginnings of those wanted, in order.
func compare(t *testing.T, got field.ErrorList, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d errors; want %d: %v", len(got), len(want), got.ToAggregate())
	}
	for i := range min(len(got), len(want)) {
		if !strings.HasPrefix(got[i].Error(), want[i]) {
			t.Errorf("error %d is\n%s\nwant\n%s…", i, got[i], want[i])
		}
	}
}

// service returns an ExportedService that is right and that Sanitized has nothing to fill in for, changed by f.
func service(f func(*ExportedService)) *ExportedService {
	e := &ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "clusterset-member-beijing", Name: "web.shop"},
		Spec: ExportedServiceSpec{
			ServiceNamespace: "shop",
			ServiceName:      "web",
			Type:             mcsv1beta1.ClusterSetIP,
			Ports: []ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, AppProtocol: ptr("http"), TargetPort: ptr(intstr.FromString("web"))},
				{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 80, TargetPort: ptr(intstr.FromInt32(53))},
			},
			ClusterIPs:            []string{"10.96.0.7", "fd00:96::7"},
			IPFamilies:            []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			SessionAffinity:       corev1.ServiceAffinityNone,
			InternalTrafficPolicy: ptr(corev1.ServiceInternalTrafficPolicyCluster),
			TrafficDistribution:   ptr(corev1.ServiceTrafficDistributionPreferSameZone),
			ExportedLabels:        map[string]string{"team": "shop"},
			ExportedAnnotations:   map[string]string{"example.com/note": "any text, 长"},
			ExportedAt:            metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		},
	}
	if f != nil {
		f(e)
	}
	return e
}

func TestExportedServiceSanitized(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*ExportedService)
		want   func(*ExportedService) // what change comes down to; nil: the record is of no use
		errs   []string
	}{
		{"nothing wrong", nil, func(*ExportedService) {}, nil},
		{
			"names that are no labels",
			func(e *ExportedService) { e.Spec.ServiceName, e.Spec.ServiceNamespace = "web.shop", "*" },
			nil,
			[]string{
				"spec.serviceNamespace: Invalid value: \"*\": must be a DNS label",
				"spec.serviceName: Invalid value: \"web.shop\": must be a DNS label",
			},
		},
		{
			"another service's name",
			func(e *ExportedService) { e.Name = "web.bank" },
			nil,
			[]string{"metadata.name: Invalid value: \"web.bank\": must be web.shop"},
		},
		{
			"an unknown type and no age",
			func(e *ExportedService) { e.Spec.Type, e.Spec.ExportedAt = "ExternalName", metav1.Time{} },
			nil,
			[]string{
				"spec.type: Unsupported value: \"ExternalName\": supported values: \"ClusterSetIP\", \"Headless\"",
				"spec.exportedAt: Required value: the oldest export wins",
			},
		},
		{
			"what is left out is filled in",
			func(e *ExportedService) {
				e.Spec.Ports[0].Protocol = ""
				e.Spec.IPFamilies, e.Spec.SessionAffinity, e.Spec.InternalTrafficPolicy = nil, "", nil
			},
			func(*ExportedService) {},
			nil,
		},
		{
			"bad ports",
			func(e *ExportedService) {
				e.Spec.Ports = append(e.Spec.Ports,
					ServicePort{Port: 81},
					ServicePort{Name: "zero"},
					ServicePort{Name: "http", Port: 82},
					ServicePort{Name: "again", Port: 80},
					ServicePort{Name: "ok", Port: 83, AppProtocol: ptr("a b"), TargetPort: ptr(intstr.FromInt32(0))},
					ServicePort{Name: "named", Port: 84, TargetPort: ptr(intstr.FromString("Not A Port"))})
			},
			func(e *ExportedService) {
				e.Spec.Ports = append(e.Spec.Ports,
					ServicePort{Name: "ok", Protocol: corev1.ProtocolTCP, Port: 83},
					ServicePort{Name: "named", Protocol: corev1.ProtocolTCP, Port: 84})
			},
			[]string{
				"spec.ports[2].name: Required value: each port needs a name where there are several",
				"spec.ports[3].port: Invalid value: 0",
				"spec.ports[4].name: Duplicate value: \"http\"",
				"spec.ports[5].port: Duplicate value: 80",
				"spec.ports[6].appProtocol: Invalid value: \"a b\"",
				"spec.ports[6].targetPort: Invalid value: \"0\"",
				"spec.ports[7].targetPort: Invalid value: \"Not A Port\"",
			},
		},
		{
			"a single port needs no name",
			func(e *ExportedService) { e.Spec.Ports = []ServicePort{{Port: 80}} },
			func(e *ExportedService) { e.Spec.Ports = []ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}} },
			nil,
		},
		{
			"bad cluster IPs and families",
			func(e *ExportedService) {
				e.Spec.ClusterIPs = []string{"None", "169.254.169.254", "10.96.0.7", "10.96.0.8", "FD00:96::7"}
				e.Spec.IPFamilies = []corev1.IPFamily{"IPv5", "IPv4", "IPv4", "IPv6"}
			},
			func(*ExportedService) {},
			[]string{
				"spec.clusterIPs[0]: Invalid value: \"None\": must be an IPv4 or IPv6 address",
				"spec.clusterIPs[1]: Invalid value: \"169.254.169.254\": must be an address that other machines can reach",
				"spec.clusterIPs[3]: Invalid value: \"10.96.0.8\": must be of another family",
				"spec.ipFamilies[0]: Unsupported value: \"IPv5\"",
				"spec.ipFamilies[2]: Duplicate value: \"IPv4\"",
			},
		},
		{
			"Headless with cluster IPs",
			func(e *ExportedService) { e.Spec.Type = mcsv1beta1.Headless },
			func(e *ExportedService) { e.Spec.Type, e.Spec.ClusterIPs = mcsv1beta1.Headless, nil },
			[]string{"spec.clusterIPs: Forbidden: a Headless service has no clusterIPs"},
		},
		{
			"traffic fields that an API server would refuse",
			func(e *ExportedService) {
				e.Spec.SessionAffinity = "Cookie"
				e.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{}
				e.Spec.InternalTrafficPolicy = ptr(corev1.ServiceInternalTrafficPolicy("Nearby"))
				e.Spec.TrafficDistribution = ptr("PreferMoon")
			},
			func(e *ExportedService) { e.Spec.TrafficDistribution = nil },
			[]string{
				"spec.sessionAffinity: Unsupported value: \"Cookie\"",
				"spec.internalTrafficPolicy: Unsupported value: \"Nearby\"",
				"spec.trafficDistribution: Unsupported value: \"PreferMoon\"",
			},
		},
		{
			"an affinity time that can't be",
			func(e *ExportedService) {
				e.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				e.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr(int32(86401))}}
			},
			func(e *ExportedService) { e.Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
			[]string{"spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be 1 to 86400 seconds"},
		},
		{
			"labels and annotations that would steer us",
			func(e *ExportedService) {
				e.Spec.ExportedLabels = map[string]string{
					"team": "shop", "clusterset.dev/managed-by": "importer", "no key": "x", "bad": "a b",
				}
				e.Spec.ExportedAnnotations["service.kubernetes.io/topology-mode"] = "Auto"
				e.Spec.ExportedAnnotations["/"] = ""
			},
			func(*ExportedService) {},
			[]string{
				"spec.exportedLabels[bad]: Invalid value: \"a b\": must be a label value",
				"spec.exportedLabels[clusterset.dev/managed-by]: Forbidden: the key is reserved",
				"spec.exportedLabels[no key]: Invalid value: \"no key\": must be a label key",
				"spec.exportedAnnotations[/]: Invalid value: \"/\": must be an annotation key",
				"spec.exportedAnnotations[service.kubernetes.io/topology-mode]: Forbidden: the key is reserved",
			},
		},
		{
			"annotations that are too long together",
			func(e *ExportedService) {
				e.Spec.ExportedAnnotations["big-1"] = strings.Repeat("x", MaxExportedAnnotationBytes)
				e.Spec.ExportedAnnotations["tail"] = "kept"
			},
			func(e *ExportedService) { e.Spec.ExportedAnnotations["tail"] = "kept" },
			[]string{"spec.exportedAnnotations[big-1]: Too long"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := service(tc.change)
			before := e.DeepCopy()
			got, errs := e.Sanitized()
			compare(t, errs, tc.errs)
			if !equality.Semantic.DeepEqual(e, before) {
				t.Error("the record itself was changed")
			}
			if tc.want == nil {
				if got != nil {
					t.Error("something was kept")
				}
				return
			}
			if want := service(tc.want); !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("got\n%+v\nwant\n%+v", got, want)
			}
		})
	}
}

func TestExportedServiceSanitizedCutsWhatIsTooLong(t *testing.T) {
	e := service(func(e *ExportedService) {
		for i := range 200 {
			e.Spec.Ports = append(e.Spec.Ports, ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(1000 + i)})
			e.Spec.ExportedLabels[fmt.Sprintf("l%03d", i)] = ""
			e.Spec.ExportedAnnotations[fmt.Sprintf("l%03d", i)] = ""
		}
	})
	got, errs := e.Sanitized()
	if len(got.Spec.Ports) != api.MaxPorts || len(got.Spec.ExportedLabels) != api.MaxExportedKeys || len(got.Spec.ExportedAnnotations) != api.MaxExportedKeys {
		t.Errorf("%d ports, %d labels, %d annotations", len(got.Spec.Ports), len(got.Spec.ExportedLabels), len(got.Spec.ExportedAnnotations))
	}
	if len(errs) == 0 {
		t.Error("nothing was said about it")
	}
}

// endpoints returns an ExportedEndpoints that is right and that Sanitized has nothing to fill in for, changed by f.
func endpoints(f func(*ExportedEndpoints)) *ExportedEndpoints {
	e := &ExportedEndpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: "clusterset-member-beijing", Name: api.ExportedEndpointsName("shop", "web", "web-abc", 0)},
		Spec: ExportedEndpointsSpec{
			ServiceNamespace: "shop",
			ServiceName:      "web",
			AddressType:      discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"10.1.0.1"}, Hostname: ptr("web-0"), Zone: ptr("beijing"), Conditions: discoveryv1.EndpointConditions{Ready: ptr(true)}},
				{Addresses: []string{"10.1.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr(false), Terminating: ptr(true)}},
			},
			Ports: []discoveryv1.EndpointPort{{Name: ptr("http"), Protocol: ptr(corev1.ProtocolTCP), Port: ptr(int32(8080))}},
		},
	}
	if f != nil {
		f(e)
	}
	return e
}

func TestExportedEndpointsSanitized(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*ExportedEndpoints)
		want   func(*ExportedEndpoints)
		errs   []string
	}{
		{"nothing wrong", nil, func(*ExportedEndpoints) {}, nil},
		{
			"another service's name",
			func(e *ExportedEndpoints) { e.Name = "web.shopping.x" },
			nil,
			[]string{"metadata.name: Invalid value: \"web.shopping.x\": must begin with web.shop."},
		},
		{
			"names of hosts",
			func(e *ExportedEndpoints) { e.Spec.AddressType = discoveryv1.AddressTypeFQDN },
			nil,
			[]string{"spec.addressType: Unsupported value: \"FQDN\": supported values: \"IPv4\", \"IPv6\""},
		},
		{
			"what only its own cluster understands",
			func(e *ExportedEndpoints) {
				e.Spec.Endpoints[0].NodeName = ptr("node-1")
				e.Spec.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: "web-0"}
				e.Spec.Endpoints[0].DeprecatedTopology = map[string]string{"a": "b"}
				e.Spec.Endpoints[0].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "x"}}}
			},
			func(*ExportedEndpoints) {},
			nil,
		},
		{
			"bad addresses, and an endpoint without any left",
			func(e *ExportedEndpoints) {
				e.Spec.Endpoints[0].Addresses = []string{"fd00::1", "10.1.0.1", "10.1.0.1", "127.0.0.1"}
				e.Spec.Endpoints = append(e.Spec.Endpoints,
					discoveryv1.Endpoint{Addresses: []string{"::ffff:127.0.0.1"}}, discoveryv1.Endpoint{})
			},
			func(*ExportedEndpoints) {},
			[]string{
				"spec.endpoints[0].addresses[0]: Invalid value: \"fd00::1\": must be an IPv4 address",
				"spec.endpoints[0].addresses[3]: Invalid value: \"127.0.0.1\"",
				"spec.endpoints[2].addresses[0]: Invalid value: \"::ffff:127.0.0.1\"",
				"spec.endpoints[3].addresses: Required value",
			},
		},
		{
			"an IPv4 address written as IPv6 is no IPv6 address",
			func(e *ExportedEndpoints) {
				e.Spec.AddressType = discoveryv1.AddressTypeIPv6
				e.Spec.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"::ffff:10.1.0.1", "FD00::1"}}}
			},
			func(e *ExportedEndpoints) {
				e.Spec.AddressType = discoveryv1.AddressTypeIPv6
				e.Spec.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"fd00::1"}}}
			},
			[]string{"spec.endpoints[0].addresses[0]: Invalid value: \"::ffff:10.1.0.1\": must be an IPv6 address"},
		},
		{
			"a bad hostname or zone costs only that",
			func(e *ExportedEndpoints) {
				e.Spec.Endpoints[0].Hostname, e.Spec.Endpoints[0].Zone = ptr("Web_0"), ptr("a\nb")
				e.Spec.Endpoints[1].Hostname, e.Spec.Endpoints[1].Zone = ptr(""), ptr("")
			},
			func(e *ExportedEndpoints) { e.Spec.Endpoints[0].Hostname, e.Spec.Endpoints[0].Zone = nil, nil },
			[]string{"spec.endpoints[0].hostname: Invalid value", "spec.endpoints[0].zone: Invalid value"},
		},
		{
			"bad ports",
			func(e *ExportedEndpoints) {
				e.Spec.Ports = append(e.Spec.Ports,
					discoveryv1.EndpointPort{Name: ptr("any")},
					discoveryv1.EndpointPort{Port: ptr(int32(1))},
					discoveryv1.EndpointPort{Name: ptr("http"), Port: ptr(int32(2))},
					discoveryv1.EndpointPort{Name: ptr("alt"), Port: ptr(int32(8080)), AppProtocol: ptr("a b")})
			},
			func(e *ExportedEndpoints) {
				e.Spec.Ports = append(e.Spec.Ports,
					discoveryv1.EndpointPort{Name: ptr("alt"), Protocol: ptr(corev1.ProtocolTCP), Port: ptr(int32(8080))})
			},
			[]string{
				"spec.ports[1].port: Required value",
				"spec.ports[2].name: Required value",
				"spec.ports[3].name: Duplicate value: \"http\"",
				"spec.ports[4].appProtocol: Invalid value",
			},
		},
		{
			"an unnamed port of its own",
			func(e *ExportedEndpoints) { e.Spec.Ports = []discoveryv1.EndpointPort{{Port: ptr(int32(1))}} },
			func(e *ExportedEndpoints) {
				e.Spec.Ports = []discoveryv1.EndpointPort{{Name: ptr(""), Protocol: ptr(corev1.ProtocolTCP), Port: ptr(int32(1))}}
			},
			nil,
		},
		{
			"too many endpoints",
			func(e *ExportedEndpoints) {
				for range api.MaxExportedEndpoints {
					e.Spec.Endpoints = append(e.Spec.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.1.0.3"}})
				}
			},
			func(e *ExportedEndpoints) {
				for range api.MaxExportedEndpoints - 2 {
					e.Spec.Endpoints = append(e.Spec.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.1.0.3"}})
				}
			},
			[]string{"spec.endpoints: Too many: 102: must have at most 100 items"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := endpoints(tc.change)
			before := e.DeepCopy()
			got, errs := e.Sanitized()
			compare(t, errs, tc.errs)
			if !equality.Semantic.DeepEqual(e, before) {
				t.Error("the record itself was changed")
			}
			if tc.want == nil {
				if got != nil {
					t.Error("something was kept")
				}
				return
			}
			if want := endpoints(tc.want); !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("got\n%+v\nwant\n%+v", got, want)
			}
		})
	}
}

func TestSourceClusterIsTheNamespaces(t *testing.T) {
	e := service(func(e *ExportedService) { e.Labels = map[string]string{api.LabelCluster: "forged"} })
	if cluster, ok := e.SourceCluster(); cluster != "beijing" || !ok {
		t.Errorf("ExportedService: %q, %t", cluster, ok)
	}
	if cluster, ok := endpoints(nil).SourceCluster(); cluster != "beijing" || !ok {
		t.Errorf("ExportedEndpoints: %q, %t", cluster, ok)
	}
	e.Namespace = "shop"
	if cluster, ok := e.SourceCluster(); ok {
		t.Errorf("outside the members' namespaces: %q", cluster)
	}
}

func TestMemberClusterValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		member MemberCluster
		errs   []string
	}{
		{
			"all of it",
			MemberCluster{
				ObjectMeta: metav1.ObjectMeta{Name: "name.context"},
				Spec:       MemberClusterSpec{Zone: "北京", Zones: []string{"北京", "天津"}, Region: "north", Drain: true, Weight: ptr(int32(1)), CIDRs: []string{"10.1.0.0/16", "fd00:1::/48"}, Communities: []string{"payments", "edge-asia", "7"}},
				Status:     MemberClusterStatus{Phase: MemberSuspect},
			},
			nil,
		},
		{"the least", MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, nil},
		{
			"everything wrong",
			MemberCluster{
				ObjectMeta: metav1.ObjectMeta{Name: "a_b"},
				Spec:       MemberClusterSpec{Zone: " ", Zones: []string{"a", "", "b "}, Region: "\t", Weight: ptr(int32(0)), CIDRs: []string{"10.1.0.1/16", "10.1.0.0"}, Communities: []string{"a", "A", "", "a.b", "*", "a", "-a", strings.Repeat("a", 64), "a\x1b[31m"}},
				Status:     MemberClusterStatus{Phase: "Fine"},
			},
			[]string{
				"metadata.name: Invalid value: \"a_b\"",
				"spec.zone: Invalid value",
				"spec.zones[1]: Required value: must be the name of a zone; leave it out where it is unknown",
				"spec.zones[2]: Invalid value: \"b \": must be the name of a zone or region",
				"spec.region: Invalid value",
				"spec.weight: Invalid value: 0: must be 1 to 100",
				"spec.cidrs[0]: Invalid value: \"10.1.0.1/16\": must be a network without host bits",
				"spec.cidrs[1]: Invalid value: \"10.1.0.0\"",
				"spec.communities[1]: Invalid value: \"A\": must be a DNS label",
				"spec.communities[2]: Invalid value: \"\": must be a DNS label",
				"spec.communities[3]: Invalid value: \"a.b\": must be a DNS label",
				"spec.communities[4]: Invalid value: \"*\": must be a DNS label",
				"spec.communities[5]: Duplicate value: \"a\"",
				"spec.communities[6]: Invalid value: \"-a\": must be a DNS label",
				"spec.communities[7]: Invalid value: \"aaaa",
				"spec.communities[8]: Invalid value: \"a",
				"status.phase: Unsupported value: \"Fine\": supported values: \"Ready\", \"Suspect\", \"Expired\"",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { compare(t, tc.member.Validate(), tc.errs) })
	}
}

// FuzzSanitized holds what callers rely on for any record that parses: no panic, the record unchanged, and a copy that is
// right by its own rules and stays the same when sanitized again.
func FuzzSanitized(f *testing.F) {
	f.Add(mustJSON(f, service(nil)))
	f.Add(mustJSON(f, endpoints(nil)))
	f.Add([]byte(`{"metadata":{"name":"a.b"},"spec":{"serviceName":"a","serviceNamespace":"b","type":"Headless",` +
		`"exportedAt":"2026-01-02T03:04:05Z","ports":[{},{"port":1},{"port":2,"name":"x","targetPort":""}],"clusterIPs":["1.2.3.4"],` +
		`"ipFamilies":["IPv4","IPv4"],"exportedLabels":{"":"","a":" "},"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":0}}}}`))
	f.Add([]byte(`{"metadata":{"name":"a.b.c"},"spec":{"serviceName":"a","serviceNamespace":"b","addressType":"IPv6",` +
		`"endpoints":[{"addresses":["::ffff:1.2.3.4","fd00::1"],"zone":" ","hostname":""},{}],"ports":[{},{"port":0},{"name":"x","port":1}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s ExportedService
		if json.Unmarshal(data, &s) == nil {
			check(t, &s, (*ExportedService).Sanitized)
		}
		var e ExportedEndpoints
		if json.Unmarshal(data, &e) == nil {
			check(t, &e, (*ExportedEndpoints).Sanitized)
		}
		var m MemberCluster
		if json.Unmarshal(data, &m) == nil {
			m.Validate()
		}
	})
}

func check[T any](t *testing.T, in *T, sanitized func(*T) (*T, field.ErrorList)) {
	t.Helper()
	before := mustJSON(t, in)
	out, errs := sanitized(in)
	if !bytes.Equal(before, mustJSON(t, in)) {
		t.Fatal("the record itself was changed")
	}
	if out == nil {
		if len(errs) == 0 {
			t.Fatal("nothing kept and nothing wrong")
		}
		return
	}
	again, errs := sanitized(out)
	if len(errs) > 0 {
		t.Fatalf("the copy is wrong: %v", errs.ToAggregate())
	}
	if !bytes.Equal(mustJSON(t, out), mustJSON(t, again)) {
		t.Fatal("sanitizing again changes it")
	}
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
