package gateway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/faultproxy"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// Envoy Gateway takes ServiceImports as backends. What it then tells Envoy is what docs/ingress.md says. By default that is of no use: it gives a slice
// with a Service's label to the Service alone, so a ServiceImport has no endpoints (docs/upstream.md). Those of the derived Service are the ones that
// kube-proxy is to use, with what their own cluster says of them, but it misses changes of these. With routingType: Service it tells Envoy the
// ClusterSetIP, which follows place, drain and health.
func TestGateway(t *testing.T) {
	if !fleettest.Long {
		t.Skip("compiles Envoy Gateway, for five minutes: part of make test-long")
	}
	p := compile(t)
	f := fleettest.New(t,
		fleettest.Spec{Name: "beijing", Zone: "bj-1", Region: "north", Beacons: true},
		fleettest.Spec{Name: "tianjin", Zone: "tj-1", Region: "north", Beacons: true},
		fleettest.Spec{Name: "shanghai", Zone: "sh-1", Region: "south", Beacons: true},
	)
	s := export(f)
	s.route(start(t, p, s.beijing))
	s.used("tianjin") // it is nearer
	s.told("tianjin")

	s.tianjinIs("ready: false")
	s.used("shanghai")
	s.told("shanghai", "tianjin DRAINING")
	s.tianjinIs("ready: false, serving: true, terminating: true")
	s.used("shanghai")
	s.told("shanghai", "tianjin DRAINING")
	s.tianjinIs("ready: true")
	s.used("tianjin")
	s.told("tianjin")

	s.drain(true)
	s.used("shanghai")
	s.told("shanghai")
	s.drain(false)
	s.used("tianjin")

	s.Hub.Restart("--suspect-after", "4s", "--expire-after", "30m")
	s.tianjin.KillAgent()
	s.phase(clustersetv1alpha1.MemberSuspect)
	s.used("shanghai")
	s.told("shanghai")
	s.Hub.Restart("--suspect-after", "4s", "--expire-after", "8s")
	s.phase(clustersetv1alpha1.MemberExpired)
	s.used("shanghai")
	s.told("shanghai")
	s.tianjin.StartAgent()
	s.phase(clustersetv1alpha1.MemberReady)
	s.Hub.Restart()
	s.used("tianjin")
	s.told("tianjin")

	s.Paths.Cut("beijing", "tianjin", faultproxy.Condition{Refused: true})
	s.used("shanghai")
	s.told("shanghai")
	s.Paths.Mend("beijing", "tianjin")
	s.used("tianjin")

	s.prefer("none")
	s.used("shanghai", "tianjin")
	s.told("shanghai", "tianjin")

	s.misses("shanghai", "tianjin")
}

// service is a service of two clusters, tianjin and shanghai, that Envoy Gateway serves in a third one, beijing.
type service struct {
	*fleettest.Fleet
	gateway                    *envoyGateway
	beijing, tianjin, shanghai *fleettest.Member
	ns, vip                    string
	moved                      int    // how often shanghai's endpoint has moved
	late                       string // the address of the other service's endpoint, as far as Envoy is to know
}

// zones of the clusters' endpoints.
var zones = map[string]string{"tianjin": "tj-1", "shanghai": "sh-1"}

// tianjinAddress is that of tianjin's endpoint, which stays.
const tianjinAddress = "10.201.9.1"

// export exports the service "web" from both clusters, and the service "late" from shanghai.
func export(f *fleettest.Fleet) *service {
	f.Helper()
	s := &service{
		Fleet: f, beijing: f.Member("beijing"), tianjin: f.Member("tianjin"), shanghai: f.Member("shanghai"), ns: f.Namespace("gateway"),
		late: "10.202.8.1",
	}
	s.prefer("")
	s.tianjinIs("ready: true")
	s.move()
	s.shanghai.Apply(exported(s.ns, "late", ""), endpointSlice(s.ns, "late", s.late, "ready: true"))
	s.vip = s.beijing.VIP(s.ns, "web", corev1.IPv4Protocol)
	s.beijing.VIP(s.ns, "late", corev1.IPv4Protocol)
	return s
}

// exported returns a Service and its ServiceExport, with annotations in YAML's flow style.
func exported(ns, name, annotations string) string {
	return fmt.Sprintf(`
{apiVersion: v1, kind: Service, metadata: {namespace: %[1]s, name: %[2]s}, spec: {ports: [{name: http, port: 80, targetPort: 8080}]}}
---
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {namespace: %[1]s, name: %[2]s, annotations: {%[3]s}}}
`, ns, name, annotations)
}

// endpointSlice returns the EndpointSlice of a Service with one endpoint.
func endpointSlice(ns, name, address, conditions string) string {
	return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: %[1]s, name: %[2]s-1, labels: {kubernetes.io/service-name: %[2]s}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [%[3]q], conditions: {%[4]s}}]
