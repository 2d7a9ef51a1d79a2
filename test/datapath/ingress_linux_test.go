package datapath

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// The Ingress of docs/ingress.md leads requests to the pods of several clusters, through Traefik in one of them. Traefik follows place,
// health and drain if it uses the ClusterSetIP and opens a connection for each request, and otherwise does what the page says.
func TestIngress(t *testing.T) {
	if !atLength() {
		t.Skip("compiles Traefik, for five minutes: part of make test-datapath")
	}
	w := set(t)
	program := traefikProgram(t)
	s := w.service(t, export{ports: []servicePort{requestPort}}, "xicheng", "chaoyang", "minhang")
	xicheng, chaoyang, minhang := s.pods("xicheng", 2), s.pods("chaoyang", 2), s.pods("minhang", 1)
	pods(s.all).serve(t)
	s.publish()
	s.ingress("xicheng")
	node := w.cluster("xicheng").nodes[0]
	const native = "--providers.kubernetesIngress.nativeLBByDefault"
	follows := s.traefik(program, node, 8001, native, "--serversTransport.maxIdleConnsPerHost=-1")
	keeps := s.traefik(program, node, 8002, native, "--serversTransport.forwardingTimeouts.idleConnTimeout=0s")
	reads := s.traefik(program, node, 8003)

	follows.answer(xicheng...)
	reads.answer(s.all...)
	kept := keeps.one()

	// Drain. That reads has seen the drained cluster is known from a later change that it has seen.
	s.drain("xicheng")
	follows.answer(chaoyang...)
	chaoyang[1].notReady = true
	s.publish()
	follows.answer(chaoyang[0])
	reads.answer(slices.Concat(xicheng, chaoyang[:1], minhang)...)
	if who := keeps.one(); who != kept {
		t.Errorf("the connection that was open when xicheng was drained leads to %s, and before to %s", who, kept)
	}
	s.undrain("xicheng")
	follows.answer(xicheng...)

	// Readiness, which both follow.
	xicheng.ready(false)
	s.publish()
	follows.answer(chaoyang[0])
	reads.answer(chaoyang[0], minhang[0])

	// Death and return.
	dead := w.cluster("chaoyang")
	dead.die(t)
	w.hurryHub(t)
	w.eventuallyPhase(t, dead, clustersetv1alpha1.MemberSuspect)
	follows.answer(minhang...)
	w.eventuallyPhase(t, dead, clustersetv1alpha1.MemberExpired)
	follows.answer(minhang...)
	reads.answer(minhang...)
	dead.reconnect(t)
	dead.startAgent(t)
	w.eventuallyPhase(t, dead, clustersetv1alpha1.MemberReady)
	follows.answer(chaoyang[0])
	reads.answer(chaoyang[0], minhang[0])

	// With the annotation the other one uses the ClusterSetIP too.
	s.annotateDerived("xicheng", "traefik.ingress.kubernetes.io/service.nativelb", "true")
	reads.answer(chaoyang[0])
	xicheng.ready(true)
	s.publish()
	follows.answer(xicheng...)
}

// ingressHost is the host in the page's Ingress.
const ingressHost = "web.example.org"

// ingress applies the page's Ingress in a cluster, with the service's name and namespace, until the end of the test.
func (s *service) ingress(cluster string) {
	s.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "ingress.md"))
	if err != nil {
		s.Fatal(err)
	}
	for _, block := range yamlBlockRE.FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(block[1], "\nkind: Ingress\n") {
			continue
		}
		manifest := strings.NewReplacer("namespace: default", "namespace: "+s.namespace,
			api.DerivedServiceName("default", "web"), api.DerivedServiceName(s.namespace, "web")).Replace(block[1])
		c := s.w.cluster(cluster)
		s.apply(c, manifest)
		s.Cleanup(func() {
			if err := c.Plane.DeleteContext(context.Background(), []byte(manifest)); err != nil {
				s.Error(err)
			}
		})
		return
	}
	s.Fatal("the page has no Ingress")
}

