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
	sanitizeAll(t, "testdata/cases/service.yaml", service(nil))
	t.Run("annotations that are too long together", func(t *testing.T) {
		record := service(func(e *ExportedService) {
			e.Spec.ExportedAnnotations["big-1"], e.Spec.ExportedAnnotations["tail"] = strings.Repeat("x", MaxExportedAnnotationBytes), "kept"
		})
		want := service(func(e *ExportedService) { e.Spec.ExportedAnnotations["tail"] = "kept" })
		sanitizes(t, record, want, []string{"spec.exportedAnnotations[big-1]: Too long"})
	})
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
