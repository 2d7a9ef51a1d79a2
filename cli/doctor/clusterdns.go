package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/view"
)

// checkClusterDNS checks whether the cluster's DNS sends the zones to clusterset: to its own clusterset plugin, or on to a
// server that has it.
func checkClusterDNS(f *Facts) []Finding {
	if c := f.ClusterDNS; c.Err == nil && c.Corefile == "" {
		return []Finding{skipped("there is no ConfigMap %s with a Corefile; set that of this cluster's DNS with --dns-configmap, or query its server with --dns", c.Key)}
	}
	return f.checkCorefile("clusterdns", f.ClusterDNS)
}

// checkNodeLocalDNS checks the cache on each node, which pods ask first. If it doesn't know the zones, it forwards their names
// past the cluster's DNS to the node's own servers.
func checkNodeLocalDNS(f *Facts) []Finding {
	if c := f.NodeLocalDNS; c.Err == nil && c.Corefile == "" {
		return []Finding{ok("NodeLocal DNSCache isn't installed")}
	}
	return f.checkCorefile("nodelocaldns", f.NodeLocalDNS)
}

func (f *Facts) checkCorefile(check string, c ConfigMap) (all []Finding) {
	if c.Err != nil {
		return []Finding{skipped("the ConfigMap %s can't be read: %v", c.Key, c.Err)}
	}
	blocks := ParseCorefile(c.Corefile)
	var missing []string
	for _, zone := range f.Zones {
		block, key := serving(blocks, zone)
		switch {
		case block == nil:
			missing = append(missing, zone)
		case block.plugin(zone, "clusterset") != nil && (key != "" || block.names(zone, "clusterset")):
			all = append(all, ok("%s answers %s itself", c.Key, zone))
		case block.plugin(zone, "multicluster", "kubernetes") != nil:
			p := block.plugin(zone, "multicluster", "kubernetes")
			all = append(all, problem(fmt.Sprintf("in %s the plugin %s answers %s instead of clusterset", c.Key, p.Name, zone),
				fmt.Sprintf("remove %s from the line of %s, and\n%s", zone, p.Name, f.stanza(check, c.Key, []string{zone}))))
		case block.plugin(zone, "forward") != nil && (key != "" || block.names(zone, "forward")):
			all = append(all, f.checkSent(check, c.Key, zone, block.plugin(zone, "forward").servers()))
		default:
			missing = append(missing, zone)
		}
	}
	switch {
	case len(missing) == 0:
	case imports(c.Corefile):
		all = append(all, skipped("no stanza for %s is seen in %s, but it imports others, which may have one; --dns asks the server itself", screen.And(missing), c.Key))
	default:
		all = append(all, problem(fmt.Sprintf("the Corefile in %s has no stanza for %s: pods' queries there never reach the clusterset servers", c.Key, screen.And(missing)),
			f.stanza(check, c.Key, missing)))
	}
	return all
}

// names reports whether a plugin in a block for the root names the zone, or one that it is in. Without that, forward sends it where everything
// else goes, and clusterset refuses to start.
func (b *Block) names(zone, plugin string) bool {
	p := b.plugin(zone, plugin)
	return p != nil && len(p.Args) > 0 && zoneOf(p.Args[0]) != ""
}

func (p *Plugin) servers() []string {
	if len(p.Args) < 2 {
		return []string{"nowhere"}
	}
	return p.Args[1:]
}

// stanza returns the cure for a Corefile without one.
func (f *Facts) stanza(check, configMap string, zones []string) string {
	keys := make([]string, len(zones))
	for i, z := range zones {
		keys[i] = z + ":53"
	}
	bind := ""
	if check == "nodelocaldns" {
		bind = "    bind 169.254.20.10    # as in the file's other stanzas\n"
	}
	address, with := "CLUSTER-IP", ", with the ClusterIP of the clusterset DNS Service"
	if ours := f.ours(); ours != nil {
		address, with = ours.Spec.ClusterIP, ""
	}
	return fmt.Sprintf(`add to the Corefile%s%s:
%s {
    errors
    cache 5
%s    forward . %s
}`, edit(configMap), with, strings.Join(keys, " "), bind, address)
}

func edit(configMap string) string {
	namespace, name, _ := strings.Cut(configMap, "/")
	return fmt.Sprintf(" (kubectl -n %s edit configmap %s)", namespace, name)
}

// checkSent checks whether the servers to which a cluster DNS sends a zone are clusterset's.
func (f *Facts) checkSent(check, configMap, zone string, servers []string) Finding {
	for _, server := range servers {
		level, what := f.leads(check, server)
		message := fmt.Sprintf("%s forwards %s to %s, %s", configMap, zone, server, what)
		switch level {
		case Skipped:
			return skipped("%s; --dns asks the server itself", message)
		case Problem:
			address := "the ClusterIP of the clusterset DNS Service"
			if ours := f.ours(); ours != nil {
				address = fmt.Sprintf("%s, the ClusterIP of %s/%s,", ours.Spec.ClusterIP, ours.Namespace, ours.Name)
			}
			return problem(message, fmt.Sprintf("write %s in its place%s; with dns.service.clusterIP in the chart's values it stays the same after a reinstall", address, edit(configMap)))
		}
	}
	return ok("%s forwards %s to %s", configMap, zone, strings.Join(servers, " "))
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

// ours returns the first Service that leads to our DNS servers, nil if none does or that isn't known.
func (f *Facts) ours() *corev1.Service {
	at := slices.IndexFunc(f.Services, func(s corev1.Service) bool {
		dns := slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == 53 })
		return dns && s.Spec.ClusterIP != corev1.ClusterIPNone && f.leadsToUs(&s)
	})
	if at < 0 {
		return nil
	}
	return &f.Services[at]
}

// readClusterDNS reads the ConfigMap of the cluster DNS: that of our servers if they have taken its place, unless another was asked for.
// While other servers run beside them, these answer a share of the queries, from the usual one.
func (f *Facts) readClusterDNS(ctx context.Context, c *objects.Cluster, asked client.ObjectKey) {
	at := slices.IndexFunc(f.Workloads, func(w Workload) bool {
		return w.Corefile != "" && w.Wanted > 0 && w.Namespace == ClusterDNS.Namespace && w.Labels[labelClusterDNS] == clusterDNS
	})
	if at >= 0 && asked == ClusterDNS {
		var pods corev1.PodList
		err := c.List(ctx, &pods, client.InNamespace(asked.Namespace), client.MatchingLabels{labelClusterDNS: clusterDNS})
		if err == nil && !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return objects.Program(&p.Spec, view.PartDNS) == nil }) {
			asked.Name = f.Workloads[at].Corefile
		}
	}
	f.ClusterDNS = readConfigMap(ctx, c, asked)
}
