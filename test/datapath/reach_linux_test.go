package datapath

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// The path between two clusters breaks, in each way that paths break, while both still reach the hub. Within six seconds the affected cluster
// has left the other, by address and by name; a third goes on using it, and all is as before once the path is back. Rules D40 to D50 of
// docs/spec/data-path.md.
func TestPathBetweenClusters(t *testing.T) {
	w := set(t)
	w.measure(t)
	s := w.service(t, export{annotations: `clusterset.dev/prefer: none`}, "chaoyang", "minhang")
	chaoyang, minhang := s.pods("chaoyang", 2), s.pods("minhang", 1)
	s.publish()
	both := slices.Concat(chaoyang, minhang)
	dns := newRollout(s).start()
	xicheng := w.cluster("xicheng")
	var named []netip.Addr // svc.global has the ClusterIPs of the exporting clusters
	for _, c := range []string{"chaoyang", "minhang"} {
		ips, err := s.addresses(w.cluster(c), true)
		if err != nil {
			t.Fatal(err)
		}
		named = append(named, ips[0])
	}
	here, there := fmt.Sprintf("{ %s, %s }", port(1, 1), port(1, 2)), port(2, 1)
	nft := func(rules string) func(*testing.T) func() {
		return func(t *testing.T) func() {
			t.Helper()
			return w.network.rules(t, strings.NewReplacer("HERE", here, "THERE", there).Replace(rules))
		}
	}
	breaks := []struct {
		name   string
		breaks func(*testing.T) (mend func())
	}{
		{"cut both ways", nft("iifname HERE oifname THERE drop\niifname THERE oifname HERE drop")},
		{"refused", nft("iifname HERE oifname THERE meta l4proto tcp reject with tcp reset")},
		{"two seconds late", func(t *testing.T) func() { return w.network.delay(t, xicheng, w.cluster("chaoyang"), 2*time.Second) }},
		{"only the answers", nft("iifname THERE oifname HERE drop")},
		{"only large packets are lost", nft("iifname THERE oifname HERE meta length > 1000 drop")},
		{"only the way there, and only connections", nft("iifname HERE oifname THERE tcp flags & (syn|ack) == syn drop")},
	}
	if !atLength() {
		breaks = breaks[:3]
	}
	for i, c := range breaks {
		t.Run(c.name, func(t *testing.T) {
			s := *s
			s.T = t
			repeat(t, 10, 6*time.Second, func() time.Duration {
				w.forgetReach(t, "xicheng") // each return takes twice as long as the one before (D50)
				w.reaches(t, "xicheng", "chaoyang", metav1.ConditionTrue)
				s.answered("xicheng", both...)
				kube.Eventually(t, func() error {
					if got, err := dns.addresses("web." + s.namespace + ".svc.global."); !slices.Equal(got, named) {
						return fmt.Errorf("the name has %v (%w), want %v", got, err, named)
					}
					return nil
				})
				bystander := s.only("minhang", both...)
				connections := s.use(s.connections(way{from: xicheng.nodes, network: "tcp", port: 80}, minhang...)...)
				names := s.use(s.questions(dns, named[1]))
				began := time.Now()
				mend := c.breaks(t)
				byName, byAddress := names.last(began), connections.last(began)
				t.Logf("xicheng left chaoyang after %s, by name after %s", byAddress, byName)
				s.answered("xicheng", minhang...)
				w.reaches(t, "xicheng", "chaoyang", metav1.ConditionFalse)
				w.reaches(t, "xicheng", "minhang", metav1.ConditionTrue)
				w.reaches(t, "minhang", "chaoyang", metav1.ConditionTrue)
				bystander()
				if err := phaseIs(w.hub.Cluster, "chaoyang", clustersetv1alpha1.MemberReady); err != nil {
					t.Error(err)
				}
				began = time.Now()
				mend()
				if i > 0 && !atLength() {
					return max(byName, byAddress) // the delay of a return is the same for all
				}
				s.answered("xicheng", both...)
				t.Logf("and uses it again after %s", time.Since(began).Round(100*time.Millisecond))
				return max(byName, byAddress)
			})
		})
	}
}

