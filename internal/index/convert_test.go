package index

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/topology"
)

// wantErrors expects one error for each string in want, which has the form "<path>: <part of the message>".
func wantErrors(t *testing.T, name string, errs field.ErrorList, want []string) {
	t.Helper()
	if len(errs) != len(want) {
		t.Errorf("%s: errors %v, want %q", name, errs, want)
		return
	}
	for i, w := range want {
		path, message, _ := strings.Cut(w, ": ")
		if errs[i].Field != path || !strings.Contains(errs[i].Error(), message) {
			t.Errorf("%s: error %q, want %q", name, errs[i], w)
		}
	}
}

func serviceImport(change func(*mcsv1beta1.ServiceImport)) *mcsv1beta1.ServiceImport {
	o := &mcsv1beta1.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web"},
		Spec: mcsv1beta1.ServiceImportSpec{
			Type:  mcsv1beta1.ClusterSetIP,
			IPs:   []string{"fd00::1", "10.0.0.1"},
			Ports: []mcsv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	if change != nil {
		change(o)
	}
	return o
}

func TestFromServiceImport(t *testing.T) {
	const whole = "{Service:web.prod Headless:false Ports:[{Name:http Number:80 Protocol:tcp}] IPs:[10.0.0.1 fd00::1] FromImporter:false}"
	tests := []struct {
		name   string
		change func(*mcsv1beta1.ServiceImport)
		want   string // empty for nil
		errs   []string
	}{
		{"a whole one", nil, whole, nil},
		{"an IP twice, an IPv4 mapped into IPv6", func(o *mcsv1beta1.ServiceImport) {
			o.Spec.IPs = []string{"fd00::1", "10.0.0.1", "fd00:0::1", "::ffff:10.0.0.1"}
		}, whole, nil},
		{"IPs that can't be served", func(o *mcsv1beta1.ServiceImport) {
			o.Spec.IPs = []string{"fd00::1", "junk", "127.0.0.1", "10.0.0.1", "fe80::1%eth0", ""}
		}, whole, []string{"spec.ips[1]: must be an IPv4 or IPv6 address", "spec.ips[2]: not a loopback address", "spec.ips[4]: must not carry an IPv6 zone", "spec.ips[5]: must be an IPv4 or IPv6 address"}},
		{"one of our importer's", func(o *mcsv1beta1.ServiceImport) {
			o.Labels = map[string]string{api.LabelManagedBy: api.ManagedByImporter}
		}, strings.Replace(whole, "FromImporter:false", "FromImporter:true", 1), nil},
		{"no IPs yet", func(o *mcsv1beta1.ServiceImport) { o.Spec.IPs = nil }, strings.Replace(whole, "10.0.0.1 fd00::1", "", 1), nil},
		{"headless: IPs mean nothing, not even wrong ones", func(o *mcsv1beta1.ServiceImport) {
			o.Spec.Type, o.Spec.IPs = mcsv1beta1.Headless, []string{"10.0.0.1", "junk"}
		}, "{Service:web.prod Headless:true Ports:[{Name:http Number:80 Protocol:tcp}] IPs:[] FromImporter:false}", nil},
		{"ports that can't be served", func(o *mcsv1beta1.ServiceImport) {
			o.Spec.Ports = append(o.Spec.Ports,
				mcsv1beta1.ServicePort{Name: "zero"},
				mcsv1beta1.ServicePort{Name: "many", Port: 65536},
				mcsv1beta1.ServicePort{Name: "a.b", Port: 1},
				mcsv1beta1.ServicePort{Name: "quic", Port: 1, Protocol: "QUIC"})
		}, whole, []string{"spec.ports[1].port: from 1 to 65535", "spec.ports[2].port: from 1 to 65535", "spec.ports[3].name: must be a DNS label", "spec.ports[4].protocol: supported values: \"TCP\", \"UDP\", \"SCTP\""}},
		{"a port name in upper case, a port twice, no protocol", func(o *mcsv1beta1.ServiceImport) {
			o.Spec.Ports = append(o.Spec.Ports, mcsv1beta1.ServicePort{Name: "HTTP", Port: 80})
		}, whole, nil},
		{"unnamed, UDP and SCTP ports", func(o *mcsv1beta1.ServiceImport) {
			o.Spec.Ports = []mcsv1beta1.ServicePort{{Port: 1}, {Name: "u", Port: 65535, Protocol: corev1.ProtocolUDP}, {Name: "s", Port: 2, Protocol: corev1.ProtocolSCTP}}
		}, "{Service:web.prod Headless:false Ports:[{Name: Number:1 Protocol:tcp} {Name:u Number:65535 Protocol:udp} {Name:s Number:2 Protocol:sctp}] IPs:[10.0.0.1 fd00::1] FromImporter:false}", nil},
		{"no type", func(o *mcsv1beta1.ServiceImport) { o.Spec.Type = "" }, "", []string{"spec.type: supported values"}},
		{"a name, a namespace and a type that can't be", func(o *mcsv1beta1.ServiceImport) {
			o.Name, o.Namespace, o.Spec.Type = "web.v1", "", "NodePort"
		}, "", []string{"metadata.name: must be a DNS label", "metadata.namespace: must be a DNS label", "spec.type: supported values: \"ClusterSetIP\", \"Headless\""}},
	}
	for _, tt := range tests {
		got, errs := FromServiceImport(serviceImport(tt.change))
		wantValue(t, tt.name, got, tt.want)
		wantErrors(t, tt.name, errs, tt.errs)
	}
}

// wantValue compares an object's text with want. The text of nil is "".
func wantValue[T any](t *testing.T, name string, got *T, want string) {
	t.Helper()
	text := ""
	if got != nil {
		text = strings.Replace(fmt.Sprintf("%+v", *got), " Policy:<nil>", "", 1)
	}
	if text != want {
		t.Errorf("%s:\n got %s\nwant %s", name, text, want)
	}
}

func endpointSlice(change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	o := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web-1", Labels: map[string]string{
			mcsv1beta1.LabelServiceName: "web", mcsv1beta1.LabelSourceCluster: "c1",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr("http"), Protocol: ptr(corev1.ProtocolTCP), Port: ptr(int32(8080))}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Hostname: ptr("h0"), Zone: ptr("z1")}},
	}
	if change != nil {
		change(o)
	}
	return o
}

