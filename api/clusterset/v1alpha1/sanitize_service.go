package v1alpha1

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/api/internal/sanitize"
)

// MaxExportedAnnotationBytes is the most bytes that the keys and values of exportedAnnotations may have in total. Every member keeps them.
const MaxExportedAnnotationBytes = 16 << 10

// maxAffinitySeconds is the longest ClientIP affinity a Service can have: a day.
const maxAffinitySeconds = 86400

// Validate returns what is wrong with the record, or nothing if all of it can be imported.
func (e *ExportedService) Validate() field.ErrorList {
	_, left := e.Sanitized()
	return left.List()
}

// Sanitized returns a copy of the record that can be merged and imported, and what had to be left out. The copy is nil if the
// record is unusable: its name doesn't match its service, its type is unknown, or it has no export time, which would make it
// the oldest. Otherwise it leaves out only what is invalid: ports, addresses and families, and values that the importing API
// server would reject in a ServiceImport or a derived Service. A rejected object would also block the import of every other
// cluster's part of the service.
//
// Exported labels and annotations with reserved keys (api.IsReservedKey) are dropped.
//
// Equivalent values are made equal, so that merging sees no conflict between them: protocol TCP, sessionAffinity None and
// internalTrafficPolicy Cluster are filled in, missing ipFamilies are those of the clusterIPs, and a sessionAffinityConfig
// without ClientIP is dropped.
//
// The copy's own Validate finds nothing. The record itself, which may belong to an informer's cache, is not changed; the copy
// shares none of its memory.
func (e *ExportedService) Sanitized() (*ExportedService, api.LeftOut) {
	if errs := e.validateIdentity(); len(errs) > 0 {
		return nil, api.Left(errs...)
	}
	out := e.DeepCopy()
	path := field.NewPath("spec")
	var left api.LeftOut
	out.Spec.sanitizePorts(path.Child("ports"), &left)
	out.Spec.sanitizeAddresses(path, &left)
	out.Spec.sanitizeTraffic(path, &left)
	out.sanitizeExportTo(path.Child("exportTo"), &left)
	sanitizeLabels(out.Spec.ExportedLabels, path.Child("exportedLabels"), &left)
	sanitizeAnnotations(out.Spec.ExportedAnnotations, path.Child("exportedAnnotations"), &left)
	return out, left
}

// MaxExportTo is the most clusters and communities that an export can be for.
const MaxExportTo = 64

// sanitizeExportTo leaves out what can't be the name of a cluster or a community. If nothing is left, only the exporting cluster imports
// the service: an empty list would mean all clusters.
func (e *ExportedService) sanitizeExportTo(path *field.Path, left *api.LeftOut) {
	if len(e.Spec.ExportTo) == 0 {
		return
	}
	var kept []string
	for i, to := range sanitize.Limit(e.Spec.ExportTo, MaxExportTo, path, left) {
		if err := api.CheckLabel(to); err != nil {
			left.Add(func() *field.Error {
				return field.Invalid(path.Index(i), sanitize.Printable(to), "must be the name of a cluster or a community: "+err.Error())
			})
		} else if !slices.Contains(kept, to) {
			kept = append(kept, to)
		}
	}
	if own, ok := e.SourceCluster(); ok && len(kept) == 0 {
		kept = []string{own}
	}
	e.Spec.ExportTo = kept
}

// validateIdentity returns what is wrong with the fields without which the record is unusable.
func (e *ExportedService) validateIdentity() field.ErrorList {
	path := field.NewPath("spec")
	errs := validateServiceRef(e.Spec.ServiceNamespace, e.Spec.ServiceName, path)
	if want := api.ExportedServiceName(e.Spec.ServiceNamespace, e.Spec.ServiceName); len(errs) == 0 && e.Name != want {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), sanitize.Printable(e.Name), "must be "+want))
	}
	switch e.Spec.Type {
	case mcsv1beta1.ClusterSetIP, mcsv1beta1.Headless:
	default:
		errs = append(errs, field.NotSupported(path.Child("type"),
			mcsv1beta1.ServiceImportType(sanitize.Printable(string(e.Spec.Type))),
			[]mcsv1beta1.ServiceImportType{mcsv1beta1.ClusterSetIP, mcsv1beta1.Headless}))
	}
	if e.Spec.ExportedAt.IsZero() {
		errs = append(errs, field.Required(path.Child("exportedAt"), "the oldest export wins, so each has to say its age"))
	}
	return errs
}

