package merge_test

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/merge"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// record returns a cluster's record of shop/web, exported the given number of seconds after the epoch, with an unnamed
// port 80.
func record(cluster string, age int, change ...func(*clustersetv1alpha1.ExportedServiceSpec)) *clustersetv1alpha1.ExportedService {
	r := &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: api.MemberNamespace(cluster),
			Name:      api.ExportedServiceName("shop", "web"),
		},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: "shop",
			ServiceName:      "web",
			Type:             mcsv1beta1.ClusterSetIP,
			Ports:            []clustersetv1alpha1.ServicePort{{Port: 80}},
			IPFamilies:       []corev1.IPFamily{corev1.IPv4Protocol},
			ExportedAt:       metav1.NewTime(epoch.Add(time.Duration(age) * time.Second)),
		},
	}
	for _, c := range change {
		c(&r.Spec)
	}
	return r
}

// ports parses "http:80 dns:53/UDP". An unnamed port is written ":80".
func ports(text string) func(*clustersetv1alpha1.ExportedServiceSpec) {
	return func(s *clustersetv1alpha1.ExportedServiceSpec) {
		s.Ports = nil
		for _, f := range strings.Fields(text) {
			name, number, _ := strings.Cut(f, ":")
			number, protocol, _ := strings.Cut(number, "/")
			n, err := strconv.Atoi(number)
			if err != nil {
				panic(err)
			}
			s.Ports = append(s.Ports, clustersetv1alpha1.ServicePort{Name: name, Protocol: corev1.Protocol(protocol), Port: int32(n)})
		}
	}
}

func families(f ...corev1.IPFamily) func(*clustersetv1alpha1.ExportedServiceSpec) {
	return func(s *clustersetv1alpha1.ExportedServiceSpec) { s.IPFamilies = f }
}

func affinity(a corev1.ServiceAffinity, seconds int32) func(*clustersetv1alpha1.ExportedServiceSpec) {
	return func(s *clustersetv1alpha1.ExportedServiceSpec) {
		s.SessionAffinity = a
		if seconds != 0 {
			s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
		}
	}
}

func headless(s *clustersetv1alpha1.ExportedServiceSpec) { s.Type = mcsv1beta1.Headless }

func labels(kv ...string) func(*clustersetv1alpha1.ExportedServiceSpec) {
	return func(s *clustersetv1alpha1.ExportedServiceSpec) {
		s.ExportedLabels = map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			s.ExportedLabels[kv[i]] = kv[i+1]
		}
	}
}

func annotations(kv ...string) func(*clustersetv1alpha1.ExportedServiceSpec) {
	return func(s *clustersetv1alpha1.ExportedServiceSpec) {
		labels(kv...)(s)
		s.ExportedAnnotations, s.ExportedLabels = s.ExportedLabels, nil
	}
}

// compact returns the records' values.
func compact(records ...*clustersetv1alpha1.ExportedService) (all []*door.Export) {
	for _, r := range records {
		all = append(all, door.CompactService(r, epoch))
	}
	return all
}

func resolve(records ...*clustersetv1alpha1.ExportedService) merge.Resolved {
	exports, _ := merge.Exports(compact(records...), nil)
	return merge.Resolve(exports)
}

// portText is the inverse of ports, and adds the clusters that expose each port.
func portText(all []merge.Port) string {
	var text []string
	for _, p := range all {
		text = append(text, p.Name+":"+strconv.Itoa(int(p.Port))+"/"+string(p.Protocol)+"="+strings.Join(p.Clusters, "+"))
	}
	return strings.Join(text, " ")
}
