package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/view"
)

// checkClusterDNS checks whether the cluster's DNS sends the zones to clusterset: to its own clusterset plugin, or on to a
// server that has it.
func checkClusterDNS(f *Facts) []Finding {
	c := f.ClusterDNS
	switch {
	case c.Err != nil:
		return []Finding{skipped("the ConfigMap %s can't be read: %v", c.Key, c.Err)}
	case !c.Found:
		return []Finding{skipped("there is no ConfigMap %s; set that of this cluster's DNS with --dns-configmap, or query its server with --dns", c.Key)}
	case c.Data["stubDomains"] != "":
		return f.checkStubDomains(c)
	case c.Data["Corefile"] == "":
		return []Finding{problem(fmt.Sprintf("the ConfigMap %s has no Corefile and no stubDomains, so nothing forwards %s", c.Key, screen.And(f.Zones)), "configure this cluster's DNS to forward these zones to the clusterset servers")}
	}
	return f.checkCorefile("clusterdns", c)
}

// checkNodeLocalDNS checks the cache on each node, which pods ask first. If it doesn't know the zones, it forwards their names
// past the cluster's DNS to the node's own servers.
func checkNodeLocalDNS(f *Facts) []Finding {
	c := f.NodeLocalDNS
	switch {
	case c.Err != nil:
		return []Finding{skipped("the ConfigMap %s can't be read: %v", c.Key, c.Err)}
	case !c.Found:
		return []Finding{ok("NodeLocal DNSCache isn't installed")}
	}
	return f.checkCorefile("nodelocaldns", c)
}

func (f *Facts) checkCorefile(check string, c ConfigMap) []Finding {
	blocks := ParseCorefile(c.Data["Corefile"])
	all := checkGlobal(c, blocks)
	var forwarded []sent
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
			forwarded = append(forwarded, sent{zone, block.plugin(zone, "forward").servers()})
		default:
			missing = append(missing, zone)
		}
	}
	all = append(all, f.checkSent(check, c, forwarded)...)
	switch {
	case len(missing) == 0:
	case importsFiles(c.Data["Corefile"]):
		all = append(all, skipped("no stanza for %s is seen in %s, but it imports files, which may have one; --dns asks the server itself", screen.And(missing), c.Key))
	default:
		all = append(all, problem(fmt.Sprintf("the Corefile in %s has no stanza for %s: pods' queries there never reach the clusterset servers", c.Key, screen.And(missing)),
			f.stanza(check, c.Key, missing)))
	}
	return all
}

// importsFiles reports whether a Corefile imports more than its own snippets.
func importsFiles(corefile string) bool {
	d := words(corefile)
	for d.Next() {
		if d.Val() == "import" && d.NextArg() && strings.ContainsAny(d.Val(), "/*.") {
			return true
		}
	}
	return false
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
	address, with := f.address()
	namespace, name, _ := strings.Cut(configMap, "/")
	return fmt.Sprintf(`add to the Corefile (kubectl -n %s edit configmap %s)%s:
%s {
    errors
    cache 5
%s    forward . %s
}`, namespace, name, with, strings.Join(keys, " "), bind, address)
}

// address returns the one to forward to. If it isn't known, with says what to put in its place.
func (f *Facts) address() (address, with string) {
	if ours := f.ours(); ours != nil {
		return ours.ClusterIPs[0].String(), ""
	}
	return "CLUSTER-IP", ", with the ClusterIP of the clusterset DNS Service"
}

// checkStubDomains reads kube-dns's stubDomains, which forward zones to other servers.
func (f *Facts) checkStubDomains(c ConfigMap) []Finding {
	var domains map[string][]string
	address, with := f.address()
	if err := json.Unmarshal([]byte(c.Data["stubDomains"]), &domains); err != nil {
		return []Finding{problem(fmt.Sprintf("stubDomains in %s isn't JSON: %v", c.Key, err), fmt.Sprintf("write it as {\"clusterset.local\": [%q]}%s", address, with))}
	}
	var forwarded []sent
	var all []Finding
	if servers := domains[publicZone]; len(servers) > 0 {
		all = sendsGlobal(c, servers, domains[ourZone])
	}
	for _, zone := range f.Zones {
		servers := domains[zone]
		if zone == ourZone && len(servers) == 0 {
			servers = domains[publicZone]
		}
		if len(servers) > 0 {
			forwarded = append(forwarded, sent{zone, servers})
			continue
		}
		all = append(all, problem(fmt.Sprintf("stubDomains in %s lacks %s", c.Key, zone), fmt.Sprintf("add %q: [%q]%s", zone, address, with)))
	}
	return append(all, f.checkSent("clusterdns", c, forwarded)...)
}

// global is a public top-level domain. The names below svc.global are ours; all others belong to those who registered them.
const (
	publicZone = "global"
	ourZone    = "svc.global"
)

// checkGlobal finds a Corefile that sends every query for global to clusterset: registered names there can't be resolved then.
func checkGlobal(c ConfigMap, blocks []Block) []Finding {
	block, key := serving(blocks, publicZone)
	if block == nil || block.plugin(publicZone, "clusterset") != nil { // it passes on what isn't ours
		return nil
	}
	forward := block.plugin(publicZone, "forward")
	if forward == nil || key != publicZone && (len(forward.Args) == 0 || zoneOf(forward.Args[0]) != publicZone) {
		return nil
	}
	var ours []string
	if b, _ := serving(blocks, ourZone); b.plugin(ourZone, "forward") != forward {
		ours = []string{}
		if own := b.plugin(ourZone, "forward"); own != nil {
			ours = own.servers()
		}
	}
	return sendsGlobal(c, forward.servers(), ours)
}

// sendsGlobal returns the problem of a cluster DNS that forwards all of global to servers. ours are the servers for svc.global
// if it has its own, or nil.
func sendsGlobal(c ConfigMap, servers, ours []string) []Finding {
	cure := "write svc.global in place of global"
	if ours != nil {
		if !slices.ContainsFunc(servers, func(s string) bool { return slices.Contains(ours, s) }) {
			return nil // the rest of global goes elsewhere
		}
		cure = "remove what sends global there: svc.global has a line of its own"
	}
	return []Finding{problem(fmt.Sprintf("%s sends all of global, a public top-level domain, to %s: names such as www.company.global can't be resolved", c.Key, strings.Join(servers, " ")),
		cure+edit(c))}
}

func edit(c ConfigMap) string {
	namespace, name, _ := strings.Cut(c.Key, "/")
	return fmt.Sprintf(" (kubectl -n %s edit configmap %s)", namespace, name)
}

// configMapInUse returns the ConfigMap of the cluster DNS: that of our servers if they have taken its place, unless another was asked for.
// While other servers run beside them, these answer a share of the queries, from the usual one.
func (f *Facts) configMapInUse(ctx context.Context, c *objects.Cluster, asked client.ObjectKey) client.ObjectKey {
	at := slices.IndexFunc(f.Workloads, func(w Workload) bool {
		return w.Corefile != "" && w.Wanted > 0 && w.Namespace == ClusterDNS.Namespace && w.Labels[labelClusterDNS] == clusterDNS
	})
	var pods corev1.PodList
	if asked != ClusterDNS || at < 0 || c.List(ctx, &pods, client.InNamespace(asked.Namespace), client.MatchingLabels{labelClusterDNS: clusterDNS}) != nil {
		return asked
	}
	if slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return objects.Program(&p.Spec, view.PartDNS) == nil }) {
		return asked
	}
	return client.ObjectKey{Namespace: f.Workloads[at].Namespace, Name: f.Workloads[at].Corefile}
}
