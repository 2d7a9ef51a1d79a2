package merge

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
)

// ConfineIPs returns those of a cluster's ClusterIPs that are in the networks an administrator gave the cluster on the hub. It
// prevents a member from exporting another member's addresses.
func ConfineIPs(e *door.Export, cidrs []string) (ips []string, left api.LeftOut) {
	beyond := Outside(field.NewPath("spec", "clusterIPs"), cidrs, CIDRsOf(e.Cluster), &left)
	return slices.DeleteFunc(slices.Clone(e.Spec.ClusterIPs), func(ip string) bool {
		addr, err := netip.ParseAddr(ip)
		return err != nil || beyond(addr)
	}), left
}

// ConfineEndpoints returns the endpoints none of whose addresses is beyond. The list isn't changed.
func ConfineEndpoints(all []door.Endpoint, beyond func(netip.Addr) bool) []door.Endpoint {
	// One bad address is enough to drop the endpoint: its addresses all belong to the same backend.
	out := func(e door.Endpoint) bool { return beyond(e.Addr) || slices.ContainsFunc(e.More, beyond) }
	for i := range all {
		if out(all[i]) {
			rest := slices.DeleteFunc(slices.Clone(all[i+1:]), out)
			return append(all[:i:i], rest...)
		}
	}
	return all
}

// CIDRsOf says whose networks they are.
func CIDRsOf(cluster string) string { return "spec.cidrs of MemberCluster " + cluster }

// Outside reports whether an address is in none of a cluster's networks, and counts it.
func Outside(path *field.Path, cidrs []string, where string, left *api.LeftOut) func(netip.Addr) bool {
	networks := api.Networks(cidrs)
	return func(addr netip.Addr) bool {
		if slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			return false
		}
		left.Add(func() *field.Error {
			return field.Invalid(path, addr.String(), "must lie in "+where+" on the hub, "+shortened(cidrs)+": correct them if the address is right")
		})
		return true
	}
}

// shortened returns networks for a message: it is kept for each record, and a cluster can have many.
func shortened(cidrs []string) string {
	const shown = 4
	if len(cidrs) <= shown {
		return strings.Join(cidrs, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(cidrs[:shown], ", "), len(cidrs)-shown)
}

// Confined counts what the networks of a cluster (cidrs of its MemberCluster, sanitized) leave out of what it exports.
type Confined struct {
	CIDRs                []string
	endpoints, ips       int // left out
	allEndpoints, allIPs int
	example              string // the first address that is left out, and its service
}

// Add counts a record of the cluster. External addresses are confined by other networks, externalCIDRs.
func (c *Confined) Add(record runtime.Object) {
	switch r := record.(type) {
	case *clustersetv1alpha1.ExportedService:
		c.AddExport(door.CompactService(r, time.Now()))
	case *clustersetv1alpha1.ExportedEndpoints:
		c.AddEndpoints(door.CompactEndpoints(r))
	}
}

// AddExport is Add for a value.
func (c *Confined) AddExport(e *door.Export) {
	if e.Spec != nil {
		_, left := ConfineIPs(e, c.CIDRs)
		c.ips, c.allIPs = c.ips+left.Count, c.allIPs+len(e.Spec.ClusterIPs)
		c.noteExample(left, e.Key)
	}
}

// AddEndpoints is Add for a value.
func (c *Confined) AddEndpoints(e *door.Endpoints) {
	if e.Usable && !e.External {
		var left api.LeftOut
		ConfineEndpoints(e.Endpoints, Outside(nil, c.CIDRs, "", &left))
		c.endpoints, c.allEndpoints = c.endpoints+left.Count, c.allEndpoints+len(e.Endpoints)
		c.noteExample(left, e.Key)
	}
}

func (c *Confined) noteExample(left api.LeftOut, of types.NamespacedName) {
	if c.example == "" && left.Count > 0 {
		c.example = fmt.Sprintf("%v of %s", left.Errors[0].BadValue, of)
	}
}

// String says what is left out, empty if nothing is. Nor is it worth a word that ClusterIPs aren't among the networks at all: those of clusters
// with the same range must not be, and traffic can do without them.
func (c *Confined) String() string {
	var parts []string
	if c.endpoints > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d endpoints", c.endpoints, c.allEndpoints))
	}
	if c.ips > 0 && (c.endpoints > 0 || c.ips < c.allIPs) {
		parts = append(parts, fmt.Sprintf("%d of %d ClusterIPs", c.ips, c.allIPs))
	}
	if len(c.CIDRs) == 0 || len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("spec.cidrs leaves out %s that it exports, such as %s; other clusters don't use them", strings.Join(parts, " and "), c.example)
}