`, ns, name, address, conditions)
}

// prefer sets the policy of both exports, or none.
func (s *service) prefer(tiers string) {
	s.Helper()
	annotation := ""
	if tiers != "" {
		annotation = api.AnnotationPrefer + ": " + tiers
	}
	s.tianjin.Apply(exported(s.ns, "web", annotation))
	s.shanghai.Apply(exported(s.ns, "web", annotation))
}

// tianjinIs sets the conditions of tianjin's endpoint.
func (s *service) tianjinIs(conditions string) {
	s.Helper()
	s.tianjin.Apply(endpointSlice(s.ns, "web", tianjinAddress, conditions))
}

// move gives shanghai's endpoint another address.
func (s *service) move() {
	s.Helper()
	s.moved++
	s.shanghai.Apply(endpointSlice(s.ns, "web", s.shanghaiAddress(), "ready: true"))
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

// phase waits until tianjin is in a phase.
func (s *service) phase(want clustersetv1alpha1.MemberClusterPhase) {
	s.Helper()
	kube.Eventually(s, func() error { return errors.Join(s.Hub.PhaseIs("tianjin", want), s.beijing.PhaseIs("tianjin", want)) })
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

// page returns the manifest in docs/ingress.md with all these lines, for a route or policy of that name and the service backend.
func (s *service) page(name, backend string, lines ...string) string {
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
			api.DerivedServiceName("default", "web"), api.DerivedServiceName(s.ns, backend)).Replace(block[1])
	}
	s.Fatalf("the page has no manifest with %q", lines)
	return ""
}

var yamlBlockRE = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// route makes a Gateway with a route for each way in which Envoy Gateway can use the service.
func (s *service) route(g *envoyGateway) {
	s.Helper()
	s.gateway = g
	const zoneAware = `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {namespace: %s, name: zones}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: zones}]
  loadBalancer: {type: LeastRequest, zoneAware: {preferLocal: {force: {minEndpointsInZoneThreshold: 1}}}}
`
	imported := []string{"kind: HTTPRoute", "      kind: ServiceImport"}
	derived := []string{"kind: HTTPRoute", "    - name: " + api.DerivedServiceName("default", "web")}
	s.beijing.Apply(fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: envoy}
spec: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: %s, name: public}
spec: {gatewayClassName: envoy, listeners: [{name: http, port: 80, protocol: HTTP}]}
`, s.ns),
		s.page("web", "web", imported...), s.page("zones", "web", imported...), fmt.Sprintf(zoneAware, s.ns),
		s.page("vip", "web", imported...), s.page("vip", "web", "kind: BackendTrafficPolicy"),
		s.page("derived", "web", derived...), s.page("late", "late", derived...),
		s.page("derived-vip", "web", derived...), s.page("derived-vip", "web", "kind: BackendTrafficPolicy"),
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
		const byTopologyMode = "; its own zone, if that has 3"
		vip := s.vip + ":80; 1 request each connection"
		want := map[string]string{
			"vip": vip, "derived-vip": s.vip + ":80" + byTopologyMode + "; 1 request each connection",
			"derived": zonal(derived) + byTopologyMode, "late": "sh-1 " + s.late + ":8080" + byTopologyMode,
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("what Envoy is told:\n%q, want\n%q", got, want)
		}
		return nil
	})
}

// zonal puts the zone before each endpoint.
func zonal(endpoints []string) string {
	var all []string
	for _, e := range endpoints {
		cluster, _, _ := strings.Cut(e, " ")
		all = append(all, zones[cluster]+" "+e)
	}
	return strings.Join(all, ", ")
}

// routes returns what Envoy is told of the servers of each route: endpoints, in the order of their clusters, with health and priority unless
// these are UNKNOWN and 0, and with their zone if it is said.
func (s *service) routes() (map[string]string, error) {
	clusters, err := s.gateway.asProxy(s.ns, "public")
	if err != nil {
		return nil, err
	}
	names := map[string]string{tianjinAddress + ":8080": "tianjin", s.shanghaiAddress() + ":8080": "shanghai"}
	all := map[string]string{}
	for name, c := range clusters {
		var endpoints []string
		for _, e := range c.Endpoints {
			text := e.Address
			if name := names[e.Address]; name != "" {
				text = name
			}
			if e.Zone != "" {
				text = e.Zone + " " + text
			}
			if e.Health != "UNKNOWN" {
				text += " " + e.Health
			}
			if e.Priority != 0 {
				text += fmt.Sprintf(" priority %d", e.Priority)
			}
			endpoints = append(endpoints, text)
		}
		slices.Sort(endpoints)
		text := strings.Join(endpoints, ", ")
		if c.ForceLocalZone != 0 {
			text += fmt.Sprintf("; its own zone, if that has %d", c.ForceLocalZone)
		}
		if c.MaxRequestsPerConnection != 0 {
			text += fmt.Sprintf("; %d request each connection", c.MaxRequestsPerConnection)
		}
		route, _, _ := strings.Cut(strings.TrimPrefix(name, "httproute/"+s.ns+"/"), "/")
		all[route] = text
	}
	return all, nil
}

// misses shows that a change of the endpoints of a derived Service doesn't reach Envoy, until something else changes. It waits on purpose,
// because the test is about what doesn't happen.
func (s *service) misses(derived ...string) {
	s.Helper()
	before, err := s.routes()
	if err != nil {
		s.Fatal(err)
	}
	s.late = "10.202.8.2"
	s.shanghai.Apply(endpointSlice(s.ns, "late", s.late, "ready: true"))
	kube.Eventually(s, func() error {
		i, err := s.beijing.Imported(s.ns, "late")
		if err == nil && (len(i.Slices) != 1 || len(i.Slices[0].Endpoints) != 1 || i.Slices[0].Endpoints[0].Addresses[0] != s.late) {
			err = fmt.Errorf("the slices of late in beijing are %+v, want one with %s", i.Slices, s.late)
		}
		return err
	})
	changed := time.Now()
	kube.Eventually(s, func() error {
		now, err := s.routes()
		if err != nil {
			return err
		}
		if fmt.Sprint(now) != fmt.Sprint(before) {
			s.Fatalf("Envoy is told of\n%q after the endpoint of late has moved, and before of\n%q; so the fault in docs/upstream.md is gone", now, before)
		}
		if since := time.Since(changed); since < 15*time.Second {
			return fmt.Errorf("only %s so far", since)
		}
		return nil
	})
	s.told(derived...)
}
