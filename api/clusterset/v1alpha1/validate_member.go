package v1alpha1

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/api/internal/sanitize"
)

// The most items that lists of a MemberCluster can have.
const (
	MaxZones       = 64
	MaxCIDRs       = 64 // of cidrs, and of externalCIDRs
	MaxCommunities = 64
)

// Validate returns what is wrong with the object, or nothing if all of it can be used.
func (m *MemberCluster) Validate() field.ErrorList {
	_, errs := m.Sanitized()
	return errs
}

// Sanitized returns the object, or if something is wrong with it, a copy of what can be used, and the errors. People write MemberClusters: a
// typo must not take anything else with it, least of all health and drain. An invalid location or weight counts as not set; of lists, what is
// invalid is left out, and a network with host bits counts without these. If no network or no community is left, the list stays as it is: an
// empty one would let the cluster export any address, or to others. An invalid spec.network stays too: without it, others would take the
// cluster for one of their own network. Otherwise only an invalid name remains.
func (m *MemberCluster) Sanitized() (*MemberCluster, field.ErrorList) {
	var errs field.ErrorList
	out, path := m.DeepCopy(), field.NewPath("spec")
	spec, status := &out.Spec, &out.Status
	if err := api.CheckClusterName(m.Name); err != nil {
		errs = append(errs, sanitize.Invalid(field.NewPath("metadata", "name"), m.Name, err))
	}
	spec.Zone = location(spec.Zone, path.Child("zone"), &errs)
	spec.Zones = usable(spec.Zones, MaxZones, path.Child("zones"), &errs, zone)
	spec.Region = location(spec.Region, path.Child("region"), &errs)
	if w := spec.Weight; w != nil && (*w < 1 || *w > DefaultWeight) {
		errs = append(errs, field.Invalid(path.Child("weight"), *w, "must be 1 to 100; to send no traffic, set drain"))
		spec.Weight = nil
	}
	if networks := usable(spec.CIDRs, MaxCIDRs, path.Child("cidrs"), &errs, network); len(networks) > 0 {
		spec.CIDRs = networks
	}
	if spec.Network != "" {
		if _, err := label(spec.Network, path.Child("network")); err != nil {
			errs = append(errs, err)
		}
	}
	if networks := usable(spec.ExternalCIDRs, MaxCIDRs, path.Child("externalCIDRs"), &errs, network); len(networks) > 0 {
		spec.ExternalCIDRs = networks
	}
	if communities := usable(spec.Communities, MaxCommunities, path.Child("communities"), &errs, label); len(communities) > 0 {
		spec.Communities = communities
	}
	switch status.Phase {
	case "", MemberReady, MemberSuspect, MemberExpired:
	default:
		errs = append(errs, sanitize.NotSupported(field.NewPath("status", "phase"), status.Phase, MemberReady, MemberSuspect, MemberExpired))
		status.Phase = "" // of a newer hub; it can't remove a cluster's names by that
	}
	if len(errs) == 0 {
		return m, nil
	}
	return out, errs
}

// usable returns the usable ones of a list's first items, each once. use returns what can be used of one, "" if nothing can, and what is wrong
// with it.
func usable(list []string, most int, path *field.Path, errs *field.ErrorList, use func(string, *field.Path) (string, *field.Error)) (out []string) { //nolint:unparam // the limits are the same by chance
	if len(list) > most {
		*errs = append(*errs, field.TooMany(path, len(list), most))
		list = list[:most]
	}
	for i, item := range list {
		item, err := use(item, path.Index(i))
		if err == nil && slices.Contains(out, item) {
			err = field.Duplicate(path.Index(i), item)
		}
		if err != nil {
			*errs = append(*errs, err)
		}
		if item != "" && !slices.Contains(out, item) {
			out = append(out, item)
		}
	}
	return out
}

func location(s string, path *field.Path, errs *field.ErrorList) string {
	if err := api.CheckLocation(s); err != nil {
		*errs = append(*errs, sanitize.Invalid(path, s, err))
		return ""
	}
	return s
}

func zone(s string, path *field.Path) (string, *field.Error) {
	if err := api.CheckLocation(s); err != nil {
		return "", sanitize.Invalid(path, s, err)
	}
	if s == "" {
		return "", field.Required(path, "must be the name of a zone; leave it out where it is unknown")
	}
	return s, nil
}

func label(s string, path *field.Path) (string, *field.Error) {
	if err := api.CheckLabel(s); err != nil {
		return "", sanitize.Invalid(path, s, err)
	}
	return s, nil
}

// network returns a network without host bits.
func network(s string, path *field.Path) (string, *field.Error) {
	prefix, err := netip.ParsePrefix(s)
	if err == nil && prefix == prefix.Masked() {
		return s, nil
	}
	wrong := field.Invalid(path, sanitize.Printable(s), "must be a network without host bits, such as 10.1.0.0/16 or fd00:1::/48")
	if err != nil {
		return "", wrong
	}
	return prefix.Masked().String(), wrong
}
