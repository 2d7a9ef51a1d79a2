package exporter

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

func TestPolicyTravels(t *testing.T) {
	type annotations = map[string]string
	mark := func(a annotations) annotations {
		a[api.KeyGlobalService] = "true"
		return a
	}
	for _, c := range []struct {
		name string
		// export and service are the annotations of the ServiceExport and of the Service, labels are the Service's labels.
		export, service, labels annotations
		marked                  bool
		want                    *clustersetv1alpha1.ServicePolicy
		// said is a part of the message of the condition Complete, or empty if nothing is to be reported.
		said string
	}{
		{name: "prefer none", export: annotations{api.AnnotationPrefer: "none"}, want: &clustersetv1alpha1.ServicePolicy{Prefer: "none"}},
		{
			name: "of a marked Service", service: mark(annotations{api.AnnotationPrefer: "zone", api.AnnotationMinReady: "2"}), marked: true,
			want: &clustersetv1alpha1.ServicePolicy{Prefer: "zone", MinReady: 2},
		},
		{
			name: "of a ServiceExport before that of its Service", export: annotations{api.AnnotationPrefer: "zone"},
			service: annotations{api.AnnotationPrefer: "none", api.AnnotationBoundary: "zone"}, want: &clustersetv1alpha1.ServicePolicy{Prefer: "zone", Boundary: "zone"},
		},
		{
			name: "a flood of misspelled annotations", export: misspelled(100),
			said: `metadata.annotations: Invalid value: "clusterset.dev/wrong-02": must`,
		},
		{
			name: "a flood of garbage", export: annotations{api.AnnotationPrefer: "zone " + strings.Repeat("x", 100_000)},
			said: `clusterset.dev/prefer]: Invalid value: "zone xxx`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := exported(slice("web-1", 1))
			src.Service = service(func(s *corev1.Service) { s.Annotations, s.Labels = c.service, c.labels })
			if c.marked {
				src.Export = markedExport(src.Service, false, nil)
				src.Export.CreationTimestamp = epoch
			}
			src.Export.Annotations = c.export
			d := desired(src)
			if d.Service == nil || len(d.Endpoints) != 1 {
				t.Fatalf("the rest isn't exported: %+v", d)
			}
			got, want := d.Service.Spec.Policy, c.want
			if (got == nil) != (want == nil) || got != nil && *got != *want {
				t.Errorf("the policy is %+v, want %+v", got, want)
			}
			is := completeCondition(d.LeftOut)
			if len(is.Message) > 1500 {
				t.Errorf("the condition is %+v", is)
			}
			if d.LeftOut.Count > maxUnknownKeys {
				t.Errorf("%d errors are reported", d.LeftOut.Count)
			}
			if c.said == "" && d.LeftOut.Count > 0 || c.said != "" && !strings.Contains(is.Message, c.said) {
				t.Errorf("the condition says %s\nwant %s", is.Message, c.said)
			}
		})
	}
}

// misspelled returns n annotations that have our prefix and no meaning.
func misspelled(n int) map[string]string {
	annotations := map[string]string{}
	for i := range n {
		annotations[fmt.Sprintf("%s/wrong-%02d", api.Domain, i)] = "x"
	}
	return annotations
}
