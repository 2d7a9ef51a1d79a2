package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// Envoy Gateway takes ServiceImports as backends. What it then tells Envoy is what docs/ingress.md says. By default that is of no use: it gives a slice
// with a Service's label to the Service alone, so a ServiceImport has no endpoints (docs/upstream.md). Those of the derived Service are the ones that
// kube-proxy is to use, with what their own cluster says of them. With routingType: Service it tells Envoy the ClusterSetIP, which
// follows place, drain and health.
func TestGateway(t *testing.T) {
	if !fleettest.Long {
		t.Skip("compiles Envoy Gateway, for five minutes: part of make test-long")
	}
	p := compile(t)
	f := fleettest.New(t,
		fleettest.Spec{Name: "beijing", Zone: "bj-1", Region: "north"},
		fleettest.Spec{Name: "tianjin", Zone: "tj-1", Region: "north"},
		fleettest.Spec{Name: "shanghai", Zone: "sh-1", Region: "south"},
	)
	s := export(f)
	s.route(start(t, p, s.beijing))
	s.used("tianjin") // it is nearer
	s.told("tj-1 tianjin")

	for _, unready := range []string{"ready: false", "ready: false, serving: true, terminating: true"} {
		s.tianjinIs(unready)
		s.used("shanghai")
		s.told("sh-1 shanghai", "tj-1 tianjin DRAINING")
	}
	s.tianjinIs("ready: true")
	s.used("tianjin")
	s.told("tj-1 tianjin")

	s.drain(true)
	s.used("shanghai")
	s.told("sh-1 shanghai")
	s.drain(false)
	s.used("tianjin")
	s.told("tj-1 tianjin")
}

// service is a service of two clusters, tianjin and shanghai, that Envoy Gateway serves in a third one, beijing.
type service struct {
	*fleettest.Fleet
	gateway                    *envoyGateway
	beijing, tianjin, shanghai *fleettest.Member
	ns, vip                    string
	moved                      int // how often shanghai's endpoint has moved
}

// tianjinAddress is that of tianjin's endpoint, which stays.
const tianjinAddress = "10.201.9.1"

// export exports the service from both clusters.
func export(f *fleettest.Fleet) *service {
	f.Helper()
	s := &service{
		Fleet: f, beijing: f.Member("beijing"), tianjin: f.Member("tianjin"), shanghai: f.Member("shanghai"), ns: f.Namespace("gateway"),
	}
	s.tianjin.Apply(exported(s.ns))
	s.tianjinIs("ready: true")
	s.shanghai.Apply(exported(s.ns))
	s.move()
	s.vip = s.beijing.VIP(s.ns, "web", corev1.IPv4Protocol)
	return s
}

// exported returns a Service and its ServiceExport.
func exported(ns string) string {
	return fmt.Sprintf(`
{apiVersion: v1, kind: Service, metadata: {namespace: %[1]s, name: web}, spec: {ports: [{name: http, port: 80, targetPort: 8080}]}}
---
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {namespace: %[1]s, name: web}}
`, ns)
}

// endpointSlice returns the EndpointSlice of a Service with one endpoint.
func endpointSlice(ns, address, conditions string) string {
	return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: %s, name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [%q], conditions: {%s}}]