// An agent that is cut off, or dead, changes nothing (D47, D51): neither of these says anything about the others.
func TestAgentThatReachesNobody(t *testing.T) {
	w := set(t)
	w.measure(t)
	s := w.service(t, export{annotations: `clusterset.dev/prefer: none`}, "chaoyang", "minhang")
	both := slices.Concat(s.pods("chaoyang", 1), s.pods("minhang", 1))
	s.publish()
	for _, c := range []string{"chaoyang", "minhang"} {
		w.reaches(t, "xicheng", c, metav1.ConditionTrue)
	}
	s.answered("xicheng", both...)
	// Only what the agent dials is cut off: connections to the service show what changes.
	mend := w.network.rules(t, "iifname "+port(1, 1)+" tcp dport 9471 drop")
	kube.Eventually(t, func() error {
		for _, c := range w.verdicts(t, "xicheng").Clusters {
			if c.Reason != "AllUnreachable" {
				return fmt.Errorf("%+v", c)
			}
		}
		return nil
	})
	s.answered("xicheng", both...)
	mend()
	kube.Eventually(t, func() error {
		for _, c := range w.verdicts(t, "xicheng").Clusters {
			if c.Reason != "Answers" {
				return fmt.Errorf("%+v", c)
			}
		}
		return nil
	})
	w.cluster("xicheng").Agent.Kill()
	was := w.verdicts(t, "xicheng")
	s.answered("xicheng", both...)
	if now := w.verdicts(t, "xicheng"); !now.Stamp.Equal(&was.Stamp) {
		t.Error("a dead agent has written")
	}
	w.cluster("xicheng").startAgent(t)

	// It dies while it can't reach one: that one is avoided as long as the verdict counts, also when the path is back.
	mend = w.network.rules(t, "iifname "+port(1, 1)+" oifname "+port(2, 1)+" drop")
	w.reaches(t, "xicheng", "chaoyang", metav1.ConditionFalse)
	s.answered("xicheng", s.all[1])
	w.cluster("xicheng").Agent.Kill()
	was = w.verdicts(t, "xicheng")
	mend()
	stays := s.only("xicheng", s.all[1])
	status, err := w.bin.Command(t.Context(), w.dir, "status", "--kubeconfig", w.cluster("xicheng").Plane.Kubeconfig()).CombinedOutput()
	if !regexp.MustCompile(`(?m)^chaoyang .* NO, for \d+s`).Match(status) {
		t.Errorf("status doesn't show for how long chaoyang can't be reached (%v):\n%s", err, status)
	}
	stays()
	s.answered("xicheng", s.all[1])
	if now := w.verdicts(t, "xicheng"); !now.Stamp.Equal(&was.Stamp) {
		t.Error("a dead agent has written")
	}
	w.cluster("xicheng").startAgent(t)
	s.answered("xicheng", both...)
}

