package api

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Limits of what one object may hold, shared by the CRDs (maxItems) and the Go validation.
const (
	// MaxPorts is the most ports of one service or endpoint, as documented for EndpointSlice. Every named port of every
	// endpoint becomes an SRV record, so this limits what one object can cost the DNS servers.
	MaxPorts = 100

	// MaxExportedEndpoints is the most endpoints of one ExportedEndpoints.
	MaxExportedEndpoints = 100

	// MaxPieces is the largest number of EndpointSlices that one record's endpoint is in. It is in several if kube-proxy is to use its ports
	// differently.
	MaxPieces = 4

	// MaxRecord is the most bytes that the spec of an ExportedService or ExportedEndpoints has as JSON: an eighth of what etcd takes. It
	// follows from the bounds in the CRDs.
	MaxRecord = 192 << 10

	// MaxAddresses is the most addresses of one endpoint of a GlobalService, as in EndpointSlice.
	MaxAddresses = 100

	// MaxExportedAddresses is the most addresses of one endpoint of ExportedEndpoints. Kubernetes itself writes one, and gives no meaning
	// to others; each is memory in every member.
	MaxExportedAddresses = 4

	// MaxEndpointZone is the longest zone of an exported endpoint, in characters: that of a label of a node, which it comes from.
	MaxEndpointZone = validation.LabelValueMaxLength

	// MaxGlobalServiceEndpoints is the most endpoints of one GlobalService. With targetRefs and hostnames on all of them, the
	// object stays within etcd's 1.5 MiB.
	MaxGlobalServiceEndpoints = 4096

	// MaxExportedKeys is the most exported labels, and the most exported annotations, of one ExportedService.
	MaxExportedKeys = 64

	// MaxClusterName is the longest cluster name, in bytes, so that it fits LabelSourceCluster.
	MaxClusterName = validation.LabelValueMaxLength

	// MaxLocation is the longest zone or region, in characters.
	MaxLocation = 253
)

// clouds are the addresses, other than link-local ones, at which clouds give a machine its credentials and settings. Alibaba Cloud's
// 100.100.100.200 isn't among them: where 100.64.0.0/10 is used for pods, it can be one's.
var clouds = []netip.Addr{
	netip.MustParseAddr("168.63.129.16"),      // Azure
	netip.MustParseAddr("fd00:ec2::254"),      // AWS
	netip.MustParseAddr("fd00:ec2::23"),       // AWS, for pods
	netip.MustParseAddr("fd20:ce::254"),       // Google Cloud
	netip.MustParseAddr("fd00:c1::a9fe:a9fe"), // Oracle Cloud
}

// ParseAddress parses an IP address that may be given to clients, without an IPv6 zone: one that CheckAddress accepts.
//
// IPv4-mapped IPv6 addresses are returned as IPv4 addresses.
func ParseAddress(s string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, errors.New("must be an IPv4 or IPv6 address, such as 10.1.2.3 or fd00::1")
	}
	if addr.Zone() != "" {
		return netip.Addr{}, errors.New("must not carry an IPv6 zone: it means nothing on another machine")
	}
	addr = addr.Unmap()
	if err := CheckAddress(addr); err != nil {
		return netip.Addr{}, err
	}
	return addr, nil
}

// CheckAddress returns an error unless the address may be given to clients: it is neither unspecified, loopback, link-local, multicast,
// broadcast nor one of a cloud's for metadata. Such an address means something else on every machine. A name that resolves to 127.0.0.1
// or to 169.254.169.254 would let one cluster point another's pods at themselves or at their cloud's metadata service. The
// Kubernetes API rejects most of them in an EndpointSlice too.
func CheckAddress(addr netip.Addr) error {
	var special string
	switch {
	case addr.IsUnspecified():
		special = "the unspecified address"
	case addr.IsLoopback():
		special = "a loopback address"
	case addr.IsLinkLocalUnicast():
		special = "a link-local address"
	case addr.IsMulticast():
		special = "a multicast address"
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		special = "the broadcast address"
	case slices.Contains(clouds, addr):
		special = "a cloud's metadata address"
	default:
		return nil
	}
	return fmt.Errorf("must be an address that other machines can reach, not %s", special)
}

// CheckLabel returns an error unless s is a lower-case RFC 1123 DNS label, the form of namespaces, Services, hostnames
// and port names. It is the same as validation.IsDNS1123Label, whose regular expression would take an eighth of the time of reading a state
// file.
func CheckLabel(s string) error {
	ok := s != "" && len(s) <= validation.DNS1123LabelMaxLength && s[0] != '-' && s[len(s)-1] != '-'
	for _, c := range []byte(s) {
		ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	if !ok {
		return errors.New("must be a DNS label: 1 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends")
	}
	return nil
}

// CheckClusterName returns an error unless s can name a cluster in DNS: one DNS label, or two with a dot between them, because
// `name.context` is in use as a cluster name; 63 bytes at most.
func CheckClusterName(s string) error {
	first, second, dotted := strings.Cut(s, ".")
	if len(s) > MaxClusterName || CheckLabel(first) != nil || dotted && CheckLabel(second) != nil {
		return fmt.Errorf("must be a cluster name: a DNS label (a-z, 0-9, '-'), or two joined by a dot, of at most %d bytes",
			MaxClusterName)
	}
	return nil
}

// ClusterNames returns those of some words that can name clusters. Another cluster wrote them, and people read them.
func ClusterNames(words []string) (names []string) {
	for _, name := range words {
		if CheckClusterName(name) == nil {
			names = append(names, name)
		}
	}
	return names
}

// CheckMemberName returns an error unless s can name a member of the hub: a DNS label (KEP-2149) short enough for
// MemberNamespace.
func CheckMemberName(s string) error {
	if len(s) > MaxMemberName || CheckLabel(s) != nil {
		return fmt.Errorf("must be a DNS label (a-z, 0-9, '-') of at most %d bytes", MaxMemberName)
	}
	return nil
}

// CheckLocation returns an error unless s can name a zone or region: any text without control characters and without leading or
// trailing blanks. Locations are only compared, so they need not be DNS labels ("华北" is valid). Empty means unknown and is
// valid.
func CheckLocation(s string) error {
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > MaxLocation || strings.TrimSpace(s) != s ||
		strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("must be the name of a zone or region: at most %d characters, no blanks at its ends, no control characters",
			MaxLocation)
	}
	return nil
}

// Networks parses networks, and leaves out what is none.
func Networks(cidrs []string) (all []netip.Prefix) {
	for _, s := range cidrs {
		if p, err := netip.ParsePrefix(s); err == nil {
			all = append(all, p.Masked())
		}
	}
	return all
}

// IsReservedKey reports whether a label or annotation key controls clusterset or Kubernetes itself. The importer drops
// exported labels and annotations with such keys: otherwise a member could mark another's objects as managed by
// clusterset, or hide a Service from kube-proxy, in every other cluster. Keys like app.kubernetes.io/name are not
// reserved.
func IsReservedKey(key string) bool {
	prefix, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	if prefix == Domain || strings.HasSuffix(prefix, "."+Domain) {
		return true
	}
	switch prefix {
	case "kubernetes.io", "k8s.io",
		"multicluster.kubernetes.io", "endpointslice.kubernetes.io", "endpoints.kubernetes.io",
		"service.kubernetes.io", "service.beta.kubernetes.io", "service.alpha.kubernetes.io",
		"kubectl.kubernetes.io", "fabedge.io":
		return true
	}
	return false
}
