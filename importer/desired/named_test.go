package desired_test

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/test/records"
)

// A Service of the service's own name leads to what the ClusterSetIP leads to, in the same pieces, by the same hints. Rules D66, D67 and D70 of
// docs/spec/data-path.md.
func TestNamed(t *testing.T) {
	shanghai := records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5")
	tianjin := records.Exported("tianjin", "shop", "web", "10.3.0.1", "10.13.0.5")
	here, near, far := member("beijing", "bj-1", "north", "Ready", ""), member("tianjin", "tj-1", "north", "Ready", ""), member("shanghai", "sh-1", "east", "Ready", "")
	unready := strings.Replace(tianjin, "endpoints: [{", "endpoints: [{conditions: {ready: false}, ", 1)
	headless := strings.NewReplacer("type: ClusterSetIP", "type: Headless", "clusterIPs: [10.2.0.1]", "clusterIPs: []").Replace(shanghai)
	for _, c := range []struct {
		name    string
		records []string
		path    desired.DataPath
		nodes   []topology.Location
		want    string // addresses, with their hints
	}{
		{name: "the near ones", records: []string{here, near, far, shanghai, tianjin}, want: "10.13.0.5"},
		{
			name: "by hints", records: []string{here, near, far, shanghai, tianjin}, nodes: []topology.Location{{Zone: "bj-1", Region: "north"}, {Zone: "bj-2", Region: "north"}},
			want: "10.12.0.5 none.clusterset.dev|10.13.0.5 bj-1 bj-2",
		},
		{name: "drained ones last", records: []string{here, member("tianjin", "tj-1", "north", "Ready", ", drain: true"), far, shanghai, tianjin}, want: "10.12.0.5"},
		{name: "ClusterIPs", records: []string{here, near, far, shanghai, tianjin}, path: desired.DataPathClusterIPs, want: "10.3.0.1"},
		{name: "ClusterIPs, if the near cluster has no endpoint", records: []string{here, near, far, shanghai, unready}, path: desired.DataPathClusterIPs, want: "10.2.0.1"},
		{name: "its own cluster alone", records: []string{here, records.Exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5")}, want: "no Service"},
		{name: "headless", records: []string{here, far, headless}, want: "no Service"},
		{name: "no data path", records: []string{here, far, shanghai}, path: desired.DataPathNone, want: "no Service"},
		{name: "no port", records: []string{here, far, strings.Replace(shanghai, "ports: [{name: http, port: 80}]", "ports: []", 1)}, want: "no Service"},
		{name: "nothing exported", want: "no Service"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.path == "" {
				c.path = desired.DataPathPods
			}
			in := records.Input(t, c.path, c.records...)
			in.Cluster, in.Nodes = "beijing", c.nodes
			if out := in.Compute(); out.Named != nil || len(out.Extending) > 0 {
				t.Errorf("without the label there is %v with %d slices", out.Named, len(out.Extending))
			}
			in.Names = true
			out := in.Compute()
			got := "no Service"
			if svc := out.Named; svc != nil {
				got = leadsTo(t, out)
				if svc.Name != "web" || !desired.Named(svc) || desired.Taken(svc) || !reflect.DeepEqual(svc.Spec, out.Derived.Spec) || !reflect.DeepEqual(svc.Annotations, out.Derived.Annotations) {
					t.Errorf("the Service is %+v", svc)
				}
			} else if len(out.Extending) > 0 {
				t.Errorf("no Service has %d slices", len(out.Extending))
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// leadsTo returns the endpoints behind the Service under the service's own name, and checks that they are those behind the derived Service.
func leadsTo(t *testing.T, out desired.Output) string {
	t.Helper()
	var all []string
	n := 0
	for _, s := range out.Slices {
		if s.Labels[api.LabelKubernetesServiceName] != out.Derived.Name {
			continue
		}
		own := out.Extending[n]
		n++
		if own.Name != "extending-"+strings.TrimPrefix(s.Name, "imported-") || !reflect.DeepEqual(own.Endpoints, s.Endpoints) || !reflect.DeepEqual(own.Ports, s.Ports) {
			t.Errorf("%s is behind the ClusterSetIP, %s behind the name: %+v", s.Name, own.Name, own)
		}
		want := map[string]string{
			api.LabelKubernetesServiceName: "web", api.LabelExtends: "web", api.LabelSourceCluster: s.Labels[api.LabelSourceCluster],
			api.LabelManagedBy: api.ManagedByImporter, api.LabelEndpointSliceManagedBy: api.EndpointSliceManagedBy,
		}
		if !reflect.DeepEqual(own.Labels, want) || len(own.Annotations) > 0 {
			t.Errorf("%s has the labels %v and annotations %v", own.Name, own.Labels, own.Annotations)
		}
		for _, e := range own.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			words := []string{e.Addresses[0]}
			if e.Hints != nil {
				for _, zone := range e.Hints.ForZones {
					words = append(words, zone.Name)
				}
			}
			all = append(all, strings.Join(words, " "))
		}
	}
	if n != len(out.Extending) {
		t.Errorf("%d slices are behind the ClusterSetIP, %d behind the name", n, len(out.Extending))
	}
	return strings.Join(all, "|")
}

// Rules D62, D70 and D71 of docs/spec/data-path.md.
func TestWhoseAServiceIs(t *testing.T) {
	label := map[string]string{api.KeyOwnNames: api.OwnNamesCreate}
	for _, c := range []struct {
		namespace, service string
		labels             map[string]string
		want               bool
	}{
		{"shop", "web", label, true},
		{"shop", "web", map[string]string{api.KeyExtend: api.ExtendAllowed}, false},
		{"kube-system", "kube-dns", label, false},
		{"default", "kubernetes", label, false},
	} {
		if got := desired.MayName(c.namespace, c.service, c.labels); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	in := records.Input(t, desired.DataPathPods, records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5"))
	in.Cluster, in.Names = "beijing", true
	applied := func(fields string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.ManagedFields = []metav1.ManagedFieldsEntry{{Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields)}}
		}
	}
	for what, c := range map[string]struct {
		do   func(*corev1.Service)
		want bool
	}{
		"nothing":               {func(*corev1.Service) {}, false},
		"a selector":            {func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web"} }, true},
		"another type":          {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }, true},
		"kubectl apply":         {func(s *corev1.Service) { s.Annotations[corev1.LastAppliedConfigAnnotation] = "{}" }, true},
		"an applied spec":       {applied(`{"f:spec":{"f:ports":{}}}`), true},
		"an applied annotation": {applied(`{"f:metadata":{"f:annotations":{"f:example.com/theirs":{}}}}`), false},
		"another annotation":    {func(s *corev1.Service) { s.Annotations["example.com/theirs"] = "x" }, false},
	} {
		svc := in.Compute().Named
		c.do(svc)
		if got := desired.Taken(svc); got != c.want {
			t.Errorf("%s takes it: %v", what, got)
		}
		left := desired.Left(svc)
		if desired.Owned(left) || len(left.Labels) > 0 || left.Annotations[corev1.AnnotationTopologyMode] != "" || !reflect.DeepEqual(left.Spec, svc.Spec) {
			t.Errorf("%s: left is %+v", what, left)
		}
	}
}
