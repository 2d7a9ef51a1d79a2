package desired_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/test/records"
)

const (
	v4 = corev1.IPv4Protocol
	v6 = corev1.IPv6Protocol
)

func service(families []corev1.IPFamily, ips ...string) *corev1.Service {
	return &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: ips[0], ClusterIPs: ips, IPFamilies: families}}
}

// Rules C31 of docs/spec/control-plane.md and D27 of docs/spec/data-path.md.
func TestAddresses(t *testing.T) {
	type families = []corev1.IPFamily
	const ready = mcsv1beta1.ServiceImportReasonReady
	both := service(families{v6, v4}, "fd00::1", "10.96.0.1")
	for _, tc := range []struct {
		name     string
		stated   families
		derived  *corev1.Service
		families families
		ips      []string
		reason   mcsv1beta1.ServiceImportConditionReason
	}{
		{"come in the exports' order", families{v4, v6}, both, families{v4, v6}, []string{"10.96.0.1", "fd00::1"}, ready},
		{"of a family that the export lacks are hidden, and kept", families{v4}, both, families{v4}, []string{"10.96.0.1"}, ready},
		{"are of the families that this cluster has", families{v4, v6}, service(families{v4}, "10.96.0.1"), families{v4}, []string{"10.96.0.1"}, ready},
		{"can't serve another family", families{v6}, service(families{v4}, "10.96.0.1"), families{v6}, nil, mcsv1beta1.ServiceImportReasonIPFamilyNotSupported},
		{"are pending", families{v4}, &corev1.Service{}, families{v4}, nil, mcsv1beta1.ServiceImportReasonPending},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := records.Input(t, desired.DataPathPods, records.Exported("a", "shop", "web", "10.1.0.1", "10.11.0.1"))
			in.Services[0].Spec.IPFamilies, in.Derived = tc.stated, tc.derived
			out := in.Compute()
			spec, cond := out.ServiceImport.Spec, out.ServiceImport.Status.Conditions[0]
			if !slices.Equal(spec.IPFamilies, tc.families) || !slices.Equal(spec.IPs, tc.ips) || cond.Reason != string(tc.reason) {
				t.Errorf("families %v, ips %v, reason %s", spec.IPFamilies, spec.IPs, cond.Reason)
			}
			if !slices.Equal(out.Derived.Spec.ClusterIPs, tc.derived.Spec.ClusterIPs) {
				t.Errorf("the derived Service's addresses become %v", out.Derived.Spec.ClusterIPs)
			}
			if p := *out.Derived.Spec.IPFamilyPolicy; p != corev1.IPFamilyPolicyPreferDualStack {
				t.Errorf("its policy becomes %s", p)
			}
		})
	}
}

