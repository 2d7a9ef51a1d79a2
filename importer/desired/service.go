package desired

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

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
	// Of each family that this cluster has, whatever the exports have: no API says which these are, and naming one that it lacks would be refused.
	s.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyPreferDualStack)
	if has := w.in.Derived; has != nil {
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
