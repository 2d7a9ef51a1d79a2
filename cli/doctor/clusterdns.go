package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/cli/clusterdns"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/view"
)

// checkClusterDNS checks whether the cluster's DNS sends the zones to clusterset: to its own clusterset plugin, or on to a
// server that has it.
func checkClusterDNS(f *Facts) []Finding { return f.checkPlace("clusterdns", &f.ClusterDNS) }

// checkNodeLocalDNS checks the cache on each node, which pods ask first. If it doesn't know the zones, it forwards their names
// past the cluster's DNS to the node's own servers.
func checkNodeLocalDNS(f *Facts) []Finding {
	if c := &f.NodeLocalDNS; c.Err == nil && c.Corefile == "" {
		return []Finding{ok("NodeLocal DNSCache isn't installed, or does what kube-dns does")}
	}
	return f.checkPlace("nodelocaldns", &f.NodeLocalDNS)
}

func (f *Facts) checkPlace(check string, p *clusterdns.Place) (all []Finding) {
	if p.Err != nil {
		return []Finding{skipped("what the Corefile in %s says isn't known: %v", p.Key, p.Err)}
	}
	var missing []string
	for _, zone := range f.Zones {
		switch way, err := p.Way(zone); {
		case err != nil:
			return []Finding{problem(err.Error(), "correct it: CoreDNS goes on with the last Corefile that it could read, or doesn't start")}
		case way.Plugin == "":
			missing = append(missing, zone)
		case way.Plugin == "clusterset":
			all = append(all, ok("%s answers %s itself", p.Key, zone))
		case way.Plugin == "forward":
			all = append(all, f.checkSent(check, p, zone, &way))
		default:
			all = append(all, problem(fmt.Sprintf("in %s the plugin %s answers %s instead of clusterset", p.Key, way.Plugin, zone),
				fmt.Sprintf("remove %s from %s, and %s", zone, way.Where, cure(p))))
		}
	}
	switch {
	case len(missing) == 0:
	case p.Unseen():
		all = append(all, skipped("no stanza for %s is seen in %s, but it imports others, which may have one; --dns asks the server itself", screen.And(missing), p.Key))
	default:
		message := "the Corefile in %s has no stanza for %s: pods' queries there never reach the clusterset servers"
		all = append(all, problem(fmt.Sprintf(message, p.Key, screen.And(missing)), cure(p)))
	}
	return all
}

// cure returns what to do about zones that the servers of a place don't forward to us.
func cure(p *clusterdns.Place) string {
	if p.Fixed != "" {
		return p.Fixed + "; to see what it needs, run:\nclusterset dns show --context CLUSTER"
	}
	return "let it forward them:\nclusterset dns enable --context CLUSTER"
}

// checkSent checks whether the servers to which a cluster DNS sends a zone are clusterset's.
func (f *Facts) checkSent(check string, p *clusterdns.Place, zone string, way *clusterdns.Way) Finding {
	for _, server := range way.Servers {
		level, what := f.leads(check, server)
		message := fmt.Sprintf("%s forwards %s to %s, %s", p.Key, zone, server, what)
		switch level {
		case Skipped:
			return skipped("%s; --dns asks the server itself", message)
		case Problem:
			return problem(message, fmt.Sprintf("with dns.service.clusterIP in the chart's values the address stays the same after a reinstall; "+
				"if you wrote %s yourself, remove it; then %s", way.Where, cure(p)))
		}
	}
	return ok("%s forwards %s to %s", p.Key, zone, strings.Join(way.Servers, " "))
}

// Right returns whether the servers of a check may send the zones to another server.
func (f *Facts) Right(check string) func(server string) bool {
	return func(server string) bool {
		is, _ := f.leads(check, server)
		return is == OK
	}
}

// leads says whether a server of a stanza is clusterset's, and if not or if that isn't known, what it is.
func (f *Facts) leads(check, server string) (is Level, what string) {
	const unknown = "and whether that is a clusterset server isn't known"
	address, err := netip.ParseAddr(server)
	if at, err2 := netip.ParseAddrPort(strings.TrimPrefix(server, "dns://")); err2 == nil {
		address, err = at.Addr(), nil
	}
	at := slices.IndexFunc(f.Services, func(s corev1.Service) bool { return slices.Contains(s.Spec.ClusterIPs, address.String()) })
	switch {
	case at < 0 && err == nil && f.isClusterIP(address):
		return Problem, "which is the address of no Service"
	case at < 0:
		return Skipped, unknown
	}
	switch s := &f.Services[at]; {
	case f.leadsToUs(s), check == "nodelocaldns" && s.Spec.Selector[labelClusterDNS] == clusterDNS: // which the check of that judges
		return OK, ""
	case len(s.Spec.Selector) == 0 || !slices.ContainsFunc(f.Workloads, func(w Workload) bool { return w.Part == view.PartDNS }):
		return Skipped, unknown
	default:
		return Problem, fmt.Sprintf("the address of the Service %s/%s, behind which no clusterset server is", s.Namespace, s.Name)
	}
}

// isClusterIP reports whether an address is in the range that Services get theirs from: between those that they have. Kubernetes has no range larger
// than a /12, or a /64 of IPv6; addresses that are further apart are from several.
func (f *Facts) isClusterIP(a netip.Addr) bool {
	network := netip.PrefixFrom(a, map[bool]int{true: 12, false: 64}[a.Is4()]).Masked()
	below, above := false, false
	for _, s := range f.Services {
		for _, text := range s.Spec.ClusterIPs {
			ip, err := netip.ParseAddr(text)
			switch {
			case err != nil || ip.Is4() != a.Is4():
			case !network.Contains(ip):
				return false
			default:
				below, above = below || ip.Less(a), above || a.Less(ip)
			}
		}
	}
	return below && above
}

// The label of the cluster DNS's pods.
const labelClusterDNS, clusterDNS = "k8s-app", "kube-dns"

// leadsToUs reports whether a Service selects our DNS servers.
func (f *Facts) leadsToUs(s *corev1.Service) bool {
	return len(s.Spec.Selector) > 0 && slices.ContainsFunc(f.Workloads, func(w Workload) bool {
		return w.Part == view.PartDNS && w.Namespace == s.Namespace && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.Labels))
	})
}

// Ours returns the first Service that leads to our DNS servers, nil if none does or that isn't known.
func (f *Facts) Ours() *corev1.Service {
	at := slices.IndexFunc(f.Services, func(s corev1.Service) bool {
		dns := slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == 53 })
		return dns && s.Spec.ClusterIP != corev1.ClusterIPNone && f.leadsToUs(&s)
	})
	if at < 0 {
		return nil
	}
	return &f.Services[at]
}

// findDNS finds the cluster DNS and the cache in front of it. While other servers run beside ours, these answer a share of the queries, from the usual
// configuration.
func (f *Facts) findDNS(ctx context.Context, c *objects.Cluster) {
	taken := ""
	at := slices.IndexFunc(f.Workloads, func(w Workload) bool {
		return w.Corefile != "" && w.Wanted > 0 && w.Namespace == metav1.NamespaceSystem && w.Labels[labelClusterDNS] == clusterDNS
	})
	if at >= 0 {
		var pods corev1.PodList
		err := c.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{labelClusterDNS: clusterDNS})
		if err == nil && !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return objects.Program(&p.Spec, view.PartDNS) == nil }) {
			taken = metav1.NamespaceSystem + "/" + f.Workloads[at].Corefile
		}
	}
	f.ClusterDNS, f.NodeLocalDNS = clusterdns.Find(ctx, c, taken)
}
