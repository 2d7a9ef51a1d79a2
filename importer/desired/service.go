package desired

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/clusterset/clusterset/api"
)

// derivedService returns the Service that gives the ServiceImport its ClusterSetIP, or nil if it gets none. It has no
// selector: the importer's EndpointSlices have its name, and kube-proxy does the rest.
//
// The API server chooses the addresses, so existing ones are kept. Nothing else is, or what somebody adds to the Service would stay (C79).
func (w *work) derivedService() *corev1.Service {
	if !w.hasVIP() {
		return nil
	}
	r := &w.resolved
	svc := &corev1.Service{ObjectMeta: w.objectMeta(api.DerivedServiceName(w.in.Key.Namespace, w.in.Key.Name))}
	svc.Labels[api.LabelServiceName] = w.in.Key.Name
	// kube-proxy up to Kubernetes 1.30, and other proxies, only use hints if the Service requests it.
	svc.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto"}
	s := &svc.Spec
	s.Type = corev1.ServiceTypeClusterIP
	s.SessionAffinity = r.SessionAffinity
	s.SessionAffinityConfig = affinityConfig(r.SessionAffinity, r.SessionAffinityConfig)
	s.InternalTrafficPolicy = r.InternalTrafficPolicy
	// TrafficDistribution stays nil: the importer sets the hints (assignHints). An older API server would refuse the newer values, and with
	// them the whole Service.
	s.Ports = make([]corev1.ServicePort, 0, len(r.Ports))
	for _, p := range r.Ports {
		s.Ports = append(s.Ports, corev1.ServicePort{
			Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port,
			TargetPort: intstr.FromInt32(p.Port), // the API's default; the slices say where traffic goes
		})
	}
	if w.in.Derived != nil {
		has := w.in.Derived.Spec.DeepCopy()
		s.ClusterIP, s.ClusterIPs, s.IPFamilies, s.IPFamilyPolicy = has.ClusterIP, has.ClusterIPs, has.IPFamilies, has.IPFamilyPolicy
		w.widen(s)
	}
	return svc
}

// widen requests the second family if the oldest export has one that a single-stack Service lacks. It never narrows: that
// would give up an address, and the VIP is kept for the life of the ServiceImport. A single-stack cluster leaves a
// Service that prefers two families as it is, so this is requested only once.
func (w *work) widen(s *corev1.ServiceSpec) {
	if s.IPFamilyPolicy == nil || *s.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
		return
	}
	for _, f := range w.resolved.IPFamilies {
		if !slices.Contains(s.IPFamilies, f) {
			policy := corev1.IPFamilyPolicyPreferDualStack
			s.IPFamilyPolicy = &policy
			return
		}
	}
}

// FamilyChoice is one way to ask for addresses. A member may have fewer families than the exporters.
type FamilyChoice struct {
	policy   corev1.IPFamilyPolicy
	Families []corev1.IPFamily
}

// ApplyTo requests the families on a Service.
func (c FamilyChoice) ApplyTo(s *corev1.ServiceSpec) {
	s.IPFamilyPolicy, s.IPFamilies = &c.policy, c.Families
}

// FamilyChoices returns the families to request when the derived Service is created, the best choice first. A
// single-stack cluster would refuse a Service that names both families. Naming the first and preferring two gets all
// available families, unless the cluster lacks the first.
func FamilyChoices(families []corev1.IPFamily) []FamilyChoice {
	switch len(families) {
	case 0:
		return []FamilyChoice{{policy: corev1.IPFamilyPolicyPreferDualStack}}
	case 1:
		return []FamilyChoice{{corev1.IPFamilyPolicySingleStack, families}}
	default:
		return []FamilyChoice{
			{corev1.IPFamilyPolicyPreferDualStack, families[:1]},
			{corev1.IPFamilyPolicySingleStack, families[1:2]},
		}
	}
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