`, ns, address, conditions)
}

// tianjinIs sets the conditions of tianjin's endpoint.
func (s *service) tianjinIs(conditions string) {
	s.Helper()
	s.tianjin.Apply(endpointSlice(s.ns, tianjinAddress, conditions))
}

// move gives shanghai's endpoint another address.
func (s *service) move() {
	s.Helper()
	s.moved++
	s.shanghai.Apply(endpointSlice(s.ns, s.shanghaiAddress(), "ready: true"))
}

func (s *service) shanghaiAddress() string { return fmt.Sprintf("10.202.9.%d", s.moved) }

// drain drains tianjin, or ends that.
func (s *service) drain(on bool) {
	s.Helper()
	verb := "undrain"
	if on {
		verb = "drain"
	}
	cmd := fleettest.Binaries().Command(s.Context(), s.TempDir(), verb, "tianjin", "--hub-kubeconfig", s.Hub.Plane.Kubeconfig())
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("clusterset %s tianjin: %v\n%s", verb, err, out)
	}
}

// used waits until kube-proxy in beijing is told to use the endpoints of these clusters behind the ClusterSetIP, and no others.
func (s *service) used(want ...string) {
	s.Helper()
	kube.Eventually(s, func() error {
		i, err := s.beijing.Imported(s.ns, "web")
		if err != nil {
			return err
		}
		var got []string
		for _, slice := range i.Slices {
			for _, e := range slice.Endpoints {
				hinted := e.Hints == nil || slices.ContainsFunc(e.Hints.ForZones, func(z discoveryv1.ForZone) bool { return z.Name == "bj-1" })
				if records.Routed(&slice) && *e.Conditions.Ready && hinted {
					got = append(got, slice.Labels[api.LabelSourceCluster])
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("kube-proxy in beijing is told to use the endpoints of %q, want %q", got, want)
		}
		return nil
	})
}

// page returns the manifest in docs/ingress.md with all these lines, for a route or policy of that name.
func (s *service) page(name string, lines ...string) string {
	s.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "ingress.md"))
	if err != nil {
		s.Fatal(err)
	}
	for _, block := range yamlBlockRE.FindAllStringSubmatch(string(page), -1) {
		if slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(block[1], line+"\n") }) {
			continue
		}
		return strings.NewReplacer("namespace: default", "namespace: "+s.ns, "web.example.org", name+".example.org",
			"\n  name: web\n", "\n  name: "+name+"\n",
			"\n    name: web\n", "\n    name: "+name+"\n", // the policy's route
			api.DerivedServiceName("default", "web"), api.DerivedServiceName(s.ns, "web")).Replace(block[1])
	}
	s.Fatalf("the page has no manifest with %q", lines)
	return ""
}

var yamlBlockRE = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// route makes a Gateway with a route for each way in which Envoy Gateway can use the service.
func (s *service) route(g *envoyGateway) {
	s.Helper()
	s.gateway = g
	imported := []string{"kind: HTTPRoute", "      kind: ServiceImport"}
	derived := []string{"kind: HTTPRoute", "    - name: " + api.DerivedServiceName("default", "web")}
	s.beijing.Apply(
		strings.ReplaceAll(string(g.read("testdata/gateway.yaml")), "NAMESPACE", s.ns),
		s.page("web", imported...), s.page("zones", imported...), s.page("vip", imported...), s.page("vip", "kind: BackendTrafficPolicy"),
		s.page("derived", derived...), s.page("derived-vip", derived...), s.page("derived-vip", "kind: BackendTrafficPolicy"),
	)
}

// told waits until Envoy is told of these endpoints of the derived Service, and of none of the ServiceImport: a route without endpoints has no
// cluster. It moves shanghai's endpoint first: what has its new address is no older than what used has seen.
func (s *service) told(derived ...string) {
	s.Helper()
	s.move()
	kube.Eventually(s, func() error {
		got, err := s.routes()
		if err != nil {
			return err
		}
		const byDistribution = "; its own zone, if that has 1"
		vip := s.vip + ":80; 1 request each connection"
		want := map[string]string{
			"vip": vip, "derived-vip": s.vip + ":80" + byDistribution + "; 1 request each connection",
			"derived": strings.Join(derived, ", ") + byDistribution,
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("what Envoy is told:\n%q, want\n%q", got, want)
		}
		return nil
	})
}

// routes returns what Envoy is told of the servers of each route.
func (s *service) routes() (map[string]string, error) {
	clusters, err := s.gateway.asProxy(s.ns, "public")
	names := strings.NewReplacer(tianjinAddress+":8080", "tianjin", s.shanghaiAddress()+":8080", "shanghai")
	all := map[string]string{}
	for name, text := range clusters {
		route, _, _ := strings.Cut(strings.TrimPrefix(name, "httproute/"+s.ns+"/"), "/")
		all[route] = names.Replace(text)
	}
	return all, err
}
