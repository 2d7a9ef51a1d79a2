package datapath

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// selected is an export of a Service that can be extended.
var selected = export{spec: "selector: {app: web}"}

// extend makes a cluster extend its own Service.
func (s *service) extend(cluster string) {
	s.Helper()
	c := s.w.cluster(cluster)
	if s.exporters[c] == nil {
		s.apply(c, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: web}, spec: {ports: [{name: http, port: 80, targetPort: %d}], ipFamilyPolicy: PreferDualStack, selector: {app: web}}}`,
			s.namespace, targetPort))
	}
	s.apply(c, "{apiVersion: v1, kind: Namespace, metadata: {name: "+s.namespace+", labels: {clusterset.dev/extend: allowed}}}")
	s.annotate(c, "true")
}

// annotate sets what the cluster's Service says about being extended.
func (s *service) annotate(c *cluster, extend string) {
	s.Helper()
	svc := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.KeyExtend, extend)
	if err := c.Client.Patch(s.Context(), svc, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		s.Fatal(err)
	}
}

// own is how a cluster's clients ask its own Service.
func (s *service) own(cluster string) way {
	return way{from: s.w.cluster(cluster).nodes, network: "tcp", port: 80, own: true}
}

// extending waits until a cluster's own Service leads to these IPv4 addresses in others besides, and to no other.
func (s *service) extending(cluster string, to ...netip.Addr) {
	s.Helper()
	kube.Eventually(s, func() error {
		var all discoveryv1.EndpointSliceList
		if err := s.w.cluster(cluster).Client.List(context.Background(), &all, client.InNamespace(s.namespace), client.HasLabels{api.LabelExtends}); err != nil {
			return err
		}
		var got []netip.Addr
		for _, slice := range all.Items {
			for _, e := range slice.Endpoints {
				if addr := netip.MustParseAddr(e.Addresses[0]); addr.Is4() {
					got = append(got, addr)
				}
			}
		}
		if !slices.Equal(got, to) || len(to) == 0 && len(all.Items) > 0 {
			return fmt.Errorf("%s has %d slices that extend web, to %v, want %v", cluster, len(all.Items), got, to)
		}
		return nil
	})
}

// exportsOnlyItsOwn fails the test if a cluster has exported another's endpoints (D67).
func (s *service) exportsOnlyItsOwn(cluster string) {
	s.Helper()
	c := s.w.cluster(cluster)
	var all clustersetv1alpha1.ExportedEndpointsList
	if err := s.w.hub.Client.List(s.Context(), &all, client.InNamespace(api.MemberNamespace(cluster))); err != nil {
		s.Fatal(err)
	}
	own, found := []netip.Prefix{netip.MustParsePrefix(clusterPods4(c.number)), netip.MustParsePrefix(clusterPods6(c.number))}, 0
	for _, e := range all.Items {
		for _, at := range e.Spec.Endpoints {
			addr := netip.MustParseAddr(at.Addresses[0])
			found++
			if !slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Contains(addr) }) {
				s.Errorf("%s exports %s in %s", cluster, addr, e.Name)
			}
		}
	}
	if found == 0 {
		s.Errorf("%s exports nothing", cluster)
	}
}

// Clients of a Service that know nothing of other clusters reach these while no pod of its own is ready, also while the agent is dead, and
// come back. Rules D60, D65, D67 and D69 of docs/spec/data-path.md.
func TestOwnName(t *testing.T) {
	w := set(t)
	s := w.service(t, selected, "xicheng", "chaoyang", "minhang")
	xicheng, chaoyang, minhang := s.pods("xicheng", 2), s.pods("chaoyang", 1), s.pods("minhang", 1)
	s.publish()
	s.extend("xicheng")
	s.extend("chaoyang")
	s.extending("xicheng", chaoyang[0].v4)
	own, agent := s.own("xicheng"), w.cluster("xicheng")
	t.Cleanup(func() { agent.startAgent(t) })
	s.answeredBy(own, xicheng...)

	// away makes the own pods unready and ready again, and returns how long clients went on reaching what they shouldn't.
	away := func() (took time.Duration) {
		t.Helper()
		answered := s.onlyBy(own, slices.Concat(xicheng, chaoyang)...)
		for _, ready := range []bool{false, true} {
			then := map[bool]pods{false: chaoyang, true: xicheng}[ready]
			connections := s.use(s.connections(own, then...)...)
			xicheng.ready(ready)
			began := time.Now()
			s.publishOf(agent)
			took = max(took, connections.last(began))
			s.answeredBy(own, then...)
		}
		answered()
		return took
	}
	repeat(t, 20, time.Second, away)
	s.exportsOnlyItsOwn("xicheng")
	s.exportsOnlyItsOwn("chaoyang")
	agent.Agent.Kill()
	repeat(t, 20, time.Second, away)
	agent.startAgent(t)

	// One pod is enough, also for nodes of another zone, even if another cluster has one there.
	joined := agent.node(t, nodeSpec{"hebei", nftables})
	elsewhere := way{from: []*node{joined}, network: "tcp", port: 80, own: true}
	xicheng[0].notReady = true
	s.publish()
	s.answeredBy(elsewhere, xicheng[1])
	s.answeredBy(own, xicheng[1])

	s.drain("chaoyang")
	xicheng.ready(false)
	s.publish()
	s.answeredBy(own, minhang...)
	minhang.ready(false)
	s.publish()
	s.answeredBy(own, chaoyang...) // drained is better than nothing
	s.undrain("chaoyang")
	chaoyang.ready(false)
	s.publish()
	s.answeredBy(own) // and nothing isn't asked in a circle
	chaoyang.ready(true)
	s.publish()
	s.answeredBy(own, chaoyang...)
	s.annotate(agent, "false")
	s.extending("xicheng")
	s.answeredBy(own)
}

// A cluster that doesn't export the service can be extended too. With min-ready, others are used besides the own pods. Rules D60 and D64.
func TestOwnNameSharesTraffic(t *testing.T) {
	w := set(t)
	s := w.service(t, export{spec: selected.spec, annotations: `clusterset.dev/min-ready: "2"`}, "chaoyang", "minhang")
	chaoyang, minhang := s.pods("chaoyang", 1), s.pods("minhang", 1)
	s.extend("xicheng")
	s.exporters[w.cluster("xicheng")] = []servicePort{httpPort} // publish writes its slices too
	xicheng := s.pods("xicheng", 2)
	s.publish()
	own := s.own("xicheng")
	s.answeredBy(own, xicheng...)
	xicheng[0].notReady = true
	s.publish()
	s.answeredBy(own, xicheng[1], chaoyang[0])
	xicheng[1].notReady = true
	s.publish()
	s.answeredBy(own, chaoyang[0], minhang[0])
	xicheng.ready(true)
	s.publish()
	s.answeredBy(own, xicheng...)
}

// A cluster without the Service has one under its name, which leads where the ClusterSetIP leads and is never exported, and which somebody may take.
// Rules D66, D67, D70 and D71.
func TestOwnNameWithoutAService(t *testing.T) {
	w := set(t)
	s := w.service(t, selected, "chaoyang", "minhang")
	chaoyang, minhang := s.pods("chaoyang", 1), s.pods("minhang", 1)
	s.publish()
	c, own := w.cluster("xicheng"), s.own("xicheng")
	s.apply(c, "{apiVersion: v1, kind: Namespace, metadata: {name: "+s.namespace+", labels: {clusterset.dev/own-names: create, clusterset.dev/extend: allowed}}}")
	s.answeredBy(own, chaoyang...)
	s.answeredBy(way{from: c.nodes, network: "udp", port: 80, own: true}, chaoyang...)
	s.drain("chaoyang")
	s.answeredBy(own, minhang...)
	s.undrain("chaoyang")
	s.answeredBy(own, chaoyang...)
	chaoyang.ready(false)
	s.publish()
	s.answeredBy(own, minhang...)

	t.Cleanup(func() { c.restartAgent(t) })
	c.Agent.Kill()
	s.answeredBy(own, minhang...)
	chaoyang.ready(true)
	s.publish()
	c.AgentFlags = []string{"--data-path", "clusterips"}
	c.startAgent(t)
	s.answeredBy(own, chaoyang...)
	export := "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {namespace: " + s.namespace + ", name: web}}"
	s.apply(c, export)
	t.Cleanup(func() { _ = c.Plane.DeleteContext(context.Background(), []byte(export)) }) // or the API server is gone
	kube.Eventually(t, func() error {
		is := &mcsv1beta1.ServiceExport{}
		if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "web"}, is); err != nil {
			return err
		}
		if valid := meta.FindStatusCondition(is.Status.Conditions, "Valid"); valid == nil || !strings.Contains(valid.Message, "belongs to an import") {
			return fmt.Errorf("the ServiceExport says %+v", is.Status)
		}
		return nil
	})
	s.extend("chaoyang")
	s.extending("chaoyang", minhang[0].v4) // and not to xicheng, which leads to chaoyang
	for _, p := range []pods{chaoyang, minhang} {
		p.ready(false)
		s.publish()
	}
	s.answeredBy(own)
	chaoyang.ready(true)
	s.publish()
	s.answeredBy(own, chaoyang...)

	s.extend("xicheng")
	s.exporters[c] = []servicePort{httpPort} // publish writes its slices too
	xicheng := s.pods("xicheng", 2)
	s.publish()
	s.answeredBy(own, xicheng...)
	xicheng.ready(false)
	s.publish()
	s.answeredBy(own, chaoyang...)
}

// Two clusters that extend the same Service to each other's ClusterIPs, and both lose their pods while the hub is away, send a connection to
// and fro at most until its packets' time to live has ended. Rule D66.
func TestOwnNameGoesInNoCircle(t *testing.T) {
	w := set(t)
	s := w.service(t, selected, "xicheng", "chaoyang")
	xicheng, chaoyang := s.pods("xicheng", 1), s.pods("chaoyang", 1)
	both := slices.Concat(xicheng, chaoyang)
	s.publish()
	var ips []netip.Addr
	for _, name := range []string{"xicheng", "chaoyang"} {
		c := w.cluster(name)
		c.restartAgent(t, "--data-path", "clusterips")
		t.Cleanup(func() { c.restartAgent(t) })
		s.extend(name)
		of, err := s.addresses(c, true)
		if err != nil {
			t.Fatal(err)
		}
		ips = append(ips, of[0])
	}
	own := s.own("xicheng")
	s.extending("xicheng", ips[1])
	s.extending("chaoyang", ips[0])
	s.answeredBy(own, xicheng...)
	xicheng.ready(false)
	s.publish()
	s.answeredBy(own, chaoyang...)
	chaoyang.ready(false)
	s.publish()
	s.answeredBy(own) // both know that the other has none
	both.ready(true)
	s.publish()
	s.extending("xicheng", ips[1])
	s.extending("chaoyang", ips[0])
	s.answeredBy(own, xicheng...)
	s.answeredBy(s.own("chaoyang"), chaoyang...)

	// They had pods when they last heard of each other.
	w.hub.Plane.KillAPIServer()
	t.Cleanup(func() { w.startHub(t) })
	both.ready(false)
	s.publish()
	node := w.cluster("xicheng").nodes[0]
	ask := func(i int) (map[string]int, error) { // "no route to host" is what the end of a packet's life is reported as
		return node.ask("tcp4", netip.AddrPortFrom(ips[0], 80), node.client(false, i), 1)
	}
	kube.Eventually(t, func() error { // kube-proxy in both clusters has the news
		if got, err := ask(252); got[xicheng[0].name]+got[chaoyang[0].name] > 0 {
			return fmt.Errorf("answered by %v, %w", got, err)
		}
		return nil
	})
	uncount := w.network.filter(t, "counting", "meta l4proto tcp counter")
	got, askErr := ask(253)
	packets := w.network.counted(t, "counting")
	t.Logf("a connection that nobody could answer (%v, %v) took %d packets between clusters", got, askErr, packets)
	// A SYN is sent at most four times in five seconds, and each lives for 64 hops, of which a third are at the router.
	if packets > 4*64 {
		t.Errorf("%d packets were forwarded for one connection", packets)
	}
	uncount()
	both.ready(true)
	s.publish()
	w.startHub(t)
	s.answeredBy(own, xicheng...)
	s.answeredBy(s.own("chaoyang"), chaoyang...)
}

// counted returns what the counter in a table of the router has counted.
func (w *network) counted(t testing.TB, table string) (packets int) {
	t.Helper()
	var out []byte
	if err := w.router.do(func() (err error) {
		out, err = exec.CommandContext(t.Context(), "nft", "list", "table", "inet", table).CombinedOutput()
		return err
	}); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, counter, _ := strings.Cut(string(out), "counter packets ")
	if _, err := fmt.Sscan(counter, &packets); err != nil {
		t.Fatalf("no counter in %s: %v", out, err)
	}
	return packets
}
