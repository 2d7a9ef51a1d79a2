package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/process"
)

const (
	webGlobal = "web.shop.svc.global"
	webSet    = "web.shop.svc.clusterset.local"
	dbSet     = "db.shop.svc.clusterset.local"
)

// run runs all chapters of the story.
func (t *tour) run() error {
	for _, chapter := range []func(){t.join, t.nearest, t.why, t.standard, t.headless, t.drain, t.silent, t.gone, t.back} {
		chapter()
	}
	return t.err
}

func (t *tour) join() {
	t.title("Three clusters join a hub")
	t.say(`Four Kubernetes API servers run on this machine: a hub, and three clusters in three places. xicheng lies in zone
		beijing and shijiazhuang in zone hebei, both in the region north; minhang lies in zone shanghai, in the south. One
		kubeconfig has them all.`)
	t.say(`The hub needs no software of ours to begin with: it is a place to write to. Joining gives a cluster a namespace there
		that only its agent may write, and the agent a token for that and nothing more.`)
	t.command("export KUBECONFIG="+folder+"/kubeconfig", "")
	for _, m := range t.members() {
		t.clusterset(fmt.Sprintf("join %s --hub-kubeconfig %s/kubeconfig --hub-context hub --context %s --zone %s --region %s --install-crds",
			m.Name, folder, m.Name, m.Zone, m.Region), line(m.Name, "is", "a", "member."))
	}
	t.say(`Services are imported into namespaces that a cluster has. Ours will be in shop.`)
	for _, m := range t.members() {
		t.createNamespace(m, "shop")
	}
	t.say(`Now the processes, which in a real cluster the Helm chart runs as Deployments: in each cluster an agent, 'clusterset
		member', that exports, imports and sends heartbeats, and a CoreDNS with our plugin, which knows where it is; beside the hub
		'clusterset hub', which watches the heartbeats. Each has the rights of its ServiceAccount, no more.`)
	t.do(t.startProcesses)
	t.say(`This is all that xicheng's CoreDNS is told. The others' differ in their location.`)
	t.cat(folder + "/xicheng-dns.Corefile")
	t.say(`And this is how it looks from xicheng, which the star marks.`)
	t.look("status --context xicheng --hub-context hub",
		member("xicheng", "Ready", 0), member("shijiazhuang", "Ready", 0), member("minhang", "Ready", 0), services("0 imported, 0 exported from here"), measured)
}