// Rule C31 of docs/spec/control-plane.md.
func TestServiceImportHasWhatIsMerged(t *testing.T) {
	in := records.Input(t, desired.DataPathPods, records.Exported("a", "shop", "web", "10.1.0.1", "10.11.0.1"), records.Exported("b", "shop", "web", "10.2.0.1", "10.12.0.1"))
	seconds, local, near, app := int32(60), corev1.ServiceInternalTrafficPolicyLocal, "PreferClose", "kubernetes.io/h2c"
	oldest, later := &in.Services[0].Spec, &in.Services[1].Spec
	oldest.Ports[0].AppProtocol = &app
	oldest.SessionAffinity, oldest.SessionAffinityConfig = corev1.ServiceAffinityClientIP, &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	oldest.InternalTrafficPolicy, oldest.TrafficDistribution = &local, &near
	oldest.ExportedLabels, oldest.ExportedAnnotations = map[string]string{"team": "red"}, map[string]string{"note": "old"}
	oldest.Policy = &clustersetv1alpha1.ServicePolicy{Prefer: "cluster region", Boundary: "region", MinReady: 3}
	later.ExportedAt = metav1.NewTime(oldest.ExportedAt.Add(time.Hour))
	later.Ports = append(later.Ports, clustersetv1alpha1.ServicePort{Name: "admin", Port: 81})
	in.Derived = service([]corev1.IPFamily{v4}, "10.96.0.7")
	imp := in.Compute().ServiceImport
	want := mcsv1beta1.ServiceImportSpec{
		Ports: []mcsv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, AppProtocol: &app, Port: 80}, {Name: "admin", Protocol: corev1.ProtocolTCP, Port: 81}},
		IPs:   []string{"10.96.0.7"}, Type: mcsv1beta1.ClusterSetIP, IPFamilies: []corev1.IPFamily{v4},
		SessionAffinity: corev1.ServiceAffinityClientIP, SessionAffinityConfig: oldest.SessionAffinityConfig,
		InternalTrafficPolicy: &local, TrafficDistribution: &near,
	}
	if !equality.Semantic.DeepEqual(imp.Spec, want) {
		t.Errorf("got %+v, want %+v", imp.Spec, want)
	}
	if got := imp.Status.Clusters; len(got) != 2 || got[0].Cluster != "a" || got[1].Cluster != "b" {
		t.Errorf("exported by %v", got)
	}
	for key, value := range map[string]string{"note": "old", api.AnnotationPrefer: "cluster region", api.AnnotationBoundary: "region", api.AnnotationMinReady: "3"} {
		if imp.Annotations[key] != value {
			t.Errorf("the annotation %s is %q, want %q", key, imp.Annotations[key], value)
		}
	}
	if imp.Labels["team"] != "red" {
		t.Errorf("labels are %v", imp.Labels)
	}
}

// As many endpoints as fit: ready ones first, then by cluster and address. Rule C33 of docs/spec/control-plane.md.
func TestGlobalServicesAreCut(t *testing.T) {
	for _, c := range []struct {
		name                  string
		large, small, unready int    // endpoints of two clusters, and how many of large's aren't ready
		region                string // of large
		want                  string
	}{
		{name: "all fit", large: 4000, small: 30, want: "large 4000 small 30"},
		{name: "by cluster", large: 5000, small: 30, want: "large 4096"},
		{name: "to the last", large: 4090, small: 30, want: "large 4090 small 6"},
		{name: "ready ones first", large: 5000, small: 30, unready: 4000, want: "large 4066 small 30"},
		{name: "at most 1 MiB", large: 3000, small: 30, region: strings.Repeat("r", 250), want: "large 2754"},
	} {
		in := records.Input(t, desired.DataPathPods)
		in.Members["large"] = &clustersetv1alpha1.MemberCluster{Spec: clustersetv1alpha1.MemberClusterSpec{Region: c.region}}
		for cluster, n := range map[string]int{"large": c.large, "small": c.small} {
			from := records.Input(t, desired.DataPathPods, records.Exported(cluster, "shop", "web", "10.1.0.1", "10.11.0.1"))
			from.Services[0].Spec.Type, from.Services[0].Spec.ClusterIPs = mcsv1beta1.Headless, nil
			in.Services = append(in.Services, from.Services[0])
			for i := range n {
				if i%api.MaxExportedEndpoints == 0 {
					e := from.Endpoints[0].DeepCopy()
					e.Name, e.Spec.Endpoints = fmt.Sprintf("web.shop.x-%d", i), nil
					in.Endpoints = append(in.Endpoints, e)
				}
				e := in.Endpoints[len(in.Endpoints)-1]
				ready := cluster != "large" || i >= c.unready
				e.Spec.Endpoints = append(e.Spec.Endpoints, clustersetv1alpha1.Endpoint{
					Addresses: []string{fmt.Sprintf("10.%d.%d.%d", len(cluster), i/250, i%250)}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
				})
			}
		}
		out, count := in.Compute(), map[string]int{}
		for _, e := range out.Global.Spec.Endpoints {
			count[e.Cluster]++
		}
		var got []string
		for _, cluster := range slices.Sorted(maps.Keys(count)) {
			got = append(got, fmt.Sprint(cluster, " ", count[cluster]))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
		if left := c.large + c.small - count["large"] - count["small"]; int(out.Global.Status.TruncatedEndpoints) != left {
			t.Errorf("%s: status is %+v", c.name, out.Global.Status)
		}
		if want := (c.large+99)/100 + (c.small+99)/100; len(out.Slices) != want {
			t.Errorf("%s: %d slices, want %d: they aren't cut", c.name, len(out.Slices), want)
		}
	}
}

// FuzzCompute writes random values into the specs of one of two members' records. The result is valid, contains the other member's part, and DNS
// servers accept all of it.
func FuzzCompute(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		path := []desired.DataPath{desired.DataPathPods, desired.DataPathClusterIPs, desired.DataPathNone}[rng.IntN(3)]
		in := records.Input(t, path, records.Exported("a", "shop", "web", "10.1.0.1", "10.11.0.5"), records.Exported("b", "shop", "web", "10.2.0.1", "10.12.0.5"))
		scribble(rng, in.Services[1], in.Endpoints[1])
		out := in.Compute()
		if out.ServiceImport == nil {
			t.Fatal("one bad record took the other cluster's with it")
		}
		checkImport(t, out)
		for _, s := range out.Slices {
			checkSlice(t, s)
			if _, errs, _ := index.Convert(s); len(errs) > 0 {
				t.Errorf("the DNS servers find in a slice: %v", errs.ToAggregate())
			}
		}
		if _, errs, _ := index.Convert(out.ServiceImport); len(errs) > 0 {
			t.Errorf("the DNS servers find in the ServiceImport: %v", errs.ToAggregate())
		}
		if errs := out.Global.Validate(); len(errs) > 0 {
			t.Errorf("GlobalService: %v", errs.ToAggregate())
		}
		if (out.Derived != nil) != (out.ServiceImport.Spec.Type == mcsv1beta1.ClusterSetIP && path != desired.DataPathNone && len(out.ServiceImport.Spec.Ports) > 0) {
			t.Errorf("derived %v of %+v", out.Derived, out.ServiceImport.Spec)
		}
	})
}

