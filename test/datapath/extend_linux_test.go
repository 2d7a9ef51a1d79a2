package datapath

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	away := func(to ...*pod) time.Duration {
		t.Helper()
		answered := s.onlyBy(own, slices.Concat(xicheng, to)...)
		took := time.Duration(0)
		for _, ready := range []bool{false, true} {
			then := map[bool][]*pod{false: to, true: xicheng}[ready]
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
	repeat(t, 20, time.Second, func() time.Duration { return away(chaoyang...) })

	s.exportsOnlyItsOwn("xicheng")
	s.exportsOnlyItsOwn("chaoyang")
	agent.Agent.Kill()
	repeat(t, 20, time.Second, func() time.Duration { return away(chaoyang...) })
	agent.startAgent(t)

	// It is killed while the others answer, and while nobody asks for them any more or not yet.
	xicheng.ready(false)
	s.publish()
	s.answeredBy(own, chaoyang...)
	agent.Agent.Kill()
	s.answeredBy(own, chaoyang...)
	xicheng.ready(true)
	s.publish()
	s.answeredBy(own, xicheng...)
	away(chaoyang...)
	s.annotate(agent, "false")
	away(chaoyang...) // nobody is there to take them off
	agent.startAgent(t)
	s.extending("xicheng")
	agent.Agent.Kill()
	s.annotate(agent, "true")
	s.answeredBy(own, xicheng...)
	agent.startAgent(t)
	s.extending("xicheng", chaoyang[0].v4)

	// One pod is enough, also for nodes of another zone, even if another cluster has one there.
	joined := agent.node(t, nodeSpec{"hebei", nftables})
	elsewhere := way{from: []*node{joined}, network: "tcp", port: 80, own: true}
	s.answeredBy(elsewhere, xicheng...)
	xicheng[0].notReady = true
	s.publish()
	s.answeredBy(elsewhere, xicheng[1])
	s.answeredBy(own, xicheng[1])
	xicheng[0].notReady = false
	s.publish()

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
	slices.Concat(xicheng, chaoyang, minhang).ready(true)
	s.publish()
	s.answeredBy(own, xicheng...)

	repeat(t, 20, time.Second, func() time.Duration {
		s.annotate(agent, "true")
		s.extending("xicheng", chaoyang[0].v4)
		began := time.Now()
		s.annotate(agent, "false")
		s.extending("xicheng")
		return time.Since(began).Round(10 * time.Millisecond)
	})
	xicheng.ready(false)
	s.publish()
	s.answeredBy(own)
	s.annotate(agent, "true")
	s.answeredBy(own, chaoyang...)
	if err := agent.Plane.DeleteContext(t.Context(), []byte("{apiVersion: v1, kind: Service, metadata: {namespace: "+s.namespace+", name: web}}")); err != nil {
		t.Fatal(err)
	}
	s.extending("xicheng")
}

// Other clusters that are silent, or can't be reached, are used after those that aren't and can. Rule D65.
func TestOwnNameAvoids(t *testing.T) {
	w := set(t)
	w.hurryHub(t)
	s := w.service(t, selected, "xicheng", "chaoyang", "minhang")
	xicheng, chaoyang, minhang := s.pods("xicheng", 1), s.pods("chaoyang", 1), s.pods("minhang", 1)
	xicheng.ready(false)
	s.publish()
	s.extend("xicheng")
	own := s.own("xicheng")
	s.answeredBy(own, chaoyang...)
	silent := w.cluster("chaoyang")
	t.Cleanup(func() { silent.startAgent(t) })
	silent.Agent.Kill()
	s.answeredBy(own, minhang...)
	silent.startAgent(t)
	s.answeredBy(own, chaoyang...)

	w.measure(t)
	w.reaches(t, "xicheng", "chaoyang", metav1.ConditionTrue)
	mend := w.network.rules(t, fmt.Sprintf("iifname { %s, %s } oifname %s drop", port(1, 1), port(1, 2), port(2, 1)))
	s.answeredBy(own, minhang...)
	mend()
	s.answeredBy(own, chaoyang...)
}

func (ps pods) with(more ...*pod) pods { return slices.Concat(ps, more) }

// A cluster that doesn't export the service can be extended too. With prefer none and min-ready, others are used besides the own pods. Rules
// D60 and D64.
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
	s.answeredBy(own, chaoyang.with(xicheng[1])...)
	xicheng[1].notReady = true
	s.publish()
	s.answeredBy(own, chaoyang.with(minhang...)...)
	xicheng.ready(true)
	s.publish()
	s.answeredBy(own, xicheng...)

	all := w.service(t, export{spec: selected.spec, annotations: `clusterset.dev/prefer: none`}, "xicheng", "minhang")
	here, there := all.pods("xicheng", 1), all.pods("minhang", 1)
	all.extend("xicheng")
	all.publish()
	all.answeredBy(all.own("xicheng"), here.with(there...)...)
}

