package random

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// userLabel is on all objects that the users of a random run make.
const userLabel = "clusterset-test/random"

const userLabels = "labels: {" + userLabel + `: "true"`

// slicesPerService is how many EndpointSlices a Service can have: two of IPv4, one of IPv6, and one of FQDNs, which can't be
// imported.
const slicesPerService = 4

var sliceTypes = [slicesPerService]string{"IPv4", "IPv6", "IPv4", "FQDN"}

// serviceState has what a user has created for one service in one cluster.
type serviceState struct {
	kind     string // ClusterIP, NodePort, None for headless, ExternalName; empty if there is no Service
	families string // the spec's fields about IP families
	ports    []servicePort
	mark     string  // "labels" or "annotations": where the Service carries FabDNS's mark
	to       *string // the Service's annotation clusterset.dev/export-to
	share    *string // and clusterset.dev/share
	extended bool    // whether it asks for endpoints of other clusters
	// externalIPs and external, those of the annotation, are where clusters of other networks reach it.
	externalIPs, external []string

	slices [slicesPerService]string // their content in YAML's flow style, empty if there is no slice
}

type servicePort struct {
	name, protocol string
	number         int
}

func (p servicePort) String() string { return fmt.Sprintf("%s:%d/%s", p.name, p.number, p.protocol) }

// portSets are the possible ports of Services. Some are equal, and some differ by name, number or protocol.
var portSets = [][]servicePort{
	{{"http", "TCP", 80}},
	{{"http", "TCP", 80}},
	{{"http", "TCP", 80}, {"grpc", "TCP", 9000}},
	{{"http", "TCP", 8080}},
	{{"web", "TCP", 80}},
	{{"dns", "UDP", 53}, {"dns-tcp", "TCP", 53}},
	{{"", "TCP", 80}},
	{{"http", "TCP", 80}, {"h3", "UDP", 80}},
	{{"http", "UDP", 80}},
}

// newService makes a random Service.
func (s *Script) newService(c cell, state *serviceState) {
	state.kind = []string{"ClusterIP", "ClusterIP", "ClusterIP", "NodePort", "None", "None", "None", "ExternalName"}[s.IntN(8)]
	families := []string{"", "ipFamilyPolicy: PreferDualStack", "ipFamilyPolicy: SingleStack"}
	if s.set.clusters[c.cluster].DualStack { // clusters with IPv4 alone would refuse these
		families = append(families, "ipFamilyPolicy: SingleStack, ipFamilies: [IPv6]", "ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6, IPv4]")
	}
	state.families = families[s.IntN(len(families))]
	state.ports = s.newPorts(state.kind)
	state.extended, state.share = s.IntN(4) == 0, s.newShare()
	if s.set.external {
		s.newExternal(c, state)
	}
	if s.IntN(4) == 0 {
		state.mark = []string{"labels", "annotations"}[s.IntN(2)]
	}
}

func (s *Script) newPorts(kind string) []servicePort {
	if kind == "None" && s.IntN(8) == 0 {
		return nil
	}
	return portSets[s.IntN(len(portSets))]
}

func (s *Script) newSlices(c cell, state *serviceState) {
	for i := range state.slices {
		if i == 0 || s.IntN(3) == 0 {
			state.slices[i] = s.newSlice(c, state, i)
		}
	}
}

// newSlice makes the i'th EndpointSlice.
func (s *Script) newSlice(c cell, state *serviceState, i int) string {
	var ports, endpoints []string
	for _, p := range state.ports {
		switch number := p.number; s.IntN(10) {
		case 0: // the endpoints have no such port
		case 1, 2, 3:
			ports = append(ports, fmt.Sprintf("{name: %q, protocol: %s, port: %d}", p.name, p.protocol, number))
		default:
			ports = append(ports, fmt.Sprintf("{name: %q, protocol: %s, port: %d}", p.name, p.protocol, 10000+number))
		}
	}
	pool := addressesOf(c.cluster, sliceTypes[i])
	for i := range pool {
		pool[i] = strconv.Quote(pool[i])
	}
	s.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
	ready := s.IntN(8) > 0
	for range s.IntN(4) {
		addresses := pool[:1:1]
		pool = pool[1:]
		var fields []string
		if s.IntN(5) < 2 {
			fields = append(fields, "hostname: "+hostnames[s.IntN(len(hostnames))])
			if s.IntN(4) == 0 {
				addresses, pool = append(addresses, pool[0]), pool[1:]
			}
		}
		if s.IntN(5) < 2 {
			fields = append(fields, "zone: "+[]string{"beijing", "hebei", "shanghai"}[s.IntN(3)])
		}
		switch n := s.IntN(10); {
		case !ready || n < 2:
			fields = append(fields, "conditions: {ready: false}")
		case n < 8:
			fields = append(fields, "conditions: {ready: true}")
		}
		fields = append(fields, fmt.Sprintf("addresses: [%s]", strings.Join(addresses, ", ")))
		endpoints = append(endpoints, fmt.Sprintf("{%s}", strings.Join(fields, ", ")))
	}
	return fmt.Sprintf("ports: [%s], endpoints: [%s]", strings.Join(ports, ", "), strings.Join(endpoints, ", "))
}

