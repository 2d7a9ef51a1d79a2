package preview

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/record"
)

// set builds the objects of a hub.
type set struct {
	testing.TB
	members   []clustersetv1alpha1.MemberCluster
	services  []clustersetv1alpha1.ExportedService
	endpoints []clustersetv1alpha1.ExportedEndpoints
	reports   []clustersetv1alpha1.MemberReport
}

// newSet returns a set with clusters given as "name zone,zone region". Their nodes are in these zones.
func newSet(t testing.TB, clusters ...string) *set {
	s := &set{TB: t}
	for _, text := range clusters {
		words := append(strings.Fields(text), "", "")
		m := clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: words[0]}}
		m.Status.Phase = clustersetv1alpha1.MemberReady
		m.Spec.Region = words[2]
		for zone := range strings.FieldsFuncSeq(words[1], func(r rune) bool { return r == ',' }) {
			m.Status.Zones = append(m.Status.Zones, zone)
		}
		s.members = append(s.members, m)
	}
	return s
}

// export exports a service from a cluster, with the given number of ready endpoints in each zone. The kind None means Headless.
func (s *set) export(cluster, service, kind string, zones ...string) {
	r := s.records(cluster, service, kind, zones...)
	s.services = append(s.services, *r.Service)
	for _, e := range r.Endpoints {
		s.endpoints = append(s.endpoints, *e)
	}
}

// records returns the records that an exporter writes for a Service. Zones are given as "zone=endpoints".
func (s *set) records(cluster, service, kind string, zones ...string) *Records {
	s.Helper()
	key, err := ParseService(service)
	if err != nil {
		s.Fatal(err)
	}
	number := 0
	for i := range s.members {
		if s.members[i].Name == cluster {
			number = i + 1
		}
	}
	ports := []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}
	exported := &clustersetv1alpha1.ExportedService{
		ObjectMeta: record.Meta(cluster, key, api.ExportedServiceName(key.Namespace, key.Name)),
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: key.Namespace, ServiceName: key.Name, Type: mcsv1beta1.ClusterSetIP, ClusterIPs: []string{fmt.Sprintf("10.96.%d.%d", number, len(s.services)%250+1)},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: ports,
			ExportedAt: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, len(s.services), 0, time.UTC)),
		},
	}
	if kind == "None" {
		exported.Spec.Type, exported.Spec.ClusterIPs = mcsv1beta1.Headless, nil
	}
	slice := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: key.Name + "-1"}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](8080)}},
	}
	for i, text := range zones {
		var n int
		zone, count, _ := strings.Cut(text, "=")
		if _, err := fmt.Sscan(count, &n); err != nil {
			s.Fatalf("%q: want zone=endpoints", text)
		}
		for j := range n {
			e := discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.%d.%d", number, len(s.services)%50*5+i, j+1)}}
			if zone != "" {
				e.Zone = &zone
			}
			slice.Endpoints = append(slice.Endpoints, e)
		}
	}
	r := &Records{Service: exported}
	all := record.Endpoints(cluster, key, slice)
	for i := range all {
		r.Endpoints = append(r.Endpoints, &all[i])
	}
	return r
}

func (s *set) member(name string) *clustersetv1alpha1.MemberCluster {
	for i := range s.members {
		if s.members[i].Name == name {
			return &s.members[i]
		}
	}
	s.Fatalf("no cluster %s", name)
	return nil
}

func (s *set) state() *State {
	var objects []runtime.Object
	for i := range s.members {
		objects = append(objects, &s.members[i])
	}
	for i := range s.services {
		objects = append(objects, &s.services[i])
	}
	for i := range s.endpoints {
		objects = append(objects, &s.endpoints[i])
	}
	for i := range s.reports {
		objects = append(objects, &s.reports[i])
	}
	return NewState(objects)
}

// cantReach makes a cluster's report say that it can't reach others, given with commas.
func (s *set) cantReach(cluster, others string) {
	l := clustersetv1alpha1.MemberReport{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: clustersetv1alpha1.MemberReportName}}
	l.Spec.Unreachable = strings.Split(others, ",")
	s.reports = append(s.reports, l)
}
