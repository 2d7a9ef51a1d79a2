package merge

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Port is a port of the merged service.
type Port struct {
	// Name is unique in the service and never empty. Services and ServiceImports with several ports need names, so a port without a
	// name is named after its number, such as "tcp-80", even if it is the only one: otherwise a later export would rename it.
	Name string
	// ExportedName is the port's name in the clusters that expose it, and in their endpoints. It can be empty.
	ExportedName string

	Protocol    corev1.Protocol
	Port        int32
	AppProtocol *string

	// Clusters are the clusters that expose exactly this port: name, protocol and number. Traffic for the port goes only to them.
	// Sorted, never empty. AppProtocol is a hint and may differ.
	Clusters []string
}

// ExposedBy reports whether the cluster exposes exactly this port.
func (p Port) ExposedBy(cluster string) bool {
	_, found := slices.BinarySearch(p.Clusters, cluster)
	return found
}

// portNumber is unique among the ports of a Service.
type portNumber struct {
	protocol corev1.Protocol
	port     int32
}

// unitePorts returns the union of all ports, the winner's first, then the others' by age of their exports. It omits ports whose name,
// or whose protocol and number, an earlier port has. Their number is limited to that of a single Service. What an export adds doesn't
// depend on younger ones.
func unitePorts(byAge []Export) []Port {
	var ports []Port
	exported := map[string]int{} // exported name to index in ports
	names := map[string]bool{}
	numbers := map[portNumber]bool{}
	for _, e := range byAge {
		for _, p := range e.Spec.Ports {
			number := portNumber{p.Protocol, p.Port}
			if i, ok := exported[p.Name]; ok {
				if ports[i].Protocol == p.Protocol && ports[i].Port == p.Port {
					ports[i].Clusters = append(ports[i].Clusters, e.Cluster)
				}
				continue
			}
			if names[p.Name] || numbers[number] || len(ports) == api.MaxPorts {
				continue
			}
			name := p.Name
			if name == "" {
				name = nameFor(number, names)
			}
			exported[p.Name], names[name], numbers[number] = len(ports), true, true
			ports = append(ports, Port{
				Name: name, ExportedName: p.Name,
				Protocol: p.Protocol, Port: p.Port, AppProtocol: p.AppProtocol,
				Clusters: []string{e.Cluster},
			})
		}
	}
	for i := range ports {
		slices.Sort(ports[i].Clusters)
	}
	return ports
}

// IsGenerated reports whether a port's name is one that a port without a name gets (Port.Name).
func IsGenerated(name string, protocol corev1.Protocol, port int32) bool {
	more, ok := strings.CutPrefix(name, baseName(protocol, port))
	if !ok || more == "" {
		return ok
	}
	_, err := strconv.ParseUint(more[1:], 10, 8)
	return more[0] == '-' && err == nil
}

func baseName(protocol corev1.Protocol, port int32) string {
	return fmt.Sprintf("%s-%d", strings.ToLower(string(protocol)), port)
}

// nameFor returns a name that no other port has.
func nameFor(p portNumber, taken map[string]bool) string {
	base := baseName(p.protocol, p.port)
	name := base
	for i := 2; taken[name]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	return name
}

// portSet describes the ports of a Service for comparison. It ignores the order, and target ports, which may differ between clusters.
func portSet(ports []clustersetv1alpha1.ServicePort) string {
	sorted := slices.SortedFunc(slices.Values(ports), func(a, b clustersetv1alpha1.ServicePort) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	text := make([]string, len(sorted))
	for i, p := range sorted {
		text[i] = describePort(p)
	}
	return strings.Join(text, ", ")
}

// describePort describes a port for people: http 80/TCP (h2c).
func describePort(p clustersetv1alpha1.ServicePort) string {
	var b strings.Builder
	if p.Name != "" {
		b.WriteString(p.Name + " ")
	}
	fmt.Fprintf(&b, "%d/%s", p.Port, p.Protocol)
	if p.AppProtocol != nil && *p.AppProtocol != "" {
		fmt.Fprintf(&b, " (%s)", *p.AppProtocol)
	}
	return b.String()
}