// scribble fills a cluster's records with values that are right, wrong or odd.
func scribble(rng *rand.Rand, s *clustersetv1alpha1.ExportedService, e *clustersetv1alpha1.ExportedEndpoints) {
	str := func(of ...string) string { return of[rng.IntN(len(of))] }
	ptr := func(of ...string) *string {
		if rng.IntN(len(of)+1) == 0 {
			return nil
		}
		v := str(of...)
		return &v
	}
	addresses := func(n int) (all []string) {
		for range rng.IntN(n + 1) {
			all = append(all, str("10.2.0.9", "10.2.0.1", "fd00::7", "127.0.0.1", "::", "fe80::1%eth0", "::ffff:10.0.0.1", "ff02::1", "x", ""))
		}
		return all
	}
	name := func() string { return str("", "http", "web", "tcp-80", "HTTP", "a.b", strings.Repeat("a", 64), "-") }
	number := func() int32 { return []int32{0, -1, 80, 81, 8080, 65536}[rng.IntN(6)] }
	protocol := func() corev1.Protocol { return corev1.Protocol(str("", "TCP", "UDP", "SCTP", "ICMP")) }

	s.Spec.ExportedAt = metav1.Unix(rng.Int64N(1<<41)-1, 0)
	s.Spec.Type = mcsv1beta1.ServiceImportType(str("ClusterSetIP", "Headless", "ExternalName"))
	s.Spec.Ports = nil
	for range rng.IntN(130) / (rng.IntN(20) + 1) {
		s.Spec.Ports = append(s.Spec.Ports, clustersetv1alpha1.ServicePort{Name: name(), Protocol: protocol(), Port: number(), AppProtocol: ptr("h2c", "/", "")})
	}
	s.Spec.ClusterIPs = addresses(4)
	s.Spec.IPFamilies = nil
	for range rng.IntN(4) {
		s.Spec.IPFamilies = append(s.Spec.IPFamilies, corev1.IPFamily(str("IPv4", "IPv6", "IPv5")))
	}
	s.Spec.SessionAffinity = corev1.ServiceAffinity(str("", "None", "ClientIP", "x"))
	s.Spec.TrafficDistribution = ptr("PreferClose", "x")
	s.Spec.ExportedLabels = map[string]string{str("team", "kubernetes.io/service-name", "clusterset.dev/x", "a b"): str("red", "a b", "")}

	e.Spec.AddressType = discoveryv1.AddressType(str("IPv4", "IPv6", "FQDN"))
	e.Spec.Ports = nil
	for range rng.IntN(4) {
		n, p, i := name(), protocol(), number()
		e.Spec.Ports = append(e.Spec.Ports, clustersetv1alpha1.EndpointPort{Name: &n, Protocol: &p, Port: &i})
	}
	e.Spec.Endpoints = nil
	for range rng.IntN(150) {
		e.Spec.Endpoints = append(e.Spec.Endpoints, clustersetv1alpha1.Endpoint{
			Addresses: addresses(2), Hostname: ptr("web-0", "a.b", ""),
			Zone: ptr("z", " ", "\x00"),
		})
	}
}

