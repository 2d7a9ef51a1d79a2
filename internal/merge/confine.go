package merge

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

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

// Confined counts what the networks of a cluster (cidrs of its MemberCluster, sanitized) leave out of all that it exports.
type Confined struct {
	CIDRs                []string
	endpoints, ips       int // left out
	allEndpoints, allIPs int
	example              string // the first address, and its service
}

// Service counts a record.
func (c *Confined) Service(s *clustersetv1alpha1.ExportedService) {
	if clean, _ := s.Sanitized(); clean != nil && len(c.CIDRs) > 0 {
		_, left := ConfineIPs("", c.CIDRs, clean)
		c.allIPs, c.ips = c.allIPs+len(clean.Spec.ClusterIPs), c.ips+left.Count
		c.such(left, clean.Spec.ServiceNamespace, clean.Spec.ServiceName)
	}
}

// Endpoints counts a record. External addresses are confined by other networks, externalCIDRs.
func (c *Confined) Endpoints(e *clustersetv1alpha1.ExportedEndpoints) {
	if clean, _ := e.Sanitized(); clean != nil && len(c.CIDRs) > 0 && !clean.Spec.External {
		var left api.LeftOut
		c.allEndpoints += len(clean.Spec.Endpoints)
		ConfineEndpoints(clean, Outside(nil, c.CIDRs, "", &left))
		c.endpoints += left.Count
		c.such(left, clean.Spec.ServiceNamespace, clean.Spec.ServiceName)
	}
}

func (c *Confined) such(left api.LeftOut, namespace, name string) {
	if c.example == "" && left.Count > 0 {
		c.example = fmt.Sprintf("%v of %s/%s", left.Errors[0].BadValue, namespace, name)
	}
}

// String says what is left out, empty if nothing is. Nor is it worth a word that ClusterIPs aren't among the networks at all: those of clusters
// with the same range must not be, and traffic can do without them.
func (c *Confined) String() string {
	var parts []string
	if c.endpoints > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d endpoints", c.endpoints, c.allEndpoints))
	}
	if c.ips > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d ClusterIPs", c.ips, c.allIPs))
	}
	if c.endpoints == 0 && (c.ips == 0 || c.ips == c.allIPs) {
		return ""
	}
	return fmt.Sprintf("spec.cidrs leaves out %s that it exports, such as %s; other clusters don't use them", strings.Join(parts, " and "), c.example)
}