// Two clusters that extend the same Service to each other's ClusterIPs, and both lose their pods while the hub is away, send a connection to
// and fro at most until its packets' time to live has ended. Rule D66.
func TestOwnNameGoesInNoCircle(t *testing.T) {
	w := set(t)
	s := w.service(t, selected, "xicheng", "chaoyang")
	xicheng, chaoyang := s.pods("xicheng", 1), s.pods("chaoyang", 1)
	s.publish()
	for _, c := range []string{"xicheng", "chaoyang"} {
		c := w.cluster(c)
		c.restartAgent(t, "--data-path", "clusterips")
		t.Cleanup(func() { c.restartAgent(t) })
	}
	s.extend("xicheng")
	s.extend("chaoyang")
	own := s.own("xicheng")
	toEachOther := func() {
		t.Helper()
		for from, to := range map[string]string{"xicheng": "chaoyang", "chaoyang": "xicheng"} {
			ips, err := s.addresses(w.cluster(to), true)
			if err != nil {
				t.Fatal(err)
			}
			s.extending(from, ips[0])
		}
	}
	toEachOther()
	s.answeredBy(own, xicheng...)
	xicheng.ready(false)
	s.publish()
	s.answeredBy(own, chaoyang...)
	chaoyang.ready(false)
	s.publish()
	s.answeredBy(own) // both know that the other has none

	// They had pods when they last heard of each other.
	slices.Concat(xicheng, chaoyang).ready(true)
	s.publish()
	s.answeredBy(own, xicheng...)
	s.answeredBy(s.own("chaoyang"), chaoyang...)
	toEachOther()
	s.inNoCircle(xicheng[0], chaoyang[0], func() func() {
		w.hub.Plane.KillAPIServer()
		t.Cleanup(func() { w.startHub(t) })
		return func() { w.startHub(t) }
	})
	s.answeredBy(own, xicheng...)
	s.answeredBy(s.own("chaoyang"), chaoyang...)
	toEachOther()
	// The same while one agent is down, which can't say that its pods are gone.
	s.inNoCircle(xicheng[0], chaoyang[0], func() func() {
		down := w.cluster("chaoyang")
		t.Cleanup(func() { down.startAgent(t) })
		down.Agent.Kill()
		return func() { down.startAgent(t) }
	})
	s.answeredBy(own, xicheng...)
	s.answeredBy(s.own("chaoyang"), chaoyang...)
	toEachOther()
	// Both start anew, while neither has a pod.
	for _, c := range []string{"xicheng", "chaoyang"} {
		w.cluster(c).Agent.Kill()
	}
	slices.Concat(xicheng, chaoyang).ready(false)
	s.publish()
	for _, c := range []string{"xicheng", "chaoyang"} {
		w.cluster(c).startAgent(t)
	}
	s.answeredBy(own)
	s.answeredBy(s.own("chaoyang"))
	slices.Concat(xicheng, chaoyang).ready(true)
	s.publish()
	s.answeredBy(own, xicheng...)
	s.exportsOnlyItsOwn("xicheng")
	s.exportsOnlyItsOwn("chaoyang")
}

// inNoCircle makes two pods of clusters that extend the service to each other unready while something keeps these from hearing of it, and
// counts the packets of a connection that nobody can answer. Then all is as before.
func (s *service) inNoCircle(xicheng, chaoyang *pod, silence func() (end func())) {
	t, w := s.T, s.w
	t.Helper()
	end := silence()
	pods{xicheng, chaoyang}.ready(false)
	s.publish()
	ips, err := s.addresses(w.cluster("xicheng"), true)
	if err != nil {
		t.Fatal(err)
	}
	node := w.cluster("xicheng").nodes[0]
	ask := func(i int) (got map[string]int, err error) { // "no route to host" is what the end of a packet's life is reported as
		return node.ask("tcp4", netip.AddrPortFrom(ips[0], 80), node.client(false, i), 1)
	}
	kube.Eventually(t, func() error { // kube-proxy in both clusters has the news
		if got, err := ask(252); got[xicheng.name]+got[chaoyang.name] > 0 {
			return fmt.Errorf("answered by %v, %w", got, err)
		}
		return nil
	})
	uncount := w.network.rules(t, "meta l4proto tcp counter")
	began := time.Now()
	got, askErr := ask(253)
	packets := w.network.counted(t, "broken")[0]
	t.Logf("a connection that nobody could answer (%v, %v, after %s) took %d packets between clusters", got, askErr, time.Since(began).Round(time.Millisecond), packets)
	// A SYN is sent at most four times in five seconds, and each lives for 64 hops, of which a third are at the router.
	if packets > 4*64 {
		t.Errorf("%d packets were forwarded for one connection", packets)
	}
	uncount()
	pods{xicheng, chaoyang}.ready(true)
	s.publish()
	end()
}