func checkImport(t *testing.T, out desired.Output) {
	names, numbers := map[string]bool{}, map[string]bool{}
	for _, p := range out.ServiceImport.Spec.Ports {
		number := fmt.Sprint(p.Protocol, p.Port)
		if names[p.Name] || numbers[number] || len(validation.IsValidPortNum(int(p.Port))) > 0 {
			t.Errorf("ports are %+v", out.ServiceImport.Spec.Ports)
		}
		names[p.Name], numbers[number] = true, true
	}
	for k, v := range out.ServiceImport.Labels {
		if len(validation.IsQualifiedName(k)) > 0 || len(validation.IsValidLabelValue(v)) > 0 {
			t.Errorf("label %q=%q", k, v)
		}
	}
}

func checkSlice(t *testing.T, s *discoveryv1.EndpointSlice) {
	if !desired.Owned(s) || len(validation.IsDNS1123Subdomain(s.Name)) > 0 || len(s.Endpoints) > api.MaxExportedEndpoints {
		t.Errorf("slice %+v", s.ObjectMeta)
	}
	for _, e := range s.Endpoints {
		if e.NodeName != nil || e.TargetRef != nil || len(e.Addresses) == 0 {
			t.Errorf("endpoint %+v", e)
		}
		for _, a := range e.Addresses {
			if addr, err := api.ParseAddress(a); err != nil || addr.Is4() != (s.AddressType == discoveryv1.AddressTypeIPv4) {
				t.Errorf("address %s in a slice of %s: %v", a, s.AddressType, err)
			}
		}
	}
}

// A port's name changes in the derived Service and in its slices at once. Rule D29 of docs/spec/data-path.md.
func TestAPortIsRenamedEverywhereAtOnce(t *testing.T) {
	record := records.Exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5")
	in := records.Input(t, desired.DataPathPods, record).Compact()
	in.Derived = desired.Compute(in).Derived
	in.Exports, in.Endpoints = nil, nil
	renamed := records.Input(t, desired.DataPathPods, strings.ReplaceAll(record, "name: http", "name: web")).Compact()
	in.Exports, in.Endpoints = renamed.Exports, renamed.Endpoints
	out := desired.Compute(in)
	if service, slice := out.Derived.Spec.Ports, out.Slices[0].Ports; len(service) != 1 || service[0].Name != "web" || len(slice) != 1 || *slice[0].Name != "web" {
		t.Errorf("the Service's ports are %v, the slice's %v", service, slice)
	}
}
