package v1alpha1

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/api/internal/sanitize"
)

// Validate returns what is wrong with the object, or nothing if all of it can be used. People and the hub write MemberClusters,
// so there is nothing to salvage: report an invalid one and don't use it.
func (m *MemberCluster) Validate() field.ErrorList {
	var errs field.ErrorList
	if err := api.CheckClusterName(m.Name); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), sanitize.Printable(m.Name), err.Error()))
	}
	spec := field.NewPath("spec")
	checkLocation(m.Spec.Zone, spec.Child("zone"), &errs)
	path := spec.Child("zones")
	for i, zone := range limited(m.Spec.Zones, MaxZones, path, &errs) {
		if err := api.CheckLocation(zone); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), sanitize.Printable(zone), err.Error()))
		} else if zone == "" {
			errs = append(errs, field.Required(path.Index(i), "must be the name of a zone; leave it out where it is unknown"))
		}
	}
	checkLocation(m.Spec.Region, spec.Child("region"), &errs)
	if w := m.Spec.Weight; w != nil && (*w < 1 || *w > DefaultWeight) {
		errs = append(errs, field.Invalid(spec.Child("weight"), *w, "must be 1 to 100; to send no traffic, set drain"))
	}
	path = spec.Child("cidrs")
	for i, cidr := range limited(m.Spec.CIDRs, MaxCIDRs, path, &errs) {
		if prefix, err := netip.ParsePrefix(cidr); err != nil || prefix != prefix.Masked() {
			errs = append(errs, field.Invalid(path.Index(i), sanitize.Printable(cidr),
				"must be a network without host bits, such as 10.1.0.0/16 or fd00:1::/48"))
		}
	}
	path = spec.Child("communities")
	seen := map[string]bool{}
	for i, community := range limited(m.Spec.Communities, MaxCommunities, path, &errs) {
		if err := api.CheckLabel(community); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), sanitize.Printable(community), err.Error()))
		} else if seen[community] {
			errs = append(errs, field.Duplicate(path.Index(i), community))
		}
		seen[community] = true
	}
	switch m.Status.Phase {
	case "", MemberReady, MemberSuspect, MemberExpired:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("status", "phase"),
			MemberClusterPhase(sanitize.Printable(string(m.Status.Phase))),
			[]MemberClusterPhase{MemberReady, MemberSuspect, MemberExpired}))
	}
	return errs
}

func checkLocation(s string, path *field.Path, errs *field.ErrorList) {
	if err := api.CheckLocation(s); err != nil {
		*errs = append(*errs, field.Invalid(path, sanitize.Printable(s), err.Error()))
	}
}

// limited cuts a list that is too long at its end.
func limited(list []string, limit int, path *field.Path, errs *field.ErrorList) []string {
	var left api.LeftOut
	list = sanitize.Limit(list, limit, path, &left)
	*errs = append(*errs, left.Errors...)
	return list
}

// MaxZones is the most zones a MemberCluster can list.
const MaxZones = 64

// MaxCIDRs is the most networks a MemberCluster can have.
const MaxCIDRs = 64

// MaxCommunities is the most communities a MemberCluster can be in.
const MaxCommunities = 64
