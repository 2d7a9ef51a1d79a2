package desired

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/policy"
	"github.com/clusterset/clusterset/internal/text"
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

// derivedService returns the Service that gives the ServiceImport its ClusterSetIP, or nil if it gets none.
func (w *work) derivedService() *corev1.Service {
	if !w.hasVIP() {
		return nil
	}
	svc := w.service(api.DerivedServiceName(w.in.Key.Namespace, w.in.Key.Name), w.in.Derived)
	svc.Labels[api.LabelServiceName] = w.in.Key.Name
	// Other proxies only use hints if this requests it. Kubernetes' own controller writes hints only for Services with a selector, which somebody may
	// give to one under the service's own name.
	svc.Spec.TrafficDistribution = w.in.Distribution
	return svc
}

// service returns a Service as the merge says. It has no selector: the importer's EndpointSlices have its name, and kube-proxy does the rest.
//
// The API server chooses the addresses, so those that it has are kept. Nothing else is, or what somebody adds to the Service would stay (C79).
func (w *work) service(name string, has *corev1.Service) *corev1.Service {
	r := &w.resolved
	svc := &corev1.Service{ObjectMeta: w.objectMeta(name)}
	// kube-proxy up to Kubernetes 1.30 only uses hints if this requests it.
	svc.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto"}
	s := &svc.Spec
	s.Type = corev1.ServiceTypeClusterIP
	s.SessionAffinity = r.SessionAffinity
	s.SessionAffinityConfig = affinityConfig(r.SessionAffinity, r.SessionAffinityConfig)
	s.InternalTrafficPolicy = r.InternalTrafficPolicy
	s.Ports = make([]corev1.ServicePort, 0, len(r.Ports))
	for _, p := range r.Ports {
		s.Ports = append(s.Ports, corev1.ServicePort{
			Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port,
			TargetPort: intstr.FromInt32(p.Port), // the API's default; the slices say where traffic goes
		})
	}
	// Of each family that this cluster has, whatever the exports have: no API says which these are, and naming one that it lacks would be refused.
	s.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyPreferDualStack)
	if has != nil {
		s.ClusterIP, s.ClusterIPs, s.IPFamilies = has.Spec.ClusterIP, has.Spec.ClusterIPs, has.Spec.IPFamilies
	}
	return svc
}

// affinityConfig sets the API server's default, so that a comparison finds no difference.
func affinityConfig(affinity corev1.ServiceAffinity, c *corev1.SessionAffinityConfig) *corev1.SessionAffinityConfig {
	if affinity != corev1.ServiceAffinityClientIP {
		return nil
	}
	seconds := corev1.DefaultClientIPServiceAffinitySeconds
	if c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		seconds = *c.ClientIP.TimeoutSeconds
	}
	return &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
}

// ClusterIPs returns the Service's cluster IPs, ignoring the API's "" and None.
func ClusterIPs(svc *corev1.Service) []string {
	return slices.DeleteFunc(slices.Clone(svc.Spec.ClusterIPs), func(ip string) bool {
		return ip == "" || ip == corev1.ClusterIPNone
	})
}

const (
	// maxNamed is how many clusters a condition names, and maxFirst how many bytes of the first thing that is left out it has.
	maxNamed, maxFirst = 5, 500
)

// complete returns the condition Complete if parts of the exports are left out, or not all could be written; else nothing.
func complete(drops []merge.Drop, blocked string) []metav1.Condition {
	var said []string
	if len(drops) > 0 {
		count, of := 0, make([]string, len(drops))
		for i, d := range drops {
			count, of[i] = count+d.Values.Count, cmp.Or(d.Cluster, "no cluster")
		}
		slices.Sort(of)
		are := "are"
		if count == 1 {
			are = "is"
		}
		said = append(said, fmt.Sprintf("%s of the exports of %s %s left out; the first: %s",
			Counted(count, "part"), text.First(slices.Compact(of), maxNamed), are, text.Truncate(drops[0].String(), maxFirst)))
	}
	if blocked != "" {
		said = append(said, "not all could be written: "+blocked)
	}
	return amiss(api.ConditionComplete, api.ReasonLeftOut, strings.Join(said, ". "))
}

// confirmed returns the condition Confirmed if parts stay without a record; else nothing.
func confirmed(without []string) []metav1.Condition {
	if len(without) == 0 {
		return nil
	}
	return amiss(api.ConditionConfirmed, api.ReasonNoRecord, fmt.Sprintf(
		"the hub has no record of the exports of %s, which stay as they were imported last until it has one, says that they are withdrawn, or has been without one for a day while their cluster is Ready",
		text.First(without, maxNamed)))
}

// endpoints returns the condition Endpoints if clients reach no ready endpoint of any cluster; else nothing.
func (w *work) endpoints() []metav1.Condition {
	if slices.ContainsFunc(w.clusters, w.serves) {
		return nil
	}
	seen := "its name has no address"
	switch {
	case w.resolved.Type == mcsv1beta1.Headless:
		seen = "its name is NXDOMAIN"
	case w.hasVIP():
		seen = "connections to its ClusterSetIP are refused"
	}
	export := "export"
	if len(w.resolved.Clusters) == 1 {
		export = "exports"
	}
	return amiss(api.ConditionEndpoints, api.ReasonNoEndpoints, fmt.Sprintf("no endpoint is ready in %s, which %s the service: %s",
		text.First(w.resolved.Clusters, maxNamed), export, seen))
}

// serves reports whether the cluster has a ready endpoint that the service leads to, whatever the cluster's phase.
func (w *work) serves(c *cluster) bool {
	switch {
	case !c.anyReady() || w.resolved.Type == mcsv1beta1.Headless:
		return c.anyReady()
	case w.in.DataPath == DataPathClusterIPs && !w.routes(c):
		return w.offersClusterIP(c)
	}
	return w.exposesAny(c)
}

// amiss returns a condition that is False, or nothing if there is nothing to say. LastTransitionTime is left to meta.SetStatusCondition.
func amiss(kind, reason, message string) []metav1.Condition {
	if message == "" {
		return nil
	}
	return []metav1.Condition{{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}}
}
