// Package place is how the command line and the console write where clients, servers and endpoints are.
package place

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/topology"
)

// Place is a location as people write it. An empty field is unknown.
type Place struct {
	Cluster string `json:"cluster,omitempty"`
	Zone    string `json:"zone,omitempty"`
	Region  string `json:"region,omitempty"`
}

// String returns cluster/zone/region, with "-" for unknown parts.
func (p Place) String() string {
	return cmp.Or(p.Cluster, "-") + "/" + cmp.Or(p.Zone, "-") + "/" + cmp.Or(p.Region, "-")
}

// Matches reports whether the place is at a location. Empty fields of the location match anything.
func (p Place) Matches(meant topology.Location) bool {
	return (meant.Cluster == "" || meant.Cluster == p.Cluster) && (meant.Zone == "" || meant.Zone == p.Zone) && (meant.Region == "" || meant.Region == p.Region)
}

// Parse parses what String returns. Parts at the end can be left out.
func Parse(text string) (topology.Location, error) {
	var l topology.Location
	parts := strings.Split(text, "/")
	if len(parts) > 3 {
		return l, fmt.Errorf("%q isn't a place; use cluster/zone/region, with - for a part that is unknown", text)
	}
	for i, to := range []*string{&l.Cluster, &l.Zone, &l.Region} {
		if i < len(parts) && parts[i] != "-" {
			*to = parts[i]
		}
		if err := api.CheckLocation(*to); err != nil {
			return l, fmt.Errorf("%q %w", *to, err)
		}
	}
	l.Cluster = strings.ToLower(l.Cluster)
	if l.Cluster != "" {
		if err := api.CheckClusterName(l.Cluster); err != nil {
			return l, fmt.Errorf("cluster %q %w", l.Cluster, err)
		}
	}
	return l, nil
}
