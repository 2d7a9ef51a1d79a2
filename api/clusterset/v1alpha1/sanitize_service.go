package v1alpha1

import (
	"fmt"
	"maps"
	"math"
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
	sanitizeKeys(out.Spec.ExportedLabels, path.Child("exportedLabels"), &left, math.MaxInt, checkLabel)
	sanitizeKeys(out.Spec.ExportedAnnotations, path.Child("exportedAnnotations"), &left, MaxExportedAnnotationBytes, checkAnnotation)
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
		errs = append(errs, sanitize.NotSupported(path.Child("type"), e.Spec.Type, mcsv1beta1.ClusterSetIP, mcsv1beta1.Headless))
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
		errs = append(errs, sanitize.Invalid(path.Child("serviceNamespace"), namespace, err))
	}
	if err := api.CheckLabel(name); err != nil {
		errs = append(errs, sanitize.Invalid(path.Child("serviceName"), name, err))
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
			left.Add(func() *field.Error { return sanitize.Invalid(path.Index(i), ip, err) })
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
				return sanitize.NotSupported(path.Index(i), family, corev1.IPv4Protocol, corev1.IPv6Protocol)
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
	switch stated := s.SessionAffinity; stated {
	case "":
		s.SessionAffinity = corev1.ServiceAffinityNone
	case corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP:
	default:
		left.Add(func() *field.Error {
			return sanitize.NotSupported(spec.Child("sessionAffinity"), stated, corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP)
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
			return sanitize.NotSupported(spec.Child("internalTrafficPolicy"), *s.InternalTrafficPolicy, cluster, corev1.ServiceInternalTrafficPolicyLocal)
		})
		s.InternalTrafficPolicy = &cluster
	}

	if share := s.Share; share != nil && (*share < 0 || *share > 100) {
		left.Add(func() *field.Error { return field.Invalid(spec.Child("share"), *share, "must be 0 to 100 per cent") })
		s.Share = nil
	}

	known := []string{
		corev1.ServiceTrafficDistributionPreferClose,
		corev1.ServiceTrafficDistributionPreferSameZone,
		corev1.ServiceTrafficDistributionPreferSameNode,
	}
	if d := s.TrafficDistribution; d != nil && !slices.Contains(known, *d) {
		left.Add(func() *field.Error { return sanitize.NotSupported(spec.Child("trafficDistribution"), *d, known...) })
		s.TrafficDistribution = nil
	}
}

// sanitizeKeys removes keys from exported labels or annotations that can't be, or must not be, ours: those that check finds wrong, reserved
// ones, and those for which there is no room. It visits keys in order, so that every importer removes the same ones.
func sanitizeKeys(m map[string]string, path *field.Path, left *api.LeftOut, bytes int, check func(at *field.Path, key, value string) *field.Error) {
	keys := api.MaxExportedKeys
	for _, key := range slices.Sorted(maps.Keys(m)) {
		at := path.Key(sanitize.Printable(key))
		size := len(key) + len(m[key])
		err := check(at, key, m[key])
		switch {
		case err != nil:
		case api.IsReservedKey(key):
			err = field.Forbidden(at, "the key is reserved and can't be exported")
		case keys == 0:
			err = field.Forbidden(at, tooManyKeys)
		case size > bytes:
			err = field.TooLong(at, "", MaxExportedAnnotationBytes)
		default:
			keys--
			bytes -= size
			continue
		}
		left.Add(func() *field.Error { return err })
		delete(m, key)
	}
}

// tooManyKeys is the message for keys beyond the limit.
var tooManyKeys = fmt.Sprintf("no more than %d keys can be exported", api.MaxExportedKeys)

func checkLabel(at *field.Path, key, value string) *field.Error {
	switch {
	case len(validation.IsQualifiedName(key)) > 0:
		return field.Invalid(at, sanitize.Printable(key), "must be a label key, such as team or example.com/team")
	case len(validation.IsValidLabelValue(value)) > 0:
		return field.Invalid(at, sanitize.Printable(value),
			"must be a label value: at most 63 of a-z, A-Z, 0-9, '-', '_' and '.', with a letter or digit at both ends")
	}
	return nil
}

func checkAnnotation(at *field.Path, key, _ string) *field.Error {
	if len(validation.IsQualifiedName(strings.ToLower(key))) > 0 {
		return field.Invalid(at, sanitize.Printable(key), "must be an annotation key, such as note or example.com/note")
	}
	return nil
}
