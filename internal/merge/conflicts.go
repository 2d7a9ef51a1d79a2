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
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/policy"
	"github.com/clusterset/clusterset/internal/text"
)

// ReasonPolicyConflict is the reason for Conflict=True if exports state different policies (api.AnnotationPrefer and the like). It is
// specific to clusterset: the Multi-Cluster Services API has no such policy.
const ReasonPolicyConflict mcsv1beta1.ServiceExportConditionReason = "PolicyConflict"

// Conflict is one field over which exports disagree.
type Conflict struct {
	// Reason is one of the module's constants for a ServiceExport's Conflict condition, or ReasonPolicyConflict.
	Reason mcsv1beta1.ServiceExportConditionReason
	// Field is the field in people's words, such as "ports".
	Field string
	// Clusters are those that say something other than the winner. Sorted, never empty.
	Clusters []string
	// Of is how many clusters export the service.
	Of int
	// Winner is the cluster whose export is the oldest, Since how old that is. Tie says that another is as old, so that
	// the clusters' names decided.
	Winner string
	Since  time.Time
	Tie    bool
	// Want is what the winner says, and Got what the first of Clusters says.
	Want, Got string
}

// String is the conflict as a sentence for the ServiceExport's condition: the field, how many disagree, the winner and why.
func (c Conflict) String() string {
	why := "whose export is the oldest"
	if c.Tie {
		why = "whose name sorts first among the oldest exports"
	}
	verb := "disagree"
	if len(c.Clusters) == 1 {
		verb = "disagrees"
	}
	return fmt.Sprintf("%s: %s (%d of %d clusters) %s with %s, %s (%s); %s has %s, %s has %s",
		c.Field, listed(c.Clusters), len(c.Clusters), c.Of, verb, c.Winner, why, c.Since.UTC().Format(time.RFC3339),
		c.Winner, text.Truncate(c.Want, maxValue), c.Clusters[0], text.Truncate(c.Got, maxValue))
}

// countsRE finds the numbers in a condition's message that change with the number of clusters, whether or not the conflict does.
var countsRE = regexp.MustCompile(`\d+ of \d+ clusters|and \d+ more|the exports of \d+ clusters`)

// SameButCounts reports whether two messages of the Conflict condition differ only in the number of clusters. Otherwise every cluster
// would rewrite such conditions whenever another one starts to export the service.
func SameButCounts(a, b string) bool {
	return countsRE.ReplaceAllString(a, "") == countsRE.ReplaceAllString(b, "")
}

// ConflictCondition returns the Conflict condition. It is the same for every export of the service: KEP-1645 asks for it at
// least on the one that lost, and recommends all, because who owns the winning one should know as well. Reasons are joined
// by commas, as the module says.
//
// LastTransitionTime is left to meta.SetStatusCondition, so that equal conditions are equal.
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
	return condition(metav1.ConditionTrue, mcsv1beta1.ServiceExportConditionReason(strings.Join(reasons, ",")),
		strings.Join(messages, ". "))
}

func condition(status metav1.ConditionStatus, reason mcsv1beta1.ServiceExportConditionReason, message string) metav1.Condition {
	c := mcsv1beta1.NewServiceExportCondition(mcsv1beta1.ServiceExportConditionConflict, status, reason, message)
	c.LastTransitionTime = metav1.Time{}
	return c
}

// A trait is a field that clusters can disagree about. say puts an export's value in words that are equal exactly where the
// values are; ok false leaves the export out of the comparison.
type trait struct {
	reason mcsv1beta1.ServiceExportConditionReason
	field  string
	say    func(winner, s *clustersetv1alpha1.ExportedServiceSpec) (text string, ok bool)
}