var hostnames = []string{"pod-0", "pod-1", "db"}

// addressesOf returns the possible addresses of a cluster's endpoints. The first is the same in all clusters.
func addressesOf(cluster int, kind string) []string {
	switch kind {
	case "FQDN":
		return []string{"a.example.com", "b.example.com", "c.example.com", "d.example.com", "e.example.com", "f.example.com"}
	case "IPv6":
		return []string{
			"fd00:99::1", fmt.Sprintf("fd00:2%d::1", cluster), fmt.Sprintf("fd00:2%d::2", cluster), fmt.Sprintf("fd00:2%d:1::", cluster),
			fmt.Sprintf("fd00:2%d::a:b", cluster), fmt.Sprintf("fd00:2%d::4", cluster),
		}
	}
	pool := []string{"10.99.0.1"}
	for i := range 5 {
		pool = append(pool, fmt.Sprintf("10.20%d.0.%d", cluster, i+1))
	}
	return pool
}

func (state *serviceState) String() string {
	var slices []string
	for i, s := range state.slices {
		if s != "" {
			slices = append(slices, fmt.Sprintf("slice %d: %s", i, s))
		}
	}
	return fmt.Sprintf("%s %v mark=%q for=%q share=%q extended=%v external=%v%v %s %s",
		state.kind, state.ports, state.mark, deref(state.to), deref(state.share), state.extended, state.externalIPs, state.external, state.families, strings.Join(slices, "; "))
}

// manifests returns the Service and its EndpointSlices.
func (state *serviceState) manifests(c cell) []string {
	all := []string{state.serviceManifest(c)}
	for i, text := range state.slices {
		if text != "" {
			all = append(all, sliceManifest(c, i, text))
		}
	}
	return all
}

func (state *serviceState) serviceManifest(c cell) string {
	labels := userLabels
	var annotations []string
	switch state.mark {
	case "labels":
		labels += `, fabedge.io/global-service: "true"`
	case "annotations":
		annotations = append(annotations, `fabedge.io/global-service: "true"`)
	}
	if state.to != nil {
		annotations = append(annotations, fmt.Sprintf("clusterset.dev/export-to: %q", *state.to))
	}
	if state.share != nil {
		annotations = append(annotations, fmt.Sprintf("clusterset.dev/share: %q", *state.share))
	}
	if state.external != nil {
		annotations = append(annotations, fmt.Sprintf("clusterset.dev/external-addresses: %q", strings.Join(state.external, ", ")))
	}
	if state.extended {
		annotations = append(annotations, `clusterset.dev/extend: "true"`)
	}
	var spec []string
	if state.kind != "ExternalName" { // or it can't be extended; there is no controller that writes slices because of it
		spec = append(spec, "selector: {app: "+c.name+"}")
	}
	switch state.kind {
	case "ExternalName":
		spec = append(spec, "type: ExternalName", "externalName: example.com")
	case "None":
		spec = append(spec, "clusterIP: None")
	default:
		spec = append(spec, "type: "+state.kind)
		if state.externalIPs != nil {
			spec = append(spec, `externalIPs: ["`+strings.Join(state.externalIPs, `", "`)+`"]`)
		}
	}
	if state.families != "" && state.kind != "ExternalName" {
		spec = append(spec, state.families)
	}
	var ports []string
	for _, p := range state.ports {
		ports = append(ports, fmt.Sprintf("{name: %q, protocol: %s, port: %d}", p.name, p.protocol, p.number))
	}
	spec = append(spec, fmt.Sprintf("ports: [%s]", strings.Join(ports, ", ")))
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: %s, %s}, annotations: {%s}}, spec: {%s}}",
		c.namespace, c.name, labels, strings.Join(annotations, ", "), strings.Join(spec, ", "))
}

func exportManifest(c cell) string {
	return fmt.Sprintf("{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {namespace: %s, name: %s, %s}}}",
		c.namespace, c.name, userLabels)
}

func sliceManifest(c cell, i int, text string) string {
	return fmt.Sprintf("{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: %s, name: %s-%d, %s, kubernetes.io/service-name: %s}}, addressType: %s, %s}",
		c.namespace, c.name, i, userLabels, c.name, sliceTypes[i], cmp.Or(text, "ports: [], endpoints: []"))
}
