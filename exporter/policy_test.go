package exporter

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
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

// The share that an export states, and what its condition says of it. Rule C62 of docs/spec/control-plane.md.
func TestShare(t *testing.T) {
	const vip = "where one address stands for the Service"
	for _, c := range []struct {
		export, service, clusterIP string
		want                       *int32
		says, not                  string // of the condition
	}{
		{export: "", service: ""},
		{export: "25", want: ptrTo[int32](25), says: "at most 25% of this cluster's ready endpoints are used as usual"},
		{export: "25", want: ptrTo[int32](25), says: vip},
		{export: "25", clusterIP: corev1.ClusterIPNone, want: ptrTo[int32](25), says: "at most 25%", not: vip},
		{export: "0", service: "50", want: ptrTo[int32](0), says: "at most 0%", not: vip},
		{service: "50", want: ptrTo[int32](50), says: "at most 50%"},
		{export: "100", want: ptrTo[int32](100)},
		{export: "half", service: "50"},
	} {
		src := exported(slice("web-1", 1))
		src.Service.Spec.ClusterIP = cmp.Or(c.clusterIP, src.Service.Spec.ClusterIP)
		for value, on := range map[string]*map[string]string{c.export: &src.Export.Annotations, c.service: &src.Service.Annotations} {
			if value != "" {
				*on = map[string]string{api.AnnotationShare: value}
			}
		}
		d := desired(src)
		is := sharedCondition(d.Service)
		if got := d.Service.Spec.Share; (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%+v: %v", c, got)
		}
		if (is.Status == "") != (c.says == "") || !strings.Contains(is.Message, c.says) || c.not != "" && strings.Contains(is.Message, c.not) {
			t.Errorf("%+v: the condition says %q", c, is.Message)
		}
		src.Service.Annotations, src.Export = nil, keptExport(d.Service, src.Key)
		if kept := desired(src).Service; !reflect.DeepEqual(kept.Spec, d.Service.Spec) {
			t.Errorf("%+v: while it is kept it becomes %+v", c, kept.Spec)
		}
	}
	if is := sharedCondition(nil); is.Status != "" {
		t.Errorf("of no export: %+v", is)
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

// An invalid annotation never exports a service to all clusters.
func TestExportTo(t *testing.T) {
	many := make([]string, 70)
	for i := range many {
		many[i] = fmt.Sprint("c", i)
	}
	for _, c := range []struct {
		text  string
		want  []string
		wrong string // a part of the reported errors
	}{
		{"shanghai", []string{"shanghai"}, ""},
		{"shanghai, edge-asia beijing,shanghai", []string{"beijing", "edge-asia", "shanghai"}, ""},
		{"shanghai, Edge", []string{"shanghai"}, `metadata.annotations[clusterset.dev/export-to]: Invalid value: "Edge"`},
		{"*", []string{"beijing"}, `"*"`},
		{"", []string{"beijing"}, "remove the annotation to export to all"},
		{" , ,", []string{"beijing"}, "names no cluster"},
		{strings.Repeat("x", 1<<18), []string{"beijing"}, "xxx…"},
		{"\xff\x00", []string{"beijing"}, "Invalid value"},
		{"minghang, edge, lyon", []string{"edge", "lyon", "minghang"}, `metadata.annotations[clusterset.dev/export-to]: Invalid value: "minghang": no cluster and no community has this name (yet); did you mean minhang?`},
		{strings.Join(many, ","), slices.Sorted(slices.Values(many[:clustersetv1alpha1.MaxExportTo])), "must have at most 64 items"},
	} {
		src := exported()
		src.Cluster = "beijing"
		src.Known = []string{"beijing", "default", "edge", "edge-asia", "lyon", "minhang", "shanghai"}
		src.Export.Annotations = map[string]string{api.AnnotationExportTo: c.text}
		d := desired(src)
		said := d.LeftOut.String()
		if d.Service == nil || !slices.Equal(d.Service.Spec.ExportTo, c.want) || (c.wrong == "") != (d.LeftOut.Count == 0) || !strings.Contains(said, c.wrong) || len(said) > 2000 {
			t.Errorf("%.40q: %+v, %s", c.text, d.Service, said)
		}
	}
	if d := desired(exported()); d.Service.Spec.ExportTo != nil {
		t.Errorf("without the annotation: %v", d.Service.Spec.ExportTo)
	}
}
