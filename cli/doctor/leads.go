package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/view"
)

// Service is a Service of the cluster, to which a stanza may lead.
type Service struct {
	Namespace, Name string
	ClusterIPs      []netip.Addr
	Selector        map[string]string
	DNS             bool
}

// services reads the Services that have an address.
func services(ctx context.Context, c *objects.Cluster) (all []Service, err error) {
	var list corev1.ServiceList
	if err := c.List(ctx, &list); err != nil {
		return nil, c.Words(err)
	}
	for i := range list.Items {
		svc := &list.Items[i]
		s := Service{Namespace: svc.Namespace, Name: svc.Name, ClusterIPs: addresses(svc.Spec.ClusterIPs), Selector: svc.Spec.Selector}
		s.DNS = slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == 53 })
		if len(s.ClusterIPs) > 0 {
			all = append(all, s)
		}
	}
	return all, nil
}

// addresses leaves out what isn't one, such as None.
func addresses(texts []string) (all []netip.Addr) {
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, a)
		}
	}
	return all
}

// sent says to which servers a cluster DNS sends a zone.
type sent struct {
	zone    string
	servers []string
}

// checkSent checks whether zones are sent to clusterset servers.
func (f *Facts) checkSent(check string, c ConfigMap, all []sent) (findings []Finding) {
	var whys []string
	zones := map[string][]string{} // by the reason why they may not get there
	levels := map[string]Level{}
	for _, s := range all {
		level, why := OK, ""
		for _, server := range s.servers {
			if l, w := f.leads(check, server); order(l) < order(level) {
				level, why = l, w
			}
		}
		if level == OK {
			findings = append(findings, ok("%s forwards %s to %s", c.Key, s.zone, strings.Join(s.servers, " ")))
			continue
		}
		if zones[why] == nil {
			whys = append(whys, why)
		}
		zones[why], levels[why] = append(zones[why], s.zone), level
	}
	for _, why := range whys {
		message := fmt.Sprintf("%s forwards %s to %s", c.Key, screen.And(zones[why]), why)
		if levels[why] == Skipped {
			findings = append(findings, skipped("%s; --dns asks the server itself", message))
			continue
		}
		address := "the ClusterIP of the clusterset DNS Service"
		if ours := f.ours(); ours != nil {
			address = fmt.Sprintf("%s, the ClusterIP of %s/%s,", ours.ClusterIPs[0], ours.Namespace, ours.Name)
		}
		findings = append(findings, problem(message,
			fmt.Sprintf("write %s in its place%s; with dns.service.clusterIP in the chart's values it stays the same after a reinstall", address, edit(c))))
	}
	return findings
}

// leads says whether a server of a stanza is clusterset's, and if not or if that isn't known, what it is.
func (f *Facts) leads(check, server string) (is Level, what string) {
	address, err := netip.ParseAddr(server)
	if at, err2 := netip.ParseAddrPort(strings.TrimPrefix(server, "dns://")); err2 == nil {
		address, err = at.Addr(), nil
	}
	unknown := func(why string, args ...any) (Level, string) {
		return Skipped, fmt.Sprintf("%s, and whether that is a clusterset server isn't known: "+why, append([]any{server}, args...)...)
	}
	at := slices.IndexFunc(f.Services, func(s Service) bool { return slices.Contains(s.ClusterIPs, address) })
	switch {
	case err != nil:
		return unknown("it isn't an address")
	case f.ServicesErr != nil:
		return unknown("%v", f.ServicesErr)
	case at < 0 && f.isClusterIP(address):
		return Problem, server + ", which is the address of no Service"
	case at < 0:
		return unknown("no Service of this cluster has it")
	}
	switch s := &f.Services[at]; {
	case f.leadsToUs(s), check == "nodelocaldns" && s.Selector[labelClusterDNS] == clusterDNS: // which the check of that judges
		return OK, ""
	case f.WorkloadsErr != nil:
		return unknown("%v", f.WorkloadsErr)
	case len(s.Selector) == 0:
		return unknown("its Service %s/%s has no selector", s.Namespace, s.Name)
	case !slices.ContainsFunc(f.Workloads, func(w Workload) bool { return w.Part == view.PartDNS }):
		return unknown("the chart's DNS servers aren't in this cluster")
	default:
		return Problem, fmt.Sprintf("%s, the address of the Service %s/%s, behind which no clusterset server is", server, s.Namespace, s.Name)
	}
}

// The label of the cluster DNS's pods.
const labelClusterDNS, clusterDNS = "k8s-app", "kube-dns"

// leadsToUs reports whether a Service selects our DNS servers.
func (f *Facts) leadsToUs(s *Service) bool {
	return len(s.Selector) > 0 && slices.ContainsFunc(f.Workloads, func(w Workload) bool {
		return w.Part == view.PartDNS && w.Namespace == s.Namespace && labels.SelectorFromSet(s.Selector).Matches(labels.Set(w.Labels))
	})
}

// ours returns the first Service that leads to our DNS servers, nil if none does or that isn't known.
func (f *Facts) ours() *Service {
	for i := range f.Services {
		if s := &f.Services[i]; s.DNS && f.leadsToUs(s) {
			return s
		}
	}
	return nil
}

// isClusterIP reports whether an address is in the range that Services get theirs from: in the smallest network with all that they have.
// Kubernetes has no range larger than a /12, or a /64 of IPv6. Addresses that are further apart are from several.
func (f *Facts) isClusterIP(a netip.Addr) bool {
	var all []netip.Addr
	for _, s := range f.Services {
		for _, ip := range s.ClusterIPs {
			if ip.Is4() == a.Is4() {
				all = append(all, ip)
			}
		}
	}
	if len(all) == 0 {
		return false
	}
	low, high := slices.MinFunc(all, netip.Addr.Compare), slices.MaxFunc(all, netip.Addr.Compare)
	network := netip.PrefixFrom(low, low.BitLen())
	for !network.Contains(high) {
		network = netip.PrefixFrom(low, network.Bits()-1)
	}
	return network.Contains(a) && network.Bits() >= map[int]int{32: 12, 128: 64}[low.BitLen()]
}
