// Package policy reads and writes the policy of a service in objects: in the annotations of a ServiceExport or an annotated Service,
// in an ExportedService, and in the annotations of the ServiceImport and the GlobalService. topology.Policy defines its meaning.
//
// Members have it in annotations, not in fields: ServiceExport and ServiceImport belong to the Multi-Cluster Services API, and
// FabDNS's schema of a GlobalService would drop unknown fields. Annotations also look the same on all of these objects.
package policy

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/near"
	"github.com/clusterset/clusterset/internal/topology"
)

// Keys are the annotations by which users state a policy. Written are those of imported objects, which have the shares of all clusters too.
var (
	Keys    = []string{api.AnnotationPrefer, api.AnnotationBoundary, api.AnnotationMinReady}
	Written = append(slices.Clone(Keys), api.AnnotationShares)
)

// FromAnnotations reads a policy from untrusted annotations. Invalid values count as unstated. Each is reported with its path below
// path, its value, and what would be right.
func FromAnnotations(annotations map[string]string, path *field.Path) (p topology.Policy, errs field.ErrorList) {
	if text, ok := annotations[api.AnnotationPrefer]; ok {
		p.Prefer = parse(text, path.Key(api.AnnotationPrefer), &errs, topology.ParsePrefer, words...)
	}
	if text, ok := annotations[api.AnnotationBoundary]; ok {
		p.Boundary = parse(text, path.Key(api.AnnotationBoundary), &errs, topology.ParseTier, words...)
	}
	if text, ok := annotations[api.AnnotationMinReady]; ok {
		p.MinReady = parse(text, path.Key(api.AnnotationMinReady), &errs, topology.ParseMinReady)
	}
	if text, ok := annotations[api.AnnotationShares]; ok {
		p.Shares = parse(text, path.Key(api.AnnotationShares), &errs, topology.ParseShares)
	}
	return p, errs
}

// maxText is enough of an invalid text to quote.
const maxText = 64

// words are those that tiers are stated in.
var words = []string{topology.Cluster.String(), topology.Zone.String(), topology.Region.String(), topology.None}

// parse returns the parsed text, or the zero value, which states nothing, if the text is invalid. It asks about a word that is nearly one of words.
func parse[T any](text string, path *field.Path, errs *field.ErrorList, from func(string) (T, error), words ...string) (stated T) {
	value, err := from(text)
	if err != nil {
		if len(text) > maxText {
			text = text[:maxText] + "…"
			_, err = from(text) // which quotes less
		}
		*errs = append(*errs, field.Invalid(path, text, err.Error()+near.Meant(text, words)))
		return stated
	}
	return value
}

// Annotations returns the annotations that state p on an object.
func Annotations(p topology.Policy) map[string]string {
	annotations := map[string]string{}
	if p.Prefer != nil {
		annotations[api.AnnotationPrefer] = topology.FormatPrefer(p.Prefer)
	}
	if p.Boundary != topology.Any {
		annotations[api.AnnotationBoundary] = p.Boundary.String()
	}
	if p.MinReady != 0 {
		annotations[api.AnnotationMinReady] = strconv.Itoa(p.MinReady)
	}
	if len(p.Shares) > 0 {
		annotations[api.AnnotationShares] = topology.FormatShares(p.Shares)
	}
	return annotations
}

// FromExport reads the policy of an ExportedService, like FromAnnotations. It doesn't trust the cluster that wrote it.
func FromExport(s *clustersetv1alpha1.ServicePolicy, path *field.Path) (p topology.Policy, errs field.ErrorList) {
	if s == nil {
		return p, nil
	}
	if s.Prefer != "" {
		p.Prefer = parse(s.Prefer, path.Child("prefer"), &errs, topology.ParsePrefer, words...)
	}
	if s.Boundary != "" {
		p.Boundary = parse(s.Boundary, path.Child("boundary"), &errs, topology.ParseTier, words...)
	}
	if s.MinReady != 0 {
		p.MinReady = parse(strconv.Itoa(int(s.MinReady)), path.Child("minReady"), &errs, topology.ParseMinReady)
	}
	return p, errs
}

// Export returns p as a field of an ExportedService, or nil if it states nothing.
func Export(p topology.Policy) *clustersetv1alpha1.ServicePolicy {
	if p.IsZero() {
		return nil
	}
	s := &clustersetv1alpha1.ServicePolicy{Prefer: topology.FormatPrefer(p.Prefer), MinReady: int32(p.MinReady)} //nolint:gosec // parsed
	if p.Boundary != topology.Any {
		s.Boundary = p.Boundary.String()
	}
	return s
}

// WithTrafficDistribution returns p with the tiers that a Service's or ServiceImport's spec.trafficDistribution prefers, unless p
// states its own. PreferSameNode counts as PreferSameZone, because a client's node is never in another cluster.
func WithTrafficDistribution(p topology.Policy, distribution *string) topology.Policy {
	if p.Prefer != nil || distribution == nil {
		return p
	}
	switch *distribution {
	case corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferClose,
		corev1.ServiceTrafficDistributionPreferSameNode:
		p.Prefer = []topology.Tier{topology.Zone, topology.Region}
	}
	return p
}