// validateServiceRef returns what is wrong with the namespace and name of an exported Service.
func validateServiceRef(namespace, name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if err := api.CheckLabel(namespace); err != nil {
		errs = append(errs, field.Invalid(path.Child("serviceNamespace"), sanitize.Printable(namespace), err.Error()))
	}
	if err := api.CheckLabel(name); err != nil {
		errs = append(errs, field.Invalid(path.Child("serviceName"), sanitize.Printable(name), err.Error()))
	}
	return errs
}

func (s *ExportedServiceSpec) sanitizePorts(path *field.Path, left *api.LeftOut) {
	ports := sanitize.Limit(s.Ports, api.MaxPorts, path, left)
	set := sanitize.Ports{NamesRequired: len(ports) > 1}
	kept := ports[:0]
	for i, p := range ports {
		path := path.Index(i)
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		if !set.Keep(p.Name, p.Protocol, p.Port, path, left) {
			continue
		}
		p.AppProtocol = sanitize.AppProtocol(p.AppProtocol, path.Child("appProtocol"), left)
		if t := p.TargetPort; t != nil && !validTargetPort(*t) {
			left.Add(func() *field.Error {
				return field.Invalid(path.Child("targetPort"), sanitize.Printable(t.String()),
					"must be a port number, 1 to 65535, or a port's name")
			})
			p.TargetPort = nil
		}
		kept = append(kept, p)
	}
	s.Ports = kept
}

func validTargetPort(port intstr.IntOrString) bool {
	if port.Type == intstr.String {
		return len(validation.IsValidPortName(port.StrVal)) == 0
	}
	return port.IntVal >= 1 && port.IntVal <= 65535
}

// sanitizeAddresses keeps one clusterIP of each family, as in a Service, and each family once.
func (s *ExportedServiceSpec) sanitizeAddresses(spec *field.Path, left *api.LeftOut) {
	path := spec.Child("clusterIPs")
	if s.Type == mcsv1beta1.Headless && len(s.ClusterIPs) > 0 {
		left.Add(func() *field.Error { return field.Forbidden(path, "a Headless service has no clusterIPs") })
		s.ClusterIPs = nil
	}
	var families []corev1.IPFamily
	kept := s.ClusterIPs[:0]
	for i, ip := range s.ClusterIPs {
		addr, err := api.ParseAddress(ip)
		if err != nil {
			left.Add(func() *field.Error { return field.Invalid(path.Index(i), sanitize.Printable(ip), err.Error()) })
			continue
		}
		family := sanitize.Family(addr)
		if slices.Contains(families, family) {
			left.Add(func() *field.Error {
				return field.Invalid(path.Index(i), sanitize.Printable(ip), "must be of another family than those before it")
			})
			continue
		}
		families = append(families, family)
		kept = append(kept, addr.String())
	}
	s.ClusterIPs = kept

	path = spec.Child("ipFamilies")
	stated := s.IPFamilies[:0]
	for i, family := range s.IPFamilies {
		switch {
		case family != corev1.IPv4Protocol && family != corev1.IPv6Protocol:
			left.Add(func() *field.Error {
				return field.NotSupported(path.Index(i), corev1.IPFamily(sanitize.Printable(string(family))),
					[]corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol})
			})
		case slices.Contains(stated, family):
			left.Add(func() *field.Error { return field.Duplicate(path.Index(i), family) })
		default:
			stated = append(stated, family)
		}
	}
	if len(stated) == 0 {
		stated = families
	}
	s.IPFamilies = stated
}