func ptr[T any](v T) *T { return &v }

func TestFromEndpointSlice(t *testing.T) {
	const (
		head  = "{Namespace:prod Name:web-1 Service:web.prod Group:{Cluster:c1 Region: Ports:[{Name:http Number:8080 Protocol:tcp}] Endpoints:["
		whole = head + "{Addr:10.0.0.1 Hostname:h0 Zone:z1 Ready:true}]}}"
	)
	tests := []struct {
		name   string
		change func(*discoveryv1.EndpointSlice)
		want   string
		errs   []string
	}{
		{"a whole one", nil, whole, nil},
		{"not a slice of a multi-cluster service", func(o *discoveryv1.EndpointSlice) {
			o.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
		}, "", nil},
		{"names, not addresses", func(o *discoveryv1.EndpointSlice) { o.AddressType = discoveryv1.AddressTypeFQDN }, "", nil},
		{"upper case in cluster, host name and port name", func(o *discoveryv1.EndpointSlice) {
			o.Labels[mcsv1beta1.LabelSourceCluster], o.Endpoints[0].Hostname, o.Ports[0].Name = "C1", ptr("H0"), ptr("HTTP")
		}, whole, nil},
		{
			"a dotted cluster", func(o *discoveryv1.EndpointSlice) { o.Labels[mcsv1beta1.LabelSourceCluster] = "a.b" },
			strings.Replace(whole, "c1", "a.b", 1), nil,
		},
		{
			"no cluster", func(o *discoveryv1.EndpointSlice) { delete(o.Labels, mcsv1beta1.LabelSourceCluster) },
			strings.Replace(whole, "c1", "", 1), nil,
		},
		{
			"a cluster that can't be", func(o *discoveryv1.EndpointSlice) { o.Labels[mcsv1beta1.LabelSourceCluster] = "a.b.c" },
			"",
			[]string{"metadata.labels[multicluster.kubernetes.io/source-cluster]: must be a cluster name"},
		},
		{
			"a service name that can't be", func(o *discoveryv1.EndpointSlice) { o.Labels[mcsv1beta1.LabelServiceName] = "web.v1" },
			"",
			[]string{"metadata.labels[multicluster.kubernetes.io/service-name]: must be a DNS label"},
		},
		{
			"a namespace that can't be", func(o *discoveryv1.EndpointSlice) { o.Namespace = "Prod" },
			"",
			[]string{"metadata.namespace: must be a DNS label"},
		},
		{
			"not ready", func(o *discoveryv1.EndpointSlice) { o.Endpoints[0].Conditions.Ready = ptr(false) },
			strings.Replace(whole, "Ready:true", "Ready:false", 1), nil,
		},
		{"ready, though terminating and not serving", func(o *discoveryv1.EndpointSlice) {
			o.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: ptr(true), Serving: ptr(false), Terminating: ptr(true)}
		}, whole, nil},
		{
			"a host name that can't be: its addresses serve under their own", func(o *discoveryv1.EndpointSlice) { o.Endpoints[0].Hostname = ptr("a.b") },
			strings.Replace(whole, "h0", "", 1),
			[]string{"endpoints[0].hostname: must be a DNS label"},
		},
		{"addresses that can't be served", func(o *discoveryv1.EndpointSlice) {
			o.Endpoints = append([]discoveryv1.Endpoint{{Addresses: []string{"web.example", "0.0.0.0", "169.254.169.254"}}}, o.Endpoints...)
		}, whole, []string{"endpoints[0].addresses[0]: must be an IPv4 or IPv6 address", "endpoints[0].addresses[1]: not the unspecified address", "endpoints[0].addresses[2]: not a link-local address"}},
		{"several addresses of one endpoint", func(o *discoveryv1.EndpointSlice) {
			o.Endpoints[0].Addresses = []string{"10.0.0.1", "bad", "10.0.0.2"}
		}, head + "{Addr:10.0.0.1 Hostname:h0 Zone:z1 Ready:true} {Addr:10.0.0.2 Hostname:h0 Zone:z1 Ready:true}]}}", []string{"endpoints[0].addresses[1]: must be an IPv4 or IPv6 address"}},
		{"nothing known of an endpoint but an address", func(o *discoveryv1.EndpointSlice) {
			o.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"fd00::1"}}}
		}, head + "{Addr:fd00::1 Hostname: Zone: Ready:true}]}}", nil},
		{"ports that can't be served, and any port", func(o *discoveryv1.EndpointSlice) {
			o.Ports = append(o.Ports,
				discoveryv1.EndpointPort{Name: ptr("any")},
				discoveryv1.EndpointPort{Name: ptr("zero"), Port: ptr(int32(0))},
				discoveryv1.EndpointPort{Name: ptr("_x"), Port: ptr(int32(1))},
				discoveryv1.EndpointPort{Port: ptr(int32(1)), Protocol: ptr(corev1.Protocol("tcp"))})
		}, whole, []string{"ports[2].port: from 1 to 65535", "ports[3].name: must be a DNS label", "ports[4].protocol: supported values"}},
	}
	for _, tt := range tests {
		got, errs := FromEndpointSlice(endpointSlice(tt.change))
		wantValue(t, tt.name, got, tt.want)
		wantErrors(t, tt.name, errs, tt.errs)
	}
}

