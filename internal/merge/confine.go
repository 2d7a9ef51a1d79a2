package merge

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// ConfineIPs returns those of a cluster's ClusterIPs that are in the networks an administrator gave the cluster on the hub. It
// prevents a member from exporting another member's addresses.
func ConfineIPs(cluster string, cidrs []string, s *clustersetv1alpha1.ExportedService) (ips []string, left api.LeftOut) {
	beyond := Outside(field.NewPath("spec", "clusterIPs"), cidrs, CIDRsOf(cluster), &left)
	return slices.DeleteFunc(slices.Clone(s.Spec.ClusterIPs), beyond), left
}

// ConfineEndpoints leaves out endpoints with an address that is beyond, in place: the record is a sanitized copy.
func ConfineEndpoints(e *clustersetv1alpha1.ExportedEndpoints, beyond func(string) bool) {
	e.Spec.Endpoints = slices.DeleteFunc(e.Spec.Endpoints, func(ep clustersetv1alpha1.Endpoint) bool {
		// One bad address is enough to drop the endpoint: its addresses all belong to the same backend.
		return slices.ContainsFunc(ep.Addresses, beyond)
	})
}

// CIDRsOf says whose networks they are.
func CIDRsOf(cluster string) string { return "spec.cidrs of MemberCluster " + cluster }

// Outside reports whether an address is in none of a cluster's networks, and counts it.
func Outside(path *field.Path, cidrs []string, where string, left *api.LeftOut) func(string) bool {
	networks := api.Networks(cidrs)
	return func(s string) bool {
		addr, err := netip.ParseAddr(s)
		if err == nil && slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			return false
		}
		left.Add(func() *field.Error {
			return field.Invalid(path, s, "must lie in "+where+" on the hub, "+shortened(cidrs)+": correct them if the address is right")
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
	var left api.LeftOut
	var of string
	switch r := record.(type) {
	case *clustersetv1alpha1.ExportedService:
		if r, _ = r.Sanitized(); r != nil {
			_, left = ConfineIPs("", c.CIDRs, r)
			of, c.ips, c.allIPs = r.Spec.ServiceNamespace+"/"+r.Spec.ServiceName, c.ips+left.Count, c.allIPs+len(r.Spec.ClusterIPs)
		}
	case *clustersetv1alpha1.ExportedEndpoints:
		if r, _ = r.Sanitized(); r != nil && !r.Spec.External {
			c.allEndpoints += len(r.Spec.Endpoints)
			ConfineEndpoints(r, Outside(nil, c.CIDRs, "", &left))
			of, c.endpoints = r.Spec.ServiceNamespace+"/"+r.Spec.ServiceName, c.endpoints+left.Count
		}
	}
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
