package preview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/internal/policy"
)

// say writes the summary's text: what is done, and what that changes.
func (s *Summary) say(changes []Change) {
	var what []string
	for i := range changes {
		what = append(what, changes[i].String())
	}
	text := cmp.Or(strings.Join(what, ", then "), "nothing") // which the console's previews begin with
	s.Text = strings.ToUpper(text[:1]) + text[1:] + " " + s.counts()
}

func (s *Summary) counts() string {
	if s.Changed == 0 {
		return fmt.Sprintf("changes none of %s.", screen.Counted(s.Services, "service"))
	}
	text := fmt.Sprintf("changes %d of %s", s.Changed, screen.Counted(s.Services, "service"))
	var parts []string
	for _, e := range worst {
		switch n := s.Effects[e.effect]; {
		case n == 0 || e.one == "":
		case n == 1:
			parts = append(parts, "1 "+e.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, e.many))
		}
	}
	if len(parts) == 0 {
		return text + ", none for the worse."
	}
	return text + ": " + strings.Join(parts, ", ") + "."
}

// String says what the change does, as the subject of a sentence.
func (c *Change) String() string {
	switch {
	case len(c.Down) > 0:
		return "taking " + screen.And(c.Down) + " down"
	case len(c.Drain) > 0:
		return "draining " + screen.And(c.Drain)
	case len(c.Undrain) > 0:
		return "undraining " + screen.And(c.Undrain)
	case len(c.Leave) > 0:
		return "taking " + screen.And(c.Leave) + " out of the set"
	case c.Unreachable != nil:
		from := "other clusters"
		if len(c.Unreachable.From) > 0 {
			from = screen.And(c.Unreachable.From)
		}
		return "cutting " + from + " off from " + screen.And(c.Unreachable.Clusters)
	case c.Export != nil:
		return "exporting " + c.Export.Service + " from " + c.Export.From
	case c.Unexport != nil:
		return "no longer exporting " + c.Unexport.Service + " from " + c.Unexport.From
	case c.Place != nil:
		var to []string
		if len(c.Place.Zones) > 0 {
			to = append(to, "zone "+screen.And(c.Place.Zones))
		}
		if c.Place.Region != "" {
			to = append(to, "region "+c.Place.Region)
		}
		return "moving " + c.Place.Cluster + " to " + strings.Join(to, ", ")
	case c.Policy != nil:
		stated, _ := policy.FromExport(&c.Policy.ServicePolicy, nil) // validated when it was applied
		return "giving " + exportsOf(c.Policy.Service, c.Policy.From) + " the policy " + stated.String()
	case c.Communities != nil:
		return "putting " + c.Communities.Cluster + " into the communities " + screen.And(c.Communities.To)
	case c.Network != nil && c.Network.To == "":
		return "giving " + c.Network.Cluster + " the cidrs " + screen.And(c.Network.CIDRs) + c.Network.external()
	case c.Network != nil && c.Network.To == "-":
		return "putting " + c.Network.Cluster + " into the network without a name" + c.Network.external()
	case c.Network != nil:
		return "putting " + c.Network.Cluster + " into network " + c.Network.To + c.Network.external()
	}
	service := exportsOf(c.ExportTo.Service, c.ExportTo.From)
	if slices.Equal(c.ExportTo.To, []string{"-"}) {
		return "exporting " + service + " to all clusters"
	}
	return "limiting the export of " + service + " to " + screen.And(c.ExportTo.To)
}

// external says what the change does to the external networks.
func (n *Network) external() string {
	switch {
	case len(n.ExternalCIDRs) == 0:
		return ""
	case slices.Equal(n.ExternalCIDRs, []string{"-"}):
		return ", without external networks"
	}
	return ", with the external networks " + screen.And(n.ExternalCIDRs)
}

// exportsOf names a service as one cluster exports it, or as all do.
func exportsOf(service, from string) string {
	if from == "" {
		return service
	}
	return service + " of " + from
}
