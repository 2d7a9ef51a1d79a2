package merge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/policy"
	"github.com/clusterset/clusterset/internal/text"
)

// ReasonPolicyConflict is the reason for Conflict=True if exports state different policies (api.AnnotationPrefer and the like). It is
// specific to clusterset: the Multi-Cluster Services API has no such policy.
const ReasonPolicyConflict mcsv1beta1.ServiceExportConditionReason = "PolicyConflict"

// Conflict is a field in which exports differ.
type Conflict struct {
	// Reason is one of the module's constants for a ServiceExport's Conflict condition, or ReasonPolicyConflict.
	Reason mcsv1beta1.ServiceExportConditionReason
	// Field is the field's name for people, such as "ports".
	Field string
	// Clusters are the clusters whose value differs from the winner's. Sorted, never empty.
	Clusters []string
	// Of is the number of clusters that export the service.
	Of int
	// Winner is the cluster with the oldest export, and Since is the time of that export. Tie says that another export is as old, so
	// that the clusters' names decided.
	Winner string
	Since  time.Time
	Tie    bool
	// Want is the winner's value, and Got that of the first of Clusters.
	Want, Got string
	// By are the members that see it, if not all do (Views.Conflicts). The others don't see both sides.
	By []string
}

// Key is equal for conflicts between the same clusters about the same.
func (c *Conflict) Key() string {
	return string(c.Reason) + "/" + c.Winner + "/" + strings.Join(c.Clusters, "/")
}

// String returns the message for the ServiceExport's condition: the field, how many clusters differ, the winner and why it wins.
func (c Conflict) String() string {
	why := "whose export is the oldest"
	if c.Tie {
		why = "whose name sorts first among the oldest exports"
	}
	verb := "disagree"
	if len(c.Clusters) == 1 {
		verb = "disagrees"
	}
	said := fmt.Sprintf("%s: %s (%d of %d clusters) %s with %s, %s (%s); %s has %s, %s has %s",
		c.Field, text.First(c.Clusters, maxListed), len(c.Clusters), c.Of, verb, c.Winner, why, c.Since.UTC().Format(time.RFC3339),
		c.Winner, text.Truncate(c.Want, maxValue), c.Clusters[0], text.Truncate(c.Got, maxValue))
	if len(c.By) > 0 {
		said += "; only these clusters see both: " + text.First(c.By, maxListed)
	}
	return said
}

// countsRE finds the numbers in a condition's message that change with the number of clusters, whether or not the conflict does.
var countsRE = regexp.MustCompile(`\d+ of \d+ clusters|and \d+ more|the exports of \d+ clusters`)

// SameButCounts reports whether two messages of the Conflict condition differ only in the number of clusters. Otherwise every cluster
// would rewrite such conditions whenever another one starts to export the service.
func SameButCounts(a, b string) bool {
	return countsRE.ReplaceAllString(a, "") == countsRE.ReplaceAllString(b, "")
}

// ConflictCondition returns the Conflict condition. It is the same for every export of the service: KEP-1645 requires it at least on
// the losing export, and recommends it on all, because the owner of the winning export should know too. Reasons are joined by commas,
// as the mcs-api module documents.
//
// LastTransitionTime is left to meta.SetStatusCondition, so that conditions can be compared.
func (r *Resolved) ConflictCondition() metav1.Condition {
	if len(r.Conflicts) == 0 {
		message := fmt.Sprintf("the exports of %d clusters agree", len(r.Clusters))
		if len(r.Clusters) == 1 {
			message = "no other cluster exports the service"
		}
		return condition(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonNoConflicts, message)
	}
	reasons := make([]string, len(r.Conflicts))
	messages := make([]string, len(r.Conflicts))
	for i, c := range r.Conflicts {
		reasons[i], messages[i] = string(c.Reason), c.String()
	}
	return condition(metav1.ConditionTrue, mcsv1beta1.ServiceExportConditionReason(strings.Join(slices.Compact(reasons), ",")),
		strings.Join(messages, ". "))
}

func condition(status metav1.ConditionStatus, reason mcsv1beta1.ServiceExportConditionReason, message string) metav1.Condition {
	c := mcsv1beta1.NewServiceExportCondition(mcsv1beta1.ServiceExportConditionConflict, status, reason, message)
	c.LastTransitionTime = metav1.Time{}
	return c
}

type specOf = clustersetv1alpha1.ExportedServiceSpec

// A trait is a field in which exports can differ. say returns an export's value as text. The texts are equal exactly if the values
// are. If it is empty, the export isn't compared.
type trait struct {
	reason mcsv1beta1.ServiceExportConditionReason
	field  string
	say    func(winner, s *specOf) string
}