// startProcesses starts the hub process, the agents and the DNS servers, each with the rights that the chart gives it.
func (t *tour) startProcesses() error {
	namespace := []byte("{apiVersion: v1, kind: Namespace, metadata: {name: " + api.SystemNamespace + "}}")
	if err := t.hub.Plane.ApplyContext(t.ctx, namespace, fleet.Rights("hub"), fleet.Rights("hub-leader")); err != nil {
		return err
	}
	if err := t.hub.Process.Start(t.ctx); err != nil {
		return err
	}
	for _, m := range t.members() {
		if err := m.Plane.ApplyContext(t.ctx, fleet.Rights("member"), fleet.Rights("dns")); err != nil {
			return err
		}
		if err := errors.Join(m.MountHubSecret(t.ctx), m.Agent.Start(t.ctx), m.DNS.Start(t.ctx)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tour) nearest() {
	t.title("One name, the nearest answer")
	t.say(`xicheng has a Service that the others are to reach. A ServiceExport of the same name, from Kubernetes's Multi-Cluster
		Services API, says so.`)
	t.showFile("examples/demo/web.yaml")
	t.apply(t.xicheng, "examples/demo/web.yaml")
	t.say(`A moment later every cluster knows the name. We ask each one's own DNS server; an address that begins with 10.1 is
		xicheng's, 10.2 shijiazhuang's, 10.3 minhang's. As long as only xicheng exports web, all are sent there.`)
	xicheng := t.web(t.xicheng)
	for _, m := range t.members() {
		t.dig(m, webGlobal, dns.TypeA, xicheng)
	}
	t.say(`minhang exports a web of its own. It keeps its clients at home from now on. shijiazhuang has none, and takes the one
		in its region rather than the one far in the south.`)
	t.apply(t.minhang, "examples/demo/web.yaml")
	minhang := t.web(t.minhang)
	t.dig(t.xicheng, webGlobal, dns.TypeA, xicheng)
	t.dig(t.shijiazhuang, webGlobal, dns.TypeA, xicheng)
	t.dig(t.minhang, webGlobal, dns.TypeA, minhang)
}

func (t *tour) why() {
	t.title("Why this address?")
	t.say(`'clusterset explain' shows which addresses a name has, and why, by the code that the DNS server itself uses.`)
	xicheng, minhang := t.web(t.xicheng), t.web(t.minhang)
	t.look("explain "+webGlobal+" --context shijiazhuang", answer(xicheng),
		line("+", "xicheng", "beijing", "north", "region", xicheng), line("-", "minhang", "shanghai", "south", "any", minhang),
		phase("xicheng", "Ready"), phase("minhang", "Ready"))
	t.say(`With a web of its own shijiazhuang needs neither.`)
	t.apply(t.shijiazhuang, "examples/demo/web.yaml")
	t.dig(t.shijiazhuang, webGlobal, dns.TypeA, t.web(t.shijiazhuang))
}

func (t *tour) standard() {
	t.title("The standard's names")
	t.say(`In clusterset.local the Multi-Cluster Services API wants one address per cluster, a ClusterSetIP, that stays as long as
		anyone exports the service. kube-proxy leads it to the nearest exporters' pods, so a client that never looks the name
		up again follows too. Each cluster has its own address for it.`)
	for _, m := range []*fleet.Member{t.xicheng, t.minhang} {
		t.dig(m, webSet, dns.TypeA, t.importedWeb(m))
	}
	t.dig(t.xicheng, "_http._tcp."+webSet, dns.TypeSRV, "0 100 80 "+webSet+".")
}

func (t *tour) headless() {
	t.title("Databases: headless services, pod by pod")
	t.say(`A headless Service is answered with its pods. shijiazhuang and minhang each run a database of two.`)
	t.apply(t.shijiazhuang, "examples/demo/db-shijiazhuang.yaml")
	t.apply(t.minhang, "examples/demo/db-minhang.yaml")
	near, far := t.db(t.shijiazhuang), t.db(t.minhang)
	t.say(`From xicheng, the database in its own region answers; each pod of any cluster has a name everywhere.`)
	t.dig(t.xicheng, dbSet, dns.TypeA, slices.Collect(maps.Values(near))...)
	t.dig(t.xicheng, "db-0.minhang."+dbSet, dns.TypeA, far["db-0"])
	t.dig(t.xicheng, "_pg._tcp."+dbSet, dns.TypeSRV, srv(near, "shijiazhuang", dbSet)...)
}

// srv returns the data of the SRV records for a cluster's pods.
func srv(pods map[string]string, cluster, name string) []string {
	var all []string
	for host := range pods {
		all = append(all, fmt.Sprintf("0 %d 5432 %s.%s.%s.", 100/len(pods), host, cluster, name))
	}
	return all
}

func (t *tour) drain() {
	t.title("Drain a cluster")
	t.say(`Before work on shijiazhuang its traffic is to go. One word to the hub does it, for all services at once: what it
		exports ranks behind everybody else's.`)
	near, far := t.db(t.shijiazhuang), t.db(t.minhang)
	t.clusterset("drain shijiazhuang --hub-context hub", line("shijiazhuang", "is", "drained:"))
	t.dig(t.xicheng, dbSet, dns.TypeA, slices.Collect(maps.Values(far))...)
	t.dig(t.shijiazhuang, webGlobal, dns.TypeA, t.web(t.xicheng))
	t.say(`Even its own clients go to xicheng, the nearest other. A pod asked for by its own name still answers, for there is no
		other.`)
	t.dig(t.xicheng, "db-0.shijiazhuang."+dbSet, dns.TypeA, near["db-0"])
	t.status("Ready, drained")
	t.clusterset("undrain shijiazhuang --hub-context hub", line("shijiazhuang", "is", "no", "longer", "drained:"))
	t.dig(t.xicheng, dbSet, dns.TypeA, slices.Collect(maps.Values(near))...)
}

func (t *tour) silent() {
	t.title("A cluster falls silent")
	t.say(`Now the power fails in shijiazhuang: its API server, its agent and its DNS server are killed. Usually a cluster that
		has sent no heartbeat for 40 seconds is Suspect, and after 5 minutes Expired. So that nobody has to wait, the hub
		process runs with '--suspect-after 6s' from here on.`)
	near, far := t.db(t.shijiazhuang), t.db(t.minhang)
	t.do(func() error { return t.restartHub("--suspect-after", "6s") })
	t.do(func() error { return powerCut(t.shijiazhuang) })
	t.status("Suspect")
	t.say(`A Suspect cluster may well be alive, with only its link to the hub down. So nothing of it is thrown away: it ranks last,
		as if drained, and serves what nobody else has.`)
	t.dig(t.xicheng, dbSet, dns.TypeA, slices.Collect(maps.Values(far))...)
	t.dig(t.xicheng, "db-0.shijiazhuang."+dbSet, dns.TypeA, near["db-0"])
	t.look("explain "+dbSet+" --context xicheng", answer(sorted(far)...), phase("shijiazhuang", "Suspect"), phase("minhang", "Ready"))
}

func (t *tour) gone() {
	t.title("It is given up")
	t.say(`After '--expire-after', here 10s, it is Expired, and its endpoints are not answered at all. The hub process was restarted
		for the new flag; it forgets nothing, and no name waits for it.`)
	t.do(func() error { return t.restartHub("--suspect-after", "6s", "--expire-after", "10s") })
	t.status("Expired")
	far := t.db(t.minhang)
	t.dig(t.xicheng, dbSet, dns.TypeA, slices.Collect(maps.Values(far))...)
	t.dig(t.xicheng, "db-0.shijiazhuang."+dbSet, dns.TypeA, "NXDOMAIN")
	t.look("explain "+dbSet+" --context xicheng", answer(sorted(far)...), phase("shijiazhuang", "Expired"), phase("minhang", "Ready"))
}

func (t *tour) back() {
	t.title("The power returns")
	t.say(`API server, agent and DNS server of shijiazhuang start again, and with the first heartbeat all is as it was. Nobody had to
		export anything again.`)
	t.do(func() error { return t.restartHub() })
	t.do(func() error { return powerOn(t.ctx, t.shijiazhuang) })
	near := t.db(t.shijiazhuang)
	t.dig(t.xicheng, dbSet, dns.TypeA, slices.Collect(maps.Values(near))...)
	t.dig(t.shijiazhuang, webGlobal, dns.TypeA, t.web(t.shijiazhuang))
	t.status("Ready")
}

// status shows the clusters once shijiazhuang is in the given phase and the others are Ready.
func (t *tour) status(shijiazhuang string) {
	t.look("status --context xicheng --hub-context hub",
		member("xicheng", "Ready", 1), member("shijiazhuang", shijiazhuang, 2), member("minhang", "Ready", 2), services("2 imported, 1 exported from here"), measured)
}

// restartHub restarts the hub process as kubectl rollout restart would, with other flags.
func (t *tour) restartHub(flags ...string) error {
	if code := t.hub.Process.Stop(); code != 0 {
		return fmt.Errorf("the hub process ended with exit code %d\n%s", code, process.LogSince(t.hub.Process.Log, 0, 20))
	}
	t.hub.Flags = flags
	return t.hub.Process.Start(t.ctx)
}

// powerCut ends all processes of a cluster at once.
func powerCut(m *fleet.Member) error {
	m.Agent.Kill()
	m.DNS.Kill()
	m.Plane.KillAPIServer()
	m.Plane.StopEtcd()
	return nil
}

// powerOn starts them again.
func powerOn(ctx context.Context, m *fleet.Member) error {
	for _, start := range []func(context.Context) error{m.Plane.StartEtcd, m.Plane.StartAPIServer, m.Agent.Start, m.DNS.Start} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func sorted(pods map[string]string) []string { return slices.Sorted(maps.Values(pods)) }
