package exporter

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Rule C3 of docs/spec/control-plane.md.
func TestServiceFactsTravel(t *testing.T) {
	src := exported(slice("web-1", 1))
	seconds, distribution, app := int32(600), "PreferClose", "kubernetes.io/h2c"
	src.Service.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	src.Service.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	src.Service.Spec.TrafficDistribution = &distribution
	src.Service.Spec.Ports[0].AppProtocol = &app
	src.Service.Labels = map[string]string{"metadata": "stays"}
	src.Export.Labels = map[string]string{"metadata": "stays"}
	src.Export.Annotations = map[string]string{"metadata": "stays"}
	src.Export.Spec.ExportedLabels = map[string]string{"team": "shop"}
	src.Export.Spec.ExportedAnnotations = map[string]string{"note": "hello"}

	target := intstr.FromInt32(8080)
	want := clustersetv1alpha1.ExportedServiceSpec{
		ServiceNamespace:      "shop",
		ServiceName:           "web",
		Type:                  mcsv1beta1.ClusterSetIP,
		Ports:                 []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: "TCP", AppProtocol: &app, Port: 80, TargetPort: &target}},
		ClusterIPs:            []string{"10.96.0.10"},
		IPFamilies:            []corev1.IPFamily{corev1.IPv4Protocol},
		SessionAffinity:       corev1.ServiceAffinityClientIP,
		SessionAffinityConfig: src.Service.Spec.SessionAffinityConfig,
		InternalTrafficPolicy: src.Service.Spec.InternalTrafficPolicy,
		TrafficDistribution:   &distribution,
		ExportedLabels:        map[string]string{"team": "shop"},
		ExportedAnnotations:   map[string]string{"note": "hello"},
		ExportedAt:            epoch,
	}
	d := desired(src)
	_, _, suffix, _ := api.ParseExportedEndpointsName(d.Endpoints[0].Name)
	want.Endpoints = []string{suffix}
	if d.Service == nil || !equality.Semantic.DeepEqual(d.Service.Spec, want) {
		t.Fatalf("got %+v, want %+v", d.Service, want)
	}
	if d.Service.Namespace != "clusterset-member-beijing" || d.Service.Name != "web.shop" {
		t.Errorf("the record is %s/%s", d.Service.Namespace, d.Service.Name)
	}
	if d.LeftOut.Count > 0 || d.Refused != nil {
		t.Errorf("left out %v, refused %v", d.LeftOut, d.Refused)
	}
}

// Rules C2 of docs/spec/control-plane.md and D70 of docs/spec/data-path.md.
func TestTypesAndRefusals(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*Source)
		want    mcsv1beta1.ServiceImportType
		refused mcsv1beta1.ServiceExportConditionReason
	}{
		{"ClusterIP", func(*Source) {}, mcsv1beta1.ClusterSetIP, ""},
		{"NodePort", func(s *Source) { s.Service.Spec.Type = corev1.ServiceTypeNodePort }, mcsv1beta1.ClusterSetIP, ""},
		{"LoadBalancer", func(s *Source) { s.Service.Spec.Type = corev1.ServiceTypeLoadBalancer }, mcsv1beta1.ClusterSetIP, ""},
		{"headless", func(s *Source) {
			s.Service.Spec.ClusterIP, s.Service.Spec.ClusterIPs = "None", []string{"None"}
		}, mcsv1beta1.Headless, ""},
		{"selectorless", func(s *Source) { s.Service.Spec.Selector = nil }, mcsv1beta1.ClusterSetIP, ""},
		{"ExternalName", func(s *Source) {
			s.Service.Spec.Type, s.Service.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
		}, "", mcsv1beta1.ServiceExportReasonInvalidServiceType},
		{"no Service", func(s *Source) { s.Service = nil }, "", mcsv1beta1.ServiceExportReasonNoService},
		{"Service being deleted", func(s *Source) { s.Service.DeletionTimestamp = &epoch }, "", mcsv1beta1.ServiceExportReasonNoService},
		{"excluded namespace", func(s *Source) { s.Excluded = true }, "", reasonNamespaceExcluded},
		{"excluded namespace without the Service", func(s *Source) { s.Excluded, s.Service = true, nil }, "", reasonNamespaceExcluded},
		{"derived Service", func(s *Source) {
			s.Service.Labels = map[string]string{api.LabelServiceName: "web"}
		}, "", mcsv1beta1.ServiceExportReasonInvalidServiceType},
		{"our importer's Service", func(s *Source) {
			s.Service.Labels = map[string]string{api.LabelManagedBy: api.ManagedByImporter}
		}, "", mcsv1beta1.ServiceExportReasonInvalidServiceType},
		{"no ServiceExport", func(s *Source) { s.Export = nil }, "", ""},
		{"ServiceExport being deleted", func(s *Source) { s.Export.DeletionTimestamp = &epoch }, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := exported(slice("web-1", 1))
			c.change(&src)
			d := desired(src)
			var got mcsv1beta1.ServiceImportType
			if d.Service != nil {
				got = d.Service.Spec.Type
			}
			if got != c.want {
				t.Errorf("type is %q, want %q", got, c.want)
			}
			if (d.Service == nil) != (len(d.Endpoints) == 0) {
				t.Errorf("%d endpoint records beside service %v", len(d.Endpoints), d.Service)
			}
			if c.refused == "" && d.Refused != nil || c.refused != "" && (d.Refused == nil || d.Refused.Reason != c.refused) {
				t.Errorf("refused is %+v, want %q", d.Refused, c.refused)
			}
			if d.Service != nil && got == mcsv1beta1.Headless && len(d.Service.Spec.ClusterIPs) > 0 {
				t.Errorf("headless with clusterIPs %v", d.Service.Spec.ClusterIPs)
			}
		})
	}
}