// traits are sorted by reason.
var traits = []trait{
	{mcsv1beta1.ServiceExportReasonAnnotationsConflict, "exported annotations", func(_, s *specOf) string { return sayMap(s.ExportedAnnotations) }},
	{mcsv1beta1.ServiceExportReasonIPFamilyConflict, "IP families", sayFamilies},
	{mcsv1beta1.ServiceExportReasonInternalTrafficPolicyConflict, "internalTrafficPolicy", func(_, s *specOf) string {
		return string(ptr.Deref(s.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster))
	}},
	{mcsv1beta1.ServiceExportReasonLabelsConflict, "exported labels", func(_, s *specOf) string { return sayMap(s.ExportedLabels) }},
	{ReasonPolicyConflict, "policy", sayPolicy},
	{mcsv1beta1.ServiceExportReasonPortConflict, "ports", func(_, s *specOf) string { return cmp.Or(portSet(s.Ports), none) }},
	{mcsv1beta1.ServiceExportReasonSessionAffinityConfigConflict, "sessionAffinityConfig", sayAffinityConfig},
	{mcsv1beta1.ServiceExportReasonSessionAffinityConflict, "sessionAffinity", func(_, s *specOf) string {
		return string(cmp.Or(s.SessionAffinity, corev1.ServiceAffinityNone))
	}},
	{mcsv1beta1.ServiceExportReasonTrafficDistributionConflict, "trafficDistribution", func(_, s *specOf) string {
		if ptr.Deref(s.TrafficDistribution, "") == corev1.ServiceTrafficDistributionPreferClose {
			return corev1.ServiceTrafficDistributionPreferSameZone // its new name
		}
		return cmp.Or(ptr.Deref(s.TrafficDistribution, ""), none)
	}},
	{mcsv1beta1.ServiceExportReasonTypeConflict, "type", func(_, s *specOf) string { return string(s.Type) }},
}

const none = "none"

// conflicts compares every export with the winner's, in age order.
func conflicts(byAge []Export) []Conflict {
	winner := byAge[0]
	tie := len(byAge) > 1 && exportedAt(byAge[1]).Equal(exportedAt(winner))
	var found []Conflict
	for _, t := range traits {
		want := t.say(winner.Spec, winner.Spec)
		if want == "" {
			continue
		}
		got := map[string]string{}
		var disagree []string
		for _, e := range byAge[1:] {
			if said := t.say(winner.Spec, e.Spec); said != "" && said != want {
				got[e.Cluster] = said
				disagree = append(disagree, e.Cluster)
			}
		}
		if len(disagree) == 0 {
			continue
		}
		slices.Sort(disagree)
		found = append(found, Conflict{
			Reason: t.reason, Field: t.field, Clusters: disagree, Of: len(byAge),
			Winner: winner.Cluster, Since: exportedAt(winner).UTC(), Tie: tie,
			Want: want, Got: got[disagree[0]],
		})
	}
	return found
}

// sayFamilies ignores the order, which only decides which address comes first. Different families are a conflict even if all exports
// share one: the addresses of the other family lead to only some of the backends.
func sayFamilies(_, s *specOf) string {
	families := make([]string, len(s.IPFamilies))
	for i, f := range s.IPFamilies {
		families[i] = string(f)
	}
	slices.Sort(families)
	return strings.Join(families, " and ")
}

// sayAffinityConfig compares the configuration of exports with the winner's affinity. If the affinity itself differs, that is already
// a conflict.
func sayAffinityConfig(winner, s *specOf) string {
	if s.SessionAffinity != corev1.ServiceAffinityClientIP || winner.SessionAffinity != s.SessionAffinity {
		return ""
	}
	seconds := corev1.DefaultClientIPServiceAffinitySeconds
	if c := s.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		seconds = *c.ClientIP.TimeoutSeconds
	}
	return fmt.Sprintf("a timeout of %d s", seconds)
}

// sayPolicy compares the stated policies. The preference of a trafficDistribution is a separate conflict.
func sayPolicy(_, s *specOf) string {
	stated, _ := policy.FromExport(s.Policy, nil) // door.CompactService has removed invalid values
	return cmp.Or(stated.String(), "nothing stated")
}

func sayMap(m map[string]string) string {
	if len(m) == 0 {
		return none
	}
	b, err := json.Marshal(m) // sorted by key
	if err != nil {
		panic(fmt.Sprintf("marshal map of strings: %v", err)) // can't fail
	}
	return string(b)
}

// maxListed is how many clusters a message names: it is for people, and must not exceed 32 KiB.
const maxListed = 5

// maxValue is the maximum length of a field's value in a message.
const maxValue = 200
