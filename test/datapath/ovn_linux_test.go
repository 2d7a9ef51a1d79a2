package datapath

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// Where hints aren't read, drained and Suspect clusters are used like others, unless the agent steers by labels, which it does as soon as it finds out.
// Rules D22 to D24 and D30 of docs/spec/data-path.md.
func TestWhereHintsAreNotRead(t *testing.T) {
	w := set(t)
	w.hurryHub(t)
	here, dead := w.cluster("xicheng"), w.cluster("chaoyang")
	t.Cleanup(func() { here.restartAgent(t) }) // once the node is gone
	kubeProxies := way{from: slices.Clone(here.nodes), network: "tcp", port: 80}
	blind := way{from: []*node{here.node(t, nodeSpec{"beijing", ovn})}, network: "tcp", port: 80}
	s := w.service(t, export{}, "chaoyang", "minhang")
	near, far := s.pods("chaoyang", 2), s.pods("minhang", 1)
	s.publish()
	bounded := w.service(t, export{annotations: "clusterset.dev/boundary: region"}, "chaoyang", "minhang")
	inside := bounded.pods("chaoyang", 1)
	bounded.pods("minhang", 1)
	bounded.publish()

	here.restartAgent(t, "--steer", "hints")
	s.drain("chaoyang")
	s.answeredBy(kubeProxies, far...)
	s.answeredBy(blind, slices.Concat(near, far)...)

	here.restartAgent(t)
	s.answered("xicheng", far...)
	kube.Eventually(t, func() error {
		var own clustersetv1alpha1.MemberCluster
		err := here.Client.Get(t.Context(), client.ObjectKey{Name: here.Name}, &own)
		c := meta.FindStatusCondition(own.Status.Conditions, clustersetv1alpha1.ConditionSteered)
		if err == nil && (c == nil || c.Reason != clustersetv1alpha1.ReasonLabels || !strings.Contains(c.Message, "OVN-Kubernetes")) {
			return fmt.Errorf("the condition is %+v", c)
		}
		return err
	})
	s.undrain("chaoyang")
	s.answered("xicheng", near...)
	s.answeredBy(way{from: here.nodes, network: "udp", port: 80}, near...)
	bounded.answered("xicheng", inside...)
	inside.ready(false)
	bounded.publish()
	bounded.answered("xicheng") // what is beyond the boundary is hidden

	dead.die(t)
	for _, phase := range []clustersetv1alpha1.MemberClusterPhase{clustersetv1alpha1.MemberSuspect, clustersetv1alpha1.MemberExpired} {
		w.eventuallyPhase(t, dead, phase)
		s.answered("xicheng", far...)
	}
	dead.reconnect()
	dead.startAgent(t)
	w.eventuallyPhase(t, dead, clustersetv1alpha1.MemberReady)
	s.answered("xicheng", near...)
}

// ovn is the mode of a node without kube-proxy, on which a stand-in chooses endpoints as OVN-Kubernetes 1.3.0 does: of slices with a Service's label and
// without that of headless ones (withServiceNameAndNoHeadlessServiceSelector in go-controller/pkg/factory/factory.go), those with the lowest target port
// (GetEndpointsForService in pkg/util/util.go); the ready ones or, if there are none, those that serve while they terminate, all alike
// (getSelectedEligibleEndpoints in pkg/util/kube.go). It doesn't read hints.
const ovn mode = "OVN-Kubernetes"

// standIn runs the stand-in until the returned function is called.
func (n *node) standIn() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		file, has := filepath.Join(n.cluster.dir, n.name+".nft"), ""
		for pace := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; {
			if rules, err := n.ovnRules(ctx); err == nil && rules != has {
				if os.WriteFile(file, []byte(rules), 0o600) == nil && n.ns.run("nft -f "+file) == nil {
					has = rules
				}
			}
			select {
			case <-ctx.Done():
			case <-pace.C:
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// ovnRules returns nftables rules that translate the ClusterIPs of all Services, and refuse connections to those without an endpoint.
func (n *node) ovnRules(ctx context.Context) (string, error) {
	selector, err := labels.Parse("kubernetes.io/service-name,kubernetes.io/service-name!=,!service.kubernetes.io/headless")
	if err != nil {
		return "", err
	}
	var services corev1.ServiceList
	var all discoveryv1.EndpointSliceList
	if err := n.cluster.Client.List(ctx, &all, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return "", err
	}
	if err := n.cluster.Client.List(ctx, &services); err != nil {
		return "", err
	}
	var choose, refuse strings.Builder
	for i := range services.Items {
		svc := &services.Items[i]
		for _, port := range svc.Spec.Ports {
			behind := ovnBehind(all.Items, svc, port)
			for _, ip := range svc.Spec.ClusterIPs {
				vip, err := netip.ParseAddr(ip)
				if err != nil {
					continue // a headless Service
				}
				family := map[bool]string{true: "ip6", false: "ip"}[vip.Is6()]
				match := fmt.Sprintf("%s daddr %s %s dport %d", family, vip, strings.ToLower(string(port.Protocol)), port.Port)
				to := slices.DeleteFunc(slices.Clone(behind), func(a netip.AddrPort) bool { return a.Addr().Is6() != vip.Is6() })
				for left := len(to); left > 0; left-- {
					share := ""
					if left > 1 {
						share = fmt.Sprintf("numgen random mod %d == 0 ", left)
					}
					fmt.Fprintf(&choose, "%s %sdnat %s to %s\n", match, share, family, to[left-1])
				}
				fmt.Fprintf(&refuse, "%s reject\n", match)
			}
		}
	}
	return fmt.Sprintf(`table inet ovn
delete table inet ovn
table inet ovn {
chain choose {
%s}
chain output { type nat hook output priority -100; jump choose; }
chain prerouting { type nat hook prerouting priority -100; jump choose; }
chain refuse { type filter hook output priority 0;
%s}
}
`, &choose, &refuse), nil
}

// ovnBehind returns the endpoints that are used for a port of a Service.
func ovnBehind(all []discoveryv1.EndpointSlice, svc *corev1.Service, port corev1.ServicePort) (used []netip.AddrPort) {
	byTarget := map[int32][]discoveryv1.Endpoint{}
	for _, s := range all {
		for _, p := range s.Ports {
			if s.Namespace == svc.Namespace && s.Labels[discoveryv1.LabelServiceName] == svc.Name && *p.Name == port.Name && *p.Protocol == port.Protocol {
				byTarget[*p.Port] = append(byTarget[*p.Port], s.Endpoints...)
			}
		}
	}
	if len(byTarget) == 0 {
		return nil
	}
	target := slices.Min(slices.Collect(maps.Keys(byTarget)))
	var last []netip.AddrPort
	for _, e := range byTarget[target] {
		for _, address := range e.Addresses {
			at := netip.AddrPortFrom(netip.MustParseAddr(address), uint16(target)) //nolint:gosec // it is a port
			is, ready := e.Conditions, ptr.Deref(e.Conditions.Ready, true)
			switch {
			case ready:
				used = append(used, at)
			case ptr.Deref(is.Serving, ready) && ptr.Deref(is.Terminating, false):
				last = append(last, at)
			}
		}
	}
	if len(used) == 0 {
		return last
	}
	return used
}