// Agents are replaced as a Deployment does it: the new one runs before the old one is told to stop, which then answers for a while longer, and
// the new one has another address. No verdict changes, whether or not a hub process runs. Rules D41 to D43 and D51.
func TestRolledAgents(t *testing.T) {
	w := set(t)
	w.measure(t, "--beacon-linger", "12s") // an agent on a busy machine may take seconds to lead and state its beacon
	verdicts := func() (all []string) {
		for _, c := range w.clusters {
			for _, v := range w.verdicts(t, c.Name).Clusters {
				all = append(all, fmt.Sprintf("%s of %s: %s, since %s", c.Name, v.Name, v.Reachable, v.Since.UTC().Format(time.TimeOnly)))
			}
		}
		return all
	}
	rolled := func() error {
		for _, c := range w.clusters {
			for _, other := range w.clusters {
				if other != c {
					w.reaches(t, c.Name, other.Name, metav1.ConditionTrue)
				}
			}
		}
		before := verdicts()
		for _, c := range w.clusters {
			rules := ""
			for _, other := range w.clusters {
				if other != c {
					rules += fmt.Sprintf("iifname %s ip daddr %s tcp dport 9471 counter\n", port(other.number, 1), pod4(c.number, 1, c.beacon+1))
				}
			}
			uncount := w.network.rules(t, rules)
			c.roll(t)
			kube.Eventually(t, func() error { // of eight connections, which is longer than a verdict takes
				for _, packets := range w.network.counted(t, "broken") {
					if packets < 40 {
						return fmt.Errorf("another cluster has sent %d packets to the new beacon of %s", packets, c.Name)
					}
				}
				return nil
			})
			uncount()
		}
		if after := verdicts(); !slices.Equal(after, before) {
			return fmt.Errorf("the verdicts were %q, and are %q", before, after)
		}
		return nil
	}
	for _, hub := range []bool{true, false} {
		if hub && !atLength() {
			continue // without a hub process it is harder
		}
		if !hub {
			w.hub.Process.Stop()
			t.Cleanup(func() {
				if err := w.hub.Process.Start(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		err := rolled()
		for range 2 { // a second in which nobody gets to compute makes an agent that doesn't answer (see repeat)
			if err == nil || atLength() {
				break
			}
			t.Log(err)
			err = rolled()
		}
		if err != nil {
			t.Errorf("hub process %t: %v", hub, err)
		}
	}
}

// roll replaces the cluster's agent by one whose beacon is at another address.
func (c *cluster) roll(t *testing.T) {
	t.Helper()
	old, next := c.Agent, c.Replica("next agent")
	next.AgentFlags = c.AgentFlags
	c.beacon++
	c.measured(next)
	c.Agent = next.Agent
	c.startAgent(t)
	old.Stop()
}

// beaconAddress is that of the cluster's agent, of the first node's pods.
func (c *cluster) beaconAddress() string {
	return netip.AddrPortFrom(pod4(c.number, 1, c.beacon), 9471).String()
}

// measured makes an agent run on the cluster's first node, with a beacon.
func (c *cluster) measured(m *fleet.Member) {
	first, path, args, beacon := c.nodes[0], m.Agent.Path, m.Agent.Args, c.beaconAddress()
	m.Agent.Path = c.nsenter
	m.Agent.Args = func() ([]string, error) {
		usual, err := args()
		return slices.Concat([]string{"--net=" + first.ns.path(), "--", path}, usual, []string{"--beacon-addresses", beacon, "--beacon-bind-address", beacon}), err
	}
	m.Agent.Up = func(ctx context.Context) error { return first.get(ctx, "http://"+m.Metrics.Addr+"/metrics") }
}

// measure moves the agents to the clusters' first nodes, with beacons, until the end of the test.
func (w *world) measure(t *testing.T, flags ...string) {
	t.Helper()
	for _, c := range w.clusters {
		stop, err := c.nodes[0].forwardTo(w.hub.Plane.URL())
		if err != nil {
			t.Fatal(err)
		}
		agent := c.Agent
		agent.Stop()
		path, args, up := agent.Path, agent.Args, agent.Up
		t.Cleanup(func() {
			c.Agent.Stop()
			agent.Path, agent.Args, agent.Up = path, args, up
			c.Agent, c.AgentFlags = agent, nil
			c.startAgent(t)
			stop()
			_ = c.Client.Delete(context.Background(), &clustersetv1alpha1.Reachability{ObjectMeta: metav1.ObjectMeta{Name: clustersetv1alpha1.ReachabilityName}})
		})
		c.beacon, c.AgentFlags = 180, flags
		c.measured(c.Member)
		c.startAgent(t)
	}
}

func (w *world) verdicts(t testing.TB, of string) *clustersetv1alpha1.Reachability {
	t.Helper()
	o := &clustersetv1alpha1.Reachability{}
	key := client.ObjectKey{Name: clustersetv1alpha1.ReachabilityName}
	if err := client.IgnoreNotFound(w.cluster(of).Client.Get(context.Background(), key, o)); err != nil {
		t.Fatal(err)
	}
	return o
}

// reaches waits until a cluster's agent says that it reaches another, or doesn't.
func (w *world) reaches(t testing.TB, from, to string, want metav1.ConditionStatus) {
	t.Helper()
	kube.Eventually(t, func() error {
		all := w.verdicts(t, from).Clusters
		for _, c := range all {
			if c.Name == to && c.Reachable == want {
				return nil
			}
		}
		return fmt.Errorf("%s says %+v, want %s to be %s", from, all, to, want)
	})
}

func (p pods) err(s *service, from string) error {
	return s.isAnswered(way{from: s.w.cluster(from).nodes[:1], network: "tcp4", port: 80}, p)
}

// rules makes the router apply rules to what it forwards, until the returned function is called or the test ends.
func (w *network) rules(t testing.TB, rules string) (remove func()) {
	t.Helper()
	commands := "nft add table inet broken\nnft add chain inet broken pass { type filter hook forward priority 0 ; }\n"
	for rule := range strings.Lines(rules) {
		commands += "nft add rule inet broken pass " + strings.TrimSpace(rule) + "\n"
	}
	if err := w.router.run(commands); err != nil {
		t.Fatal(err)
	}
	removed := false
	remove = func() {
		if removed {
			return
		}
		removed = true
		if err := w.router.run("nft delete table inet broken"); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(remove)
	return remove
}

var counter = regexp.MustCompile(`packets (\d+)`)

// counted returns what the counters among the rules of a table have counted.
func (w *network) counted(t testing.TB, table string) (packets []int) {
	t.Helper()
	var out []byte
	if err := w.router.do(func() (err error) {
		out, err = exec.CommandContext(t.Context(), "nft", "list", "table", "inet", table).CombinedOutput()
		return err
	}); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, match := range counter.FindAllSubmatch(out, -1) {
		n, err := strconv.Atoi(string(match[1]))
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, n)
	}
	if len(packets) == 0 {
		t.Fatalf("no counter in %s", out)
	}
	return packets
}

// A cluster dies: all of its nodes lose power at once, its agent with them. Connections to it fail until the others have noticed that, by
// themselves, long before the hub suspects it. Rules D45 and D47.
func TestDeadClusterIsLeft(t *testing.T) {
	w := set(t)
	w.measure(t)
	uses := []struct{ name, annotations string }{
		{"used like the others", "clusterset.dev/prefer: none"},
		{"the nearest", ""},
	}
	if !atLength() {
		uses = uses[:1]
	}
	for _, c := range uses {
		t.Run(c.name, func(t *testing.T) {
			s := w.service(t, export{annotations: c.annotations}, "chaoyang", "minhang")
			near, far, from := s.pods("chaoyang", 2), s.pods("minhang", 1), way{from: w.cluster("xicheng").nodes[:1], network: "tcp4", port: 80}
			repeat(t, 10, 6*time.Second, func() time.Duration {
				w.forgetReach(t, "xicheng")
				w.reaches(t, "xicheng", "chaoyang", metav1.ConditionTrue)
				others := far
				if c.annotations == "" {
					others = nil
				}
				for _, one := range []bool{true, false} { // which shows that the agent is at work again
					near[0].notReady = one
					s.publish()
					s.answeredBy(from, others.with(near[map[bool]int{true: 1}[one]:]...)...)
				}
				connections := s.use(s.connections(from, near.with(far...)...)...)
				died := time.Now()
				w.cluster("chaoyang").die(t)
				took := connections.last(died)
				if err := far.err(s, "xicheng"); err != nil {
					t.Error(err)
				}
				if err := phaseIs(w.hub.Cluster, "chaoyang", clustersetv1alpha1.MemberReady); err != nil {
					t.Errorf("the hub noticed it first: %v", err)
				}
				w.cluster("chaoyang").reconnect(t)
				w.cluster("chaoyang").startAgent(t)
				return took
			})
		})
	}
}

// forgetReach makes a cluster's agent measure anew: the delay after a return grows with each (D50).
func (w *world) forgetReach(t *testing.T, cluster string) {
	t.Helper()
	c := w.cluster(cluster)
	c.Agent.Stop()
	o := &clustersetv1alpha1.Reachability{ObjectMeta: metav1.ObjectMeta{Name: clustersetv1alpha1.ReachabilityName}}
	if err := client.IgnoreNotFound(c.Client.Delete(t.Context(), o)); err != nil {
		t.Fatal(err)
	}
	c.startAgent(t)
}
