package v1alpha1

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
)

// service returns a valid ExportedService in which Sanitized has nothing to fill in, changed by f.
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
		want   func(*ExportedService) // makes the expected result from a valid record; nil if the record is dropped
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
			var want *ExportedService
			if tc.want != nil {
				want = service(tc.want)
			}
			sanitizes(t, service(tc.change), want, tc.errs)
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
	if errs.Count == 0 {
		t.Error("nothing was said about it")
	}
}

// If no entry of exportTo is valid, the export is for its own cluster only, never for all clusters. Invalid entries are
// reported.
func TestExportToFailsClosed(t *testing.T) {
	many := labels(MaxExportTo + 1)
	for _, tc := range []struct {
		name     string
		to, want []string
		errs     []string
	}{
		{"nothing stated", nil, nil, nil},
		{"none", []string{}, []string{}, nil},
		{"clusters and communities", []string{"shanghai", "edge-asia", "7"}, []string{"shanghai", "edge-asia", "7"}, nil},
		{"twice", []string{"shanghai", "shanghai"}, []string{"shanghai"}, nil},
		{"empty", []string{""}, []string{"beijing"}, []string{`spec.exportTo[0]: Invalid value: "": must be the name of a cluster or a community`}},
		{"everybody", []string{"*"}, []string{"beijing"}, []string{`spec.exportTo[0]: Invalid value: "*"`}},
		{"upper case", []string{"Shanghai"}, []string{"beijing"}, []string{`spec.exportTo[0]: Invalid value: "Shanghai"`}},
		{"too long", []string{strings.Repeat("a", 64)}, []string{"beijing"}, []string{`spec.exportTo[0]: Invalid value: "aaaa`}},
		{"not ASCII", []string{"上海", "shаnghai"}, []string{"beijing"}, []string{"spec.exportTo[0]: Invalid value", "spec.exportTo[1]: Invalid value"}},
		{"like a path", []string{"../shanghai", "edge/asia", ".", "/"}, []string{"beijing"}, []string{"spec.exportTo[0]", "spec.exportTo[1]", "spec.exportTo[2]", "spec.exportTo[3]"}},
		{"for a terminal", []string{"a\x1b[31m"}, []string{"beijing"}, []string{`spec.exportTo[0]: Invalid value: "a`}},
		{"some are right", []string{"*", "shanghai"}, []string{"shanghai"}, []string{"spec.exportTo[0]"}},
		{"too many", many, many[:MaxExportTo], []string{"spec.exportTo: Too many: 65: must have at most 64 items"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, errs := service(func(e *ExportedService) { e.Spec.ExportTo = tc.to }).Sanitized()
			compare(t, errs.List(), tc.errs)
			if !slices.Equal(got.Spec.ExportTo, tc.want) {
				t.Errorf("exported to %q, want %q", got.Spec.ExportTo, tc.want)
			}
			if text := errs.String(); strings.ContainsRune(text, '\x1b') {
				t.Errorf("the error is not printable: %q", text)
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
