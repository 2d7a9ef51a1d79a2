package exporter

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/policy"
	"github.com/clusterset/clusterset/internal/topology"
)

// statedPolicy returns the policy that the service's annotations state, and the errors in them.
func statedPolicy(src Source) (topology.Policy, field.ErrorList) {
	onExport, onService := annotations(src)
	stated, wrong := policy.FromAnnotations(onExport, exportAnnotations)
	other, wrongToo := policy.FromAnnotations(onService, serviceAnnotations)
	return stated.Or(other), append(wrong, wrongToo...)
}

var (
	exportAnnotations, serviceAnnotations = field.NewPath("metadata", "annotations"), field.NewPath("service", "metadata", "annotations")
	exportLabels, serviceLabels           = field.NewPath("metadata", "labels"), field.NewPath("service", "metadata", "labels")
)

// annotations returns the annotations of the ServiceExport, and those of the Service that the ServiceExport doesn't have. Users annotate
// either, and an annotation that restricts must not be ignored on the one because the other has some.
func annotations(src Source) (onExport, onService map[string]string) {
	onExport, onService = src.Export.Annotations, maps.Clone(src.Service.Annotations)
	maps.DeleteFunc(onService, func(key, _ string) bool { _, ok := onExport[key]; return ok })
	return onExport, onService
}

// exportTo returns the clusters and communities to which the service is exported, or nil for all, and the errors in them. If
// every name is invalid, only this cluster imports the service.
func exportTo(src Source) ([]string, field.ErrorList) {
	onExport, onService := annotations(src)
	text, ok := onExport[api.AnnotationExportTo]
	path := exportAnnotations
	if !ok {
		if text, ok = onService[api.AnnotationExportTo]; !ok {
			return nil, nil
		}
		path = serviceAnnotations
	}
	path = path.Key(api.AnnotationExportTo)
	var to []string
	var errs field.ErrorList
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		switch err := api.CheckLabel(name); {
		case err != nil:
			errs = append(errs, field.Invalid(path, shortened(name), "must be names of clusters or communities, separated by commas: "+err.Error()))
		case slices.Contains(to, name):
		case len(to) == clustersetv1alpha1.MaxExportTo:
			errs = append(errs, field.TooMany(path, len(to)+1, clustersetv1alpha1.MaxExportTo))
			slices.Sort(to)
			return to, errs
		default:
			to = append(to, name)
		}
		if len(errs) == maxExportToErrors {
			break
		}
	}
	if len(to) == 0 {
		if len(errs) == 0 {
			errs = append(errs, field.Required(path, "names no cluster and no community, so no other cluster imports the service; remove the annotation to export to all"))
		}
		return []string{src.Cluster}, errs
	}
	slices.Sort(to)
	return to, errs
}

// maxExportToErrors bounds how many errors in one annotation are reported.
const maxExportToErrors = 5

// shortened is enough of a wrong name to recognize it.
func shortened(name string) string {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	return strings.ToValidUTF8(name, "?")
}

// exportKeys are the annotations with our prefix that mean something on a ServiceExport or its Service.
func exportKeys() []string {
	return append(slices.Clone(policy.Keys), api.AnnotationExportTo, api.AnnotationExternalAddresses)
}

// unknownKeys returns an error for each label and annotation that has our prefix but no meaning on a ServiceExport or its Service. Ignored
// without a word, a misspelled restriction would look as if it held.
func unknownKeys(src Source) (errs field.ErrorList) {
	known := exportKeys()
	for _, group := range []struct {
		keys  map[string]string
		path  *field.Path
		known []string
	}{
		{src.Export.Annotations, exportAnnotations, known},
		{src.Service.Annotations, serviceAnnotations, append(slices.Clone(known), api.KeyExtend)},
		{src.Export.Labels, exportLabels, []string{api.LabelManagedBy}},
		{src.Service.Labels, serviceLabels, nil},
	} {
		for _, key := range slices.Sorted(maps.Keys(group.keys)) {
			if strings.HasPrefix(key, api.Domain+"/") && !slices.Contains(group.known, key) && len(errs) < maxUnknownKeys {
				errs = append(errs, field.Invalid(group.path, shortened(key), "must be one of the annotations "+strings.Join(known, ", ")))
			}
		}
	}
	return errs
}

// maxUnknownKeys bounds how many unknown keys are reported.
const maxUnknownKeys = 3
