package v1alpha1

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/api/internal/sanitize"
)

// Validate returns what is wrong with the object, or nothing if all of it can be used.
func (m *MemberCluster) Validate() field.ErrorList {
	var errs field.ErrorList
	if err := api.CheckClusterName(m.Name); err != nil {
		errs = append(errs, sanitize.Invalid(field.NewPath("metadata", "name"), m.Name, err))
	}
	spec := field.NewPath("spec")
	checkLocation(m.Spec.Zone, spec.Child("zone"), &errs)
	path := spec.Child("zones")
	for i, zone := range limited(m.Spec.Zones, MaxZones, path, &errs) {
		if err := api.CheckLocation(zone); err != nil {
			errs = append(errs, sanitize.Invalid(path.Index(i), zone, err))
		} else if zone == "" {
			errs = append(errs, field.Required(path.Index(i), "must be the name of a zone; leave it out where it is unknown"))
		}
	}
	checkLocation(m.Spec.Region, spec.Child("region"), &errs)
	if w := m.Spec.Weight; w != nil && (*w < 1 || *w > DefaultWeight) {
		errs = append(errs, field.Invalid(spec.Child("weight"), *w, "must be 1 to 100; to send no traffic, set drain"))
	}
	checkNetworks(m.Spec.CIDRs, spec.Child("cidrs"), &errs)
	if m.Spec.Network != "" {
		if err := api.CheckLabel(m.Spec.Network); err != nil {
			errs = append(errs, sanitize.Invalid(spec.Child("network"), m.Spec.Network, err))
		}
	}
	checkNetworks(m.Spec.ExternalCIDRs, spec.Child("externalCIDRs"), &errs)
	path = spec.Child("communities")
	seen := map[string]bool{}
	for i, community := range limited(m.Spec.Communities, MaxCommunities, path, &errs) {
		if err := api.CheckLabel(community); err != nil {
			errs = append(errs, sanitize.Invalid(path.Index(i), community, err))
		} else if seen[community] {
			errs = append(errs, field.Duplicate(path.Index(i), community))
		}
		seen[community] = true
	}
	switch m.Status.Phase {
	case "", MemberReady, MemberSuspect, MemberExpired:
	default:
		errs = append(errs, sanitize.NotSupported(field.NewPath("status", "phase"), m.Status.Phase, MemberReady, MemberSuspect, MemberExpired))
	}
	return errs
}

func checkNetworks(cidrs []string, path *field.Path, errs *field.ErrorList) {
	for i, cidr := range limited(cidrs, MaxCIDRs, path, errs) {
		if prefix, err := netip.ParsePrefix(cidr); err != nil || prefix != prefix.Masked() {
			*errs = append(*errs, field.Invalid(path.Index(i), sanitize.Printable(cidr),
				"must be a network without host bits, such as 10.1.0.0/16 or fd00:1::/48"))
		}
	}
}

func checkLocation(s string, path *field.Path, errs *field.ErrorList) {
	if err := api.CheckLocation(s); err != nil {
		*errs = append(*errs, sanitize.Invalid(path, s, err))
	}
}

// limited cuts a list that is too long at its end.
func limited(list []string, limit int, path *field.Path, errs *field.ErrorList) []string {
	var left api.LeftOut
	list = sanitize.Limit(list, limit, path, &left)
	*errs = append(*errs, left.Errors...)
	return list
}

// Sanitized returns the object, or if something is wrong with it, a copy of what can be used, and the errors. People write MemberClusters: a
// typo must not take anything else with it, least of all health and drain. An invalid location or weight counts as not set; of lists, what is
// invalid is left out, and a network with host bits counts without these. If no network or no community is left, the list stays as it is: an
// empty one would let the cluster export any address, or to others. An invalid spec.network stays too: without it, others would take the
// cluster for one of their own network. Otherwise only an invalid name remains.
func (m *MemberCluster) Sanitized() (*MemberCluster, field.ErrorList) {
	errs := m.Validate()
	if len(errs) == 0 {
		return m, nil
	}
	out := m.DeepCopy()
	spec, status := &out.Spec, &out.Status
	if api.CheckLocation(spec.Zone) != nil {
		spec.Zone = ""
	}
	if api.CheckLocation(spec.Region) != nil {
		spec.Region = ""
	}
	if w := spec.Weight; w != nil && (*w < 1 || *w > DefaultWeight) {
		spec.Weight = nil
	}
	spec.Zones = usable(spec.Zones, MaxZones, func(zone string) (string, bool) { return zone, zone != "" && api.CheckLocation(zone) == nil })
	if networks := usable(spec.CIDRs, MaxCIDRs, masked); len(networks) > 0 {
		spec.CIDRs = networks
	}
	if networks := usable(spec.ExternalCIDRs, MaxCIDRs, masked); len(networks) > 0 {
		spec.ExternalCIDRs = networks
	}
	if all := usable(spec.Communities, MaxCommunities, func(c string) (string, bool) { return c, api.CheckLabel(c) == nil }); len(all) > 0 {
		spec.Communities = all
	}
	switch status.Phase {
	case MemberReady, MemberSuspect, MemberExpired:
	default:
		status.Phase = "" // of a newer hub; it can't remove a cluster's names by that
	}
	return out, errs
}

// usable returns the usable items of a list, each once, and at most so many.
func usable(list []string, most int, use func(string) (string, bool)) (out []string) { //nolint:unparam // the limits are the same by chance
	for _, item := range list {
		if item, ok := use(item); ok && len(out) < most && !slices.Contains(out, item) {
			out = append(out, item)
		}
	}
	return out
}

// masked returns a network without host bits, if it is one.
func masked(cidr string) (string, bool) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", false
	}
	if prefix == prefix.Masked() {
		return cidr, true
	}
	return prefix.Masked().String(), true
}

// MaxZones is the most zones a MemberCluster can list.
const MaxZones = 64

// MaxCIDRs is the most networks that cidrs and externalCIDRs of a MemberCluster can have, each.
const MaxCIDRs = 64

// MaxCommunities is the most communities a MemberCluster can be in.
const MaxCommunities = 64
