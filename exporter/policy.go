package exporter

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/near"
	"github.com/clusterset/clusterset/internal/policy"
	"github.com/clusterset/clusterset/internal/text"
	"github.com/clusterset/clusterset/internal/topology"
)

// statedPolicy returns the policy that the service's annotations state, and the errors in them. Users annotate either the ServiceExport or
// the Service, and an annotation that restricts must not be ignored on the one because the other has some.
func statedPolicy(src Source) (topology.Policy, field.ErrorList) {
	onService := maps.Clone(src.Service.Annotations)
	maps.DeleteFunc(onService, func(key, _ string) bool { _, ok := src.Export.Annotations[key]; return ok })
	stated, wrong := policy.FromAnnotations(src.Export.Annotations, exportAnnotations)
	other, wrongToo := policy.FromAnnotations(onService, serviceAnnotations)
	return stated.Or(other), append(wrong, wrongToo...)
}

var (
	exportAnnotations, serviceAnnotations = field.NewPath("metadata", "annotations"), field.NewPath("service", "metadata", "annotations")
	exportLabels, serviceLabels           = field.NewPath("metadata", "labels"), field.NewPath("service", "metadata", "labels")
)

// listed returns the elements of an annotation that is a list: that of the ServiceExport or, if it has none, of the Service.
func listed(src Source, key string) (elements []string, path *field.Path, found bool) {
	value, found := src.Export.Annotations[key]
	path = exportAnnotations
	if !found {
		value, found = src.Service.Annotations[key]
		path = serviceAnnotations
	}
	return strings.FieldsFunc(value, func(c rune) bool { return c == ',' || c == ' ' }), path.Key(key), found
}

// statedShare returns the share that is stated, nil if none or an invalid one is, and the error in it.
func statedShare(src Source) (*int32, field.ErrorList) {
	words, path, found := listed(src, api.AnnotationShare)
	if !found {
		return nil, nil
	}
	percent, err := topology.ParseShare(strings.Join(words, " "))
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, text.Truncate(strings.Join(words, " "), 64), err.Error())}
	}
	return new(int32(percent)), nil //nolint:gosec // at most 100
}

// exportTo returns the clusters and communities to which the service is exported, or nil for all, and the errors in them. If
// every name is invalid, only this cluster imports the service.
func exportTo(src Source) ([]string, field.ErrorList) {
	names, path, found := listed(src, api.AnnotationExportTo)
	if !found {
		return nil, nil
	}
	var to []string
	var errs field.ErrorList
	for _, name := range names {
		switch err := api.CheckLabel(name); {
		case err != nil:
			errs = append(errs, field.Invalid(path, text.Truncate(name, 64), "must be names of clusters or communities, separated by commas: "+err.Error()))
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
	for _, name := range to {
		if slices.Contains(src.Known, src.Cluster) && !slices.Contains(src.Known, name) && len(errs) < maxExportToErrors { // else the hub has lost its data
			errs = append(errs, field.Invalid(path, name, "no cluster and no community has this name (yet)"+near.Meant(name, src.Known)))
		}
	}
	slices.Sort(to)
	return to, errs
}

// maxExportToErrors bounds how many errors in one annotation are reported.
const maxExportToErrors = 5

// exportKeys are the annotations with our prefix that mean something on a ServiceExport or its Service.
func exportKeys() []string {
	return append(slices.Clone(policy.Keys), api.AnnotationShare, api.AnnotationExportTo, api.AnnotationExternalAddresses)
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
				errs = append(errs, field.Invalid(group.path, text.Truncate(key, 64), "must be one of the annotations "+strings.Join(known, ", ")+near.Meant(key, known)))
			}
		}
	}
	return errs
}

// maxUnknownKeys bounds how many unknown keys are reported.
const maxUnknownKeys = 3
