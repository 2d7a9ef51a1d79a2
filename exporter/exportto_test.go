package exporter

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

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