func globalService(change func(*fabedgev1alpha1.GlobalService)) *fabedgev1alpha1.GlobalService {
	o := &fabedgev1alpha1.GlobalService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web"},
		Spec: fabedgev1alpha1.GlobalServiceSpec{
			Type:  fabedgev1alpha1.Headless,
			Ports: []fabedgev1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
			Endpoints: []fabedgev1alpha1.Endpoint{
				{Addresses: []string{"10.0.0.1"}, Hostname: ptr("h0"), Cluster: "c1", Zone: "z1", Region: "r1"},
				{Addresses: []string{"10.0.0.2"}, Cluster: "c1", Zone: "z2", Region: "r1"},
			},
		},
	}
	if change != nil {
		change(o)
	}
	return o
}

func TestFromGlobalService(t *testing.T) {
	const (
		one   = "{Addr:10.0.0.1 Hostname:h0 Zone:z1 Ready:true}"
		two   = "{Addr:10.0.0.2 Hostname: Zone:z2 Ready:true}"
		ports = "[{Name:http Number:80 Protocol:tcp}]"
		head  = "{Service:web.prod Headless:true Ports:" + ports + " Groups:["
		group = "{Cluster:c1 Region:r1 Ports:" + ports + " Endpoints:["
		whole = head + group + one + " " + two + "]}]}"
	)
	tests := []struct {
		name   string
		change func(*fabedgev1alpha1.GlobalService)
		want   string
		errs   []string
	}{
		{"a whole one", nil, whole, nil},
		{"no type means ClusterIP", func(o *fabedgev1alpha1.GlobalService) { o.Spec.Type = "" }, strings.Replace(whole, "Headless:true", "Headless:false", 1), nil},
		{"a type, a name and a namespace that can't be", func(o *fabedgev1alpha1.GlobalService) {
			o.Spec.Type, o.Name, o.Namespace = "LoadBalancer", "a.b", "-"
		}, "", []string{"metadata.name: must be a DNS label", "metadata.namespace: must be a DNS label", "spec.type: supported values: \"ClusterIP\", \"Headless\""}},
		{"groups by cluster, region and ports", func(o *fabedgev1alpha1.GlobalService) {
			o.Spec.Endpoints[1].Region = "r2"
		}, head + group + one + "]} " + strings.Replace(group, "r1", "r2", 1) + two + "]}]}", nil},
		{"an endpoint with ports of its own", func(o *fabedgev1alpha1.GlobalService) {
			o.Spec.Endpoints[1].Ports = []fabedgev1alpha1.EndpointPort{{Name: "http", Port: 8080}}
		}, head + group + one + "]} " + strings.Replace(group, "80", "8080", 1) + two + "]}]}", nil},
		{"not ready, and ready as it says", func(o *fabedgev1alpha1.GlobalService) {
			o.Spec.Endpoints[0].Ready, o.Spec.Endpoints[1].Ready = ptr(false), ptr(true)
		}, strings.Replace(whole, "Ready:true", "Ready:false", 1), nil},
		{"an endpoint of a cluster that can't be is left out", func(o *fabedgev1alpha1.GlobalService) {
			o.Spec.Endpoints[0].Cluster = "c_1"
		}, head + group + two + "]}]}", []string{"spec.endpoints[0].cluster: must be a cluster name"}},
		{"addresses that can't be served", func(o *fabedgev1alpha1.GlobalService) {
			o.Spec.Endpoints[0].Addresses = []string{"", "10.0.0.1", "::1"}
			o.Spec.Endpoints[1].Addresses = []string{"224.0.0.1"}
		}, head + group + one + "]}]}", []string{"spec.endpoints[0].addresses[0]: must be an IPv4 or IPv6 address", "spec.endpoints[0].addresses[2]: not a loopback address", "spec.endpoints[1].addresses[0]: not a multicast address"}},
		{
			"a host name, a zone and a region that can't be: the address serves", func(o *fabedgev1alpha1.GlobalService) {
				o.Spec.Endpoints[0].Hostname, o.Spec.Endpoints[0].Zone, o.Spec.Endpoints[1].Region = ptr("-"), "z\n1", " r1"
			}, head + group + "{Addr:10.0.0.1 Hostname: Zone: Ready:true}]} " + strings.Replace(group, "r1", "", 1) + two + "]}]}",
			[]string{"spec.endpoints[0].hostname: must be a DNS label", "spec.endpoints[0].zone: must be the name of a zone", "spec.endpoints[1].region: must be the name of a zone or region"},
		},
		{"ports that can't be served", func(o *fabedgev1alpha1.GlobalService) {
			o.Spec.Ports = append(o.Spec.Ports, fabedgev1alpha1.ServicePort{Name: "x"}, fabedgev1alpha1.ServicePort{Name: "http", Port: 1})
		}, whole, []string{"spec.ports[1].port: must be a port number", "spec.ports[2].name: Duplicate"}},
		{"upper case in cluster, host name and port name", func(o *fabedgev1alpha1.GlobalService) {
			o.Spec.Endpoints[0].Cluster, o.Spec.Endpoints[0].Hostname, o.Spec.Ports[0].Name = "C1", ptr("H0"), "HTTP"
		}, whole, nil},
	}
	for _, tt := range tests {
		o := globalService(tt.change)
		before := o.DeepCopy()
		got, errs := FromGlobalService(o)
		wantValue(t, tt.name, got, tt.want)
		wantErrors(t, tt.name, errs, tt.errs)
		if !reflect.DeepEqual(o, before) {
			t.Errorf("%s: the object, which an informer may own, was changed", tt.name)
		}
	}
}