// traits are sorted by reason.
var traits = []trait{
	{mcsv1beta1.ServiceExportReasonAnnotationsConflict, "exported annotations", func(_, s *clustersetv1alpha1.ExportedServiceSpec) (string, bool) {
		return sayMap(s.ExportedAnnotations), true
	}},
	{mcsv1beta1.ServiceExportReasonIPFamilyConflict, "IP families", sayFamilies},
	{mcsv1beta1.ServiceExportReasonInternalTrafficPolicyConflict, "internalTrafficPolicy", func(_, s *clustersetv1alpha1.ExportedServiceSpec) (string, bool) {
		if s.InternalTrafficPolicy == nil {
			return string(corev1.ServiceInternalTrafficPolicyCluster), true
		}
		return string(*s.InternalTrafficPolicy), true
	}},
	{mcsv1beta1.ServiceExportReasonLabelsConflict, "exported labels", func(_, s *clustersetv1alpha1.ExportedServiceSpec) (string, bool) {
		return sayMap(s.ExportedLabels), true
	}},
	{ReasonPolicyConflict, "policy", sayPolicy},
	{mcsv1beta1.ServiceExportReasonPortConflict, "ports", func(_, s *clustersetv1alpha1.ExportedServiceSpec) (string, bool) {
		return sayNone(portSet(s.Ports)), true
	}},
	{mcsv1beta1.ServiceExportReasonSessionAffinityConfigConflict, "sessionAffinityConfig", sayAffinityConfig},
	{mcsv1beta1.ServiceExportReasonSessionAffinityConflict, "sessionAffinity", func(_, s *clustersetv1alpha1.ExportedServiceSpec) (string, bool) {
		return string(cmp.Or(s.SessionAffinity, corev1.ServiceAffinityNone)), true
	}},
	{mcsv1beta1.ServiceExportReasonTrafficDistributionConflict, "trafficDistribution", func(_, s *clustersetv1alpha1.ExportedServiceSpec) (string, bool) {
		if s.TrafficDistribution == nil {
			return sayNone(""), true
		}
		return sayNone(*s.TrafficDistribution), true
	}},
	{mcsv1beta1.ServiceExportReasonTypeConflict, "type", func(_, s *clustersetv1alpha1.ExportedServiceSpec) (string, bool) {
		return string(s.Type), true
	}},
}

// conflicts compares every export with the winner's, in age order.
func conflicts(byAge []Export) []Conflict {
	winner := byAge[0]
	tie := len(byAge) > 1 && exportedAt(byAge[1]).Equal(exportedAt(winner))
	var found []Conflict
	for _, t := range traits {
		want, ok := t.say(&winner.Service.Spec, &winner.Service.Spec)
		if !ok {
			continue
		}
		got := map[string]string{}
		var disagree []string
		for _, e := range byAge[1:] {
			said, ok := t.say(&winner.Service.Spec, &e.Service.Spec)
			if ok && said != want {
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

// sayFamilies leaves the order out: it decides which address is the first, not who can be reached. Families that differ
// are a conflict even where all share one. Only that one gets a ClusterSetIP, and of a Headless service the other's records
// lead to some of the backends only.
func sayFamilies(_, s *clustersetv1alpha1.ExportedServiceSpec) (string, bool) {
	families := make([]string, len(s.IPFamilies))
	for i, f := range s.IPFamilies {
		families[i] = string(f)
	}
	slices.Sort(families)
	return strings.Join(families, " and "), len(families) > 0
}

// sayAffinityConfig compares the configuration among exports of the winner's affinity. Where the affinity itself differs
// that is the conflict, and one is enough.
func sayAffinityConfig(winner, s *clustersetv1alpha1.ExportedServiceSpec) (string, bool) {
	if s.SessionAffinity != corev1.ServiceAffinityClientIP || winner.SessionAffinity != s.SessionAffinity {
		return "", false
	}
	seconds := corev1.DefaultClientIPServiceAffinitySeconds
	if c := s.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		seconds = *c.ClientIP.TimeoutSeconds
	}
	return fmt.Sprintf("a timeout of %d s", seconds), true
}

// sayPolicy compares what is stated. What a trafficDistribution prefers is a conflict of its own.
func sayPolicy(_, s *clustersetv1alpha1.ExportedServiceSpec) (string, bool) {
	stated, _ := policy.FromExport(s.Policy, nil) // Sanitize has left nothing wrong
	return cmp.Or(stated.String(), "nothing stated"), true
}

func sayMap(m map[string]string) string {
	if len(m) == 0 {
		return sayNone("")
	}
	b, err := json.Marshal(m) // sorted by key
	if err != nil {
		panic(fmt.Sprintf("marshal map of strings: %v", err)) // can't fail
	}
	return string(b)
}

func sayNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// listed names the first few clusters. Messages are read by people and have a limit of 32 KiB.
func listed(names []string) string {
	const limit = 5
	if len(names) > limit {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
	}
	return strings.Join(names, ", ")
}

// maxValue is how much of a field's value a message says.
const maxValue = 200
