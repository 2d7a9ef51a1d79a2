package desired

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/policy"
)

// serviceImport returns the ServiceImport with its status (KEP-1645, "ServiceImport").
func (w *work) serviceImport(derived *corev1.Service) *mcsv1beta1.ServiceImport {
	r := &w.resolved
	families, ips := w.addresses(derived)
	imp := &mcsv1beta1.ServiceImport{
		ObjectMeta: w.objectMeta(w.in.Key.Name),
		Spec: mcsv1beta1.ServiceImportSpec{
			Ports:                 make([]mcsv1beta1.ServicePort, len(r.Ports)), // [] if there are none: the field is required
			IPs:                   ips,
			Type:                  r.Type,
			SessionAffinity:       r.SessionAffinity,
			SessionAffinityConfig: r.SessionAffinityConfig.DeepCopy(),
			IPFamilies:            families,
			InternalTrafficPolicy: r.InternalTrafficPolicy,
			TrafficDistribution:   r.TrafficDistribution,
		},
		Status: mcsv1beta1.ServiceImportStatus{
			EndpointSliceObjects: mcsv1beta1.EndpointSliceObjectsAbsent,
			Conditions:           []metav1.Condition{w.ready(ips, derived)},
		},
	}
	for i, p := range r.Ports {
		imp.Spec.Ports[i] = mcsv1beta1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port}
	}
	if len(w.records) > 0 {
		imp.Status.EndpointSliceObjects = mcsv1beta1.EndpointSliceObjectsPresent
	}
	for _, cluster := range r.Clusters {
		imp.Status.Clusters = append(imp.Status.Clusters, mcsv1beta1.ClusterStatus{Cluster: cluster})
	}

	// Exported labels can't override the importer's own keys: Sanitized drops all reserved ones.
	maps.Copy(imp.Labels, r.Labels)
	imp.Annotations = maps.Clone(r.Annotations)
	if imp.Annotations == nil {
		imp.Annotations = map[string]string{}
	}
	maps.Copy(imp.Annotations, policy.Annotations(r.Policy))
	if w.hasVIP() {
		imp.Annotations[api.AnnotationDerivedService] = api.DerivedServiceName(w.in.Key.Namespace, w.in.Key.Name)
	}
	noteKeys(imp.Annotations, api.AnnotationExportedLabels, r.Labels)
	noteKeys(imp.Annotations, api.AnnotationExportedAnnotations, r.Annotations)
	return imp
}

// addresses returns the families and, in the same order, the ClusterSetIPs: the derived Service's of those families that the exports have, in their
// order. One that the winner no longer has is left out. The Service keeps its address, so it is the same when the family comes back.
func (w *work) addresses(derived *corev1.Service) (families []corev1.IPFamily, ips []string) {
	stated := w.resolved.IPFamilies
	if w.hasVIP() && derived != nil {
		ips = slices.DeleteFunc(ClusterIPs(derived), func(ip string) bool { return len(stated) > 0 && !slices.Contains(stated, familyOf(ip)) })
	}
	if len(ips) == 0 {
		return slices.Clone(stated), nil
	}
	slices.SortStableFunc(ips, func(a, b string) int { return slices.Index(stated, familyOf(a)) - slices.Index(stated, familyOf(b)) })
	for _, ip := range ips {
		families = append(families, familyOf(ip))
	}
	return families, ips
}

// ready returns the Ready condition. LastTransitionTime is left to meta.SetStatusCondition.
func (w *work) ready(ips []string, derived *corev1.Service) metav1.Condition {
	status, reason := metav1.ConditionTrue, mcsv1beta1.ServiceImportReasonReady
	message := fmt.Sprintf("imported from %s", Counted(len(w.resolved.Clusters), "cluster"))
	switch {
	case w.resolved.Type == mcsv1beta1.Headless:
	case w.in.DataPath == DataPathNone:
		message += "; by DNS only, without a ClusterSetIP, because the data path is none"
	case len(w.resolved.Ports) == 0:
		status, reason = metav1.ConditionFalse, mcsv1beta1.ServiceImportReasonPending
		message = "no ClusterSetIP: the exports have no port that can be imported"
	case len(ips) > 0:
	case derived != nil && len(ClusterIPs(derived)) > 0:
		status, reason = metav1.ConditionFalse, mcsv1beta1.ServiceImportReasonIPFamilyNotSupported
		message = fmt.Sprintf("no ClusterSetIP: the oldest export has %s, which Services of this cluster can't have",
			sayFamilies(w.resolved.IPFamilies))
	default:
		status, reason = metav1.ConditionFalse, mcsv1beta1.ServiceImportReasonPending
		message = "waiting for the derived Service's addresses"
	}
	c := mcsv1beta1.NewServiceImportCondition(mcsv1beta1.ServiceImportConditionReady, status, reason, message)
	c.LastTransitionTime = metav1.Time{}
	return c
}

func sayFamilies(families []corev1.IPFamily) string {
	text := make([]string, len(families))
	for i, f := range families {
		text[i] = string(f)
	}
	return strings.Join(text, " and ")
}

func noteKeys(annotations map[string]string, note string, m map[string]string) {
	if len(m) > 0 {
		annotations[note] = strings.Join(slices.Sorted(maps.Keys(m)), ",")
	}
}

// NotedKeys returns the keys that noteKeys noted.
func NotedKeys(annotations map[string]string, note string) []string {
	if annotations[note] == "" {
		return nil
	}
	return strings.Split(annotations[note], ",")
}

// Counted returns "1 cluster", "2 clusters".
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