// Rule A28 of docs/spec/answers.md.
func TestFromMemberCluster(t *testing.T) {
	tests := []struct {
		name  string
		phase clustersetv1alpha1.MemberClusterPhase
		want  topology.Phase
	}{
		{"never seen a heartbeat", "", topology.Ready},
		{"ready", clustersetv1alpha1.MemberReady, topology.Ready},
		{"suspect", clustersetv1alpha1.MemberSuspect, topology.Suspect},
		{"expired", clustersetv1alpha1.MemberExpired, topology.Expired},
		{"a phase of a newer hub", "Resting", topology.Ready},
	}
	for _, tt := range tests {
		for _, drain := range []bool{false, true} {
			o := &clustersetv1alpha1.MemberCluster{
				ObjectMeta: metav1.ObjectMeta{Name: "C1"},
				Spec:       clustersetv1alpha1.MemberClusterSpec{Zone: "z2", Zones: []string{"z3", "z1", "z2"}, Region: "r1", Drain: drain},
				Status:     clustersetv1alpha1.MemberClusterStatus{Phase: tt.phase},
			}
			got, errs := FromMemberCluster(o)
			want := &Cluster{"c1", topology.Member{Zones: []string{"z1", "z2", "z3"}, Region: "r1", Phase: tt.want, Drain: drain}, 0}
			if (len(errs) > 0) != (tt.phase == "Resting") || !want.equal(got) {
				t.Errorf("%s: %+v, %v, want %+v", tt.name, got, errs, want)
			}
		}
	}
	// The zones of its nodes count only if its spec has none.
	for _, spec := range []clustersetv1alpha1.MemberClusterSpec{{}, {Zone: "z1"}, {Zones: []string{"z1"}}} {
		want := []string{"z1"}
		if spec.Zone == "" && spec.Zones == nil {
			want = []string{"z3", "z4"}
		}
		got, errs := FromMemberCluster(&clustersetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Spec: spec, Status: clustersetv1alpha1.MemberClusterStatus{Zones: []string{"z4", "z3"}},
		})
		if len(errs) > 0 || !slices.Equal(got.Zones, want) {
			t.Errorf("spec %+v: %+v, %v, want the zones %v", spec, got, errs, want)
		}
	}
	for _, name := range []string{"", "a_b", "a.b.c", "-", strings.Repeat("a", 64)} {
		got, errs := FromMemberCluster(&clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
		wantValue(t, name, got, "")
		wantErrors(t, name, errs, []string{"metadata.name: must be a cluster name"})
	}
}