// sanitizeTraffic keeps the traffic fields whose values a Service of the current API can have.
func (s *ExportedServiceSpec) sanitizeTraffic(spec *field.Path, left *api.LeftOut) {
	switch s.SessionAffinity {
	case "":
		s.SessionAffinity = corev1.ServiceAffinityNone
	case corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP:
	default:
		left.Add(func() *field.Error {
			return field.NotSupported(spec.Child("sessionAffinity"),
				corev1.ServiceAffinity(sanitize.Printable(string(s.SessionAffinity))),
				[]corev1.ServiceAffinity{corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP})
		})
		s.SessionAffinity = corev1.ServiceAffinityNone
	}
	if s.SessionAffinity == corev1.ServiceAffinityNone {
		s.SessionAffinityConfig = nil
	}
	if c := s.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		if t := *c.ClientIP.TimeoutSeconds; t < 1 || t > maxAffinitySeconds {
			left.Add(func() *field.Error {
				return field.Invalid(spec.Child("sessionAffinityConfig", "clientIP", "timeoutSeconds"), t,
					"must be 1 to 86400 seconds")
			})
			s.SessionAffinityConfig = nil
		}
	}

	cluster := corev1.ServiceInternalTrafficPolicyCluster
	switch {
	case s.InternalTrafficPolicy == nil:
		s.InternalTrafficPolicy = &cluster
	case *s.InternalTrafficPolicy != cluster && *s.InternalTrafficPolicy != corev1.ServiceInternalTrafficPolicyLocal:
		left.Add(func() *field.Error {
			return field.NotSupported(spec.Child("internalTrafficPolicy"),
				corev1.ServiceInternalTrafficPolicy(sanitize.Printable(string(*s.InternalTrafficPolicy))),
				[]corev1.ServiceInternalTrafficPolicy{cluster, corev1.ServiceInternalTrafficPolicyLocal})
		})
		s.InternalTrafficPolicy = &cluster
	}

	known := []string{
		corev1.ServiceTrafficDistributionPreferClose,
		corev1.ServiceTrafficDistributionPreferSameZone,
		corev1.ServiceTrafficDistributionPreferSameNode,
	}
	if d := s.TrafficDistribution; d != nil && !slices.Contains(known, *d) {
		left.Add(func() *field.Error {
			return field.NotSupported(spec.Child("trafficDistribution"), sanitize.Printable(*d), known)
		})
		s.TrafficDistribution = nil
	}
}

// sanitizeLabels removes keys from m that can't be, or must not be, a label of ours. It visits keys in order, so that every importer
// removes the same ones.
func sanitizeLabels(m map[string]string, path *field.Path, left *api.LeftOut) {
	room := api.MaxExportedKeys
	for _, key := range slices.Sorted(maps.Keys(m)) {
		at := path.Key(sanitize.Printable(key))
		switch {
		case len(validation.IsQualifiedName(key)) > 0:
			left.Add(func() *field.Error {
				return field.Invalid(at, sanitize.Printable(key), "must be a label key, such as team or example.com/team")
			})
		case len(validation.IsValidLabelValue(m[key])) > 0:
			left.Add(func() *field.Error {
				return field.Invalid(at, sanitize.Printable(m[key]),
					"must be a label value: at most 63 of a-z, A-Z, 0-9, '-', '_' and '.', with a letter or digit at both ends")
			})
		case api.IsReservedKey(key):
			left.Add(func() *field.Error { return field.Forbidden(at, "the key is reserved and can't be exported") })
		case room == 0:
			left.Add(func() *field.Error { return field.Forbidden(at, tooManyKeys) })
		default:
			room--
			continue
		}
		delete(m, key)
	}
}

// sanitizeAnnotations removes keys from m that can't be, or must not be, an annotation of ours.
func sanitizeAnnotations(m map[string]string, path *field.Path, left *api.LeftOut) {
	room, bytes := api.MaxExportedKeys, MaxExportedAnnotationBytes
	for _, key := range slices.Sorted(maps.Keys(m)) {
		at := path.Key(sanitize.Printable(key))
		size := len(key) + len(m[key])
		switch {
		case len(validation.IsQualifiedName(strings.ToLower(key))) > 0:
			left.Add(func() *field.Error {
				return field.Invalid(at, sanitize.Printable(key), "must be an annotation key, such as note or example.com/note")
			})
		case api.IsReservedKey(key):
			left.Add(func() *field.Error { return field.Forbidden(at, "the key is reserved and can't be exported") })
		case room == 0:
			left.Add(func() *field.Error { return field.Forbidden(at, tooManyKeys) })
		case size > bytes:
			left.Add(func() *field.Error { return field.TooLong(at, "", MaxExportedAnnotationBytes) })
		default:
			room--
			bytes -= size
			continue
		}
		delete(m, key)
	}
}

// tooManyKeys is the message for keys beyond the limit.
var tooManyKeys = fmt.Sprintf("no more than %d keys can be exported", api.MaxExportedKeys)