// annotateDerived annotates the derived Service in a cluster.
func (s *service) annotateDerived(cluster, key, value string) {
	s.Helper()
	svc := &corev1.Service{}
	svc.Namespace, svc.Name = s.namespace, api.DerivedServiceName(s.namespace, "web")
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))
	if err := s.w.cluster(cluster).Client.Patch(s.Context(), svc, patch); err != nil {
		s.Fatal(err)
	}
}

// traefikRights are Traefik's own, from docs/content/reference/dynamic-configuration/kubernetes-crd-rbac.yml of its source, without
// those for its CustomResourceDefinitions.
const traefikRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: traefik}
rules:
- {apiGroups: [""], resources: [services, secrets, nodes, configmaps], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
- {apiGroups: [networking.k8s.io], resources: [ingresses, ingressclasses], verbs: [get, list, watch]}
- {apiGroups: [networking.k8s.io], resources: [ingresses/status], verbs: [update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: traefik}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: traefik}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: traefik}]
`

// traefikProgram compiles Traefik, the first time, and returns its path.
func traefikProgram(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-n", "traefik")
	cmd.Dir, cmd.Stderr = "ingress", t.Output()
	program, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(program))
}

// traefik is a Traefik in the network of a node, as with hostNetwork.
type traefik struct {
	*service
	node    *node
	address string
	inTurn  bool // it chooses the pods itself, one after another
}

// traefik starts Traefik with flags, until the end of the test. Without flags it reads EndpointSlices.
func (s *service) traefik(program string, n *node, port int, flags ...string) *traefik {
	s.Helper()
	s.apply(n.cluster, traefikRights)
	kubeconfig, err := n.cluster.Plane.KubeconfigFor("traefik")
	if err != nil {
		s.Fatal(err)
	}
	address := fmt.Sprintf("%s:%d", node4(n.cluster.number, n.number), port)
	server := &fleet.Program{
		Name: "Traefik " + address, Path: n.cluster.nsenter, Log: filepath.Join(s.TempDir(), "traefik.log"),
		Args: func() ([]string, error) {
			return append([]string{
				"--net=" + n.ns.path(), "--", "env", "KUBECONFIG=" + kubeconfig, program,
				"--entryPoints.web.address=" + address, "--ping.entryPoint=web", "--providers.kubernetesIngress=true",
				"--providers.providersThrottleDuration=100ms", "--global.checkNewVersion=false",
			}, flags...), nil
		},
		Up: func(ctx context.Context) error { return n.get(ctx, "http://"+address+"/ping") },
	}
	s.Cleanup(func() {
		server.Kill()
		if log, err := os.ReadFile(server.Log); err == nil && s.Failed() {
			s.Logf("%s:\n%s", server.Name, log)
		}
	})
	if err := server.Start(s.Context()); err != nil {
		s.Fatal(err)
	}
	return &traefik{service: s, node: n, address: address, inTurn: len(flags) == 0}
}

// answer waits until requests are answered by each of these pods, and by no other.
func (tr *traefik) answer(want ...*pod) {
	tr.Helper()
	times := 12 + 25*len(want) // as in isAnswered
	if tr.inTurn {
		times = 3 * len(tr.all)
	}
	kube.Eventually(tr, func() error {
		got := map[string]int{}
		for range times {
			who, err := tr.request()
			if err != nil {
				return err
			}
			got[who]++
		}
		if who := slices.Sorted(maps.Keys(got)); !slices.Equal(who, pods(want).names(false)) {
			return fmt.Errorf("requests to Traefik at %s were answered by %v, want %v", tr.address, got, pods(want).names(false))
		}
		return nil
	})
}

// one waits for the answer of a pod, and returns the pod's name.
func (tr *traefik) one() (who string) {
	tr.Helper()
	kube.Eventually(tr, func() (err error) {
		who, err = tr.request()
		return err
	})
	return who
}

// request makes a request from another node of the cluster and returns who answered.
func (tr *traefik) request() (string, error) {
	from := tr.node.cluster.nodes[1]
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = from.ns.do(func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}}
	req, err := http.NewRequestWithContext(tr.Context(), http.MethodGet, "http://"+tr.address+"/", http.NoBody)
	if err != nil {
		return "", err
	}
	req.Host = ingressHost
	resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", tr.address, resp.Status, body)
	}
	return string(body), err
}