// An object's policy may have been written by anyone. An invalid part is reported and treated as not stated, and the rest of the
// object is used.
func TestPolicyIsRead(t *testing.T) {
	zoneRegion := []topology.Tier{topology.Zone, topology.Region}
	for _, tt := range []struct {
		name         string
		annotations  map[string]string
		distribution string
		// onImport and onGlobal are the policies that each object states. onGlobal equals onImport if there is no trafficDistribution.
		onImport, onGlobal topology.Policy
		errs               []string
		unknown            bool // the trafficDistribution, which is reported
	}{
		{name: "nothing stated"},
		{
			name:        "all stated",
			annotations: map[string]string{api.AnnotationPrefer: "none", api.AnnotationBoundary: "region", api.AnnotationMinReady: "2"},
			onImport:    topology.Policy{Prefer: []topology.Tier{}, Boundary: topology.Region, MinReady: 2},
			onGlobal:    topology.Policy{Prefer: []topology.Tier{}, Boundary: topology.Region, MinReady: 2},
		},
		{
			name:        "garbage in each",
			annotations: map[string]string{api.AnnotationPrefer: "near", api.AnnotationBoundary: "planet", api.AnnotationMinReady: "-2"},
			errs: []string{
				`metadata.annotations[clusterset.dev/prefer]: unknown tier "near": want one or more of cluster, zone and region, the most wanted first, separated by blanks, or none`,
				`metadata.annotations[clusterset.dev/boundary]: unknown tier "planet": want cluster, zone or region`,
				`metadata.annotations[clusterset.dev/min-ready]: want a whole number from 1 to 100000`,
			},
		},
		{
			name:        "garbage in one",
			annotations: map[string]string{api.AnnotationPrefer: "zone zone", api.AnnotationMinReady: "2"},
			onImport:    topology.Policy{MinReady: 2}, onGlobal: topology.Policy{MinReady: 2},
			errs: []string{`metadata.annotations[clusterset.dev/prefer]: zone is listed twice: want one or more of cluster, zone and region, the most wanted first, separated by blanks, or none`},
		},
		{name: "a trafficDistribution", distribution: "PreferSameZone", onImport: topology.Policy{Prefer: zoneRegion}},
		{name: "one that nobody knows yet", distribution: "PreferPlanet", unknown: true},
		{
			name: "an annotation goes before a trafficDistribution", distribution: "PreferClose",
			annotations: map[string]string{api.AnnotationPrefer: "cluster"},
			onImport:    topology.Policy{Prefer: []topology.Tier{topology.Cluster}}, onGlobal: topology.Policy{Prefer: []topology.Tier{topology.Cluster}},
		},
	} {
		imp := &mcsv1beta1.ServiceImport{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", Annotations: tt.annotations},
			Spec:       mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.Headless},
		}
		if tt.distribution != "" {
			imp.Spec.TrafficDistribution = &tt.distribution
		}
		read, errs := FromServiceImport(imp)
		if tt.unknown && len(errs) == 1 {
			errs = nil
		}
		wantErrors(t, tt.name, errs, tt.errs)
		if got := orZero(read.Policy); !got.Equal(tt.onImport) {
			t.Errorf("%s: a ServiceImport states %v, want %v", tt.name, got, tt.onImport)
		}
		global, errs := FromGlobalService(&fabedgev1alpha1.GlobalService{ObjectMeta: imp.ObjectMeta})
		wantErrors(t, tt.name, errs, tt.errs)
		if got := orZero(global.Policy); !got.Equal(tt.onGlobal) {
			t.Errorf("%s: a GlobalService states %v, want %v", tt.name, got, tt.onGlobal)
		}
	}
}

func orZero(p *topology.Policy) topology.Policy {
	if p == nil {
		return topology.Policy{}
	}
	return *p
}