// Rule C4 of docs/spec/control-plane.md.
func TestEndpointsTravelWithoutWhatIsLocal(t *testing.T) {
	no, host := false, "web-0"
	src := exported(slice("web-1", 2, func(s *discoveryv1.EndpointSlice) {
		s.Endpoints[0].Hostname = &host
		s.Endpoints[1].Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &no}
		s.Endpoints[1].TargetRef, s.Endpoints[1].Zone, s.Endpoints[1].NodeName = nil, nil, nil
	}))
	d := desired(src)
	if len(d.Endpoints) != 1 {
		t.Fatalf("%d records, want 1", len(d.Endpoints))
	}
	zone := "cn-north-1a"
	yes := true
	want := []clustersetv1alpha1.Endpoint{
		{Addresses: []string{"10.1.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}, Hostname: &host, Zone: &zone},
		{Addresses: []string{"10.1.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: &no, Serving: &no}},
	}
	if got := d.Endpoints[0].Spec.Endpoints; !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := d.Endpoints[0].Spec.Ports; !equality.Semantic.DeepEqual(got, clustersetv1alpha1.PortsOf(src.Slices[0].Ports)) {
		t.Errorf("ports are %+v", got)
	}
}

// Who wrote a slice of this cluster's own endpoints doesn't matter: Kubernetes, or a user for a Service without a selector. Rule C4 of
// docs/spec/control-plane.md.
func TestWhichSlicesTravel(t *testing.T) {
	by := func(who string) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) { s.Labels[api.LabelEndpointSliceManagedBy] = who }
	}
	for name, c := range map[string]struct {
		change  func(*discoveryv1.EndpointSlice)
		travels bool
	}{
		"nobody's":                      {by(""), true},
		"Kubernetes's":                  {by("endpointslice-controller.k8s.io"), true},
		"mirrored":                      {by("endpointslicemirroring-controller.k8s.io"), true},
		"a user's":                      {by("kubectl"), true},
		"another program's":             {by("vm-endpoints.example.com"), true},
		"our importer's":                {by(api.EndpointSliceManagedBy), false},
		"a Cilium cluster mesh's":       {func(s *discoveryv1.EndpointSlice) { s.Labels[api.LabelSourceCluster] = "shanghai" }, false},
		"Karmada's":                     {by("endpointslice-dispatch-controller.karmada.io"), false},
		"Liqo's":                        {by("endpointslice.reflection.liqo.io"), false},
		"another MCS implementation's":  {func(s *discoveryv1.EndpointSlice) { s.Labels[api.LabelServiceName] = "web" }, false},
		"FQDN":                          {func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN }, false},
		"a placeholder":                 {func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil }, false},
		"with unusable addresses alone": {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"169.254.169.254"} }, false},
	} {
		d := desired(exported(slice("web-1", 1, c.change)))
		if (len(d.Endpoints) == 1) != c.travels || d.Service == nil {
			t.Errorf("%s: %d endpoint records, service %v", name, len(d.Endpoints), d.Service)
		}
		if unusable := strings.Contains(name, "unusable"); unusable != (d.LeftOut.Count > 0) {
			t.Errorf("%s: left out are %v", name, d.LeftOut)
		}
	}
}

// Rule C4 of docs/spec/control-plane.md.
func TestLongSlicesAreCut(t *testing.T) {
	d := desired(exported(slice("web-1", 250), slice("web-2", 100)))
	var sizes []int
	names := map[string]bool{}
	for _, e := range d.Endpoints {
		sizes = append(sizes, len(e.Spec.Endpoints))
		names[e.Name] = true
		if !strings.HasPrefix(e.Name, "web.shop.") {
			t.Errorf("name %q", e.Name)
		}
	}
	if len(sizes) != 4 || sizes[0] != 100 || sizes[1] != 100 || sizes[2] != 50 || sizes[3] != 100 || len(names) != 4 {
		t.Errorf("sizes %v of %d names", sizes, len(names))
	}
}

// Rule C51 of docs/spec/control-plane.md.
func TestUnfitValuesAreLeftOutAndSaid(t *testing.T) {
	src := exported(slice("web-1", 2, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"127.0.0.1"} }))
	src.Export.Spec.ExportedLabels = map[string]string{"kubernetes.io/service-name": "kube-dns", "team": "shop"}
	d := desired(src)
	if d.LeftOut.Count < 2 {
		t.Fatalf("left out %v", d.LeftOut)
	}
	if got := d.Service.Spec.ExportedLabels; len(got) != 1 || got["team"] != "shop" {
		t.Errorf("labels %v", got)
	}
	if message := completeCondition(d.LeftOut).Message; !strings.Contains(message, "127.0.0.1") || !strings.Contains(message, "service-name") {
		t.Errorf("message %q", message)
	}
}
