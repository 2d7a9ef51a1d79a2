package merge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Port is a port of the merged service.
type Port struct {
	// Name is unique in the service. It is empty only where the port is the only one: Services and ServiceImports need
	// names for several, so that a nameless port beside others is called by its number, "tcp-80".
	Name string
	// ExportedName is the port's name in the clusters that expose it, and so in their endpoints.
	ExportedName string

	Protocol    corev1.Protocol
	Port        int32
	AppProtocol *string

	// Clusters expose exactly this port: name, protocol and number. Traffic for it goes to no other. Sorted, never empty.
	// AppProtocol is a hint and doesn't count.
	Clusters []string
}

// ExposedBy says whether the cluster exposes exactly this port.
func (p Port) ExposedBy(cluster string) bool {
	_, found := slices.BinarySearch(p.Clusters, cluster)
	return found
}

// Protocol and number, which of a Service's ports no two share.
type portNumber struct {
	protocol corev1.Protocol
	port     int32
}

// unitePorts returns every port that disagrees with no older export's: those of the winner, then those of the others by
// age, without any that shares its name, or its protocol and number, with an earlier one. The limit is a single Service's.
func unitePorts(byAge []Export) []Port {
	var ports []Port
	names := map[string]int{} // name to index in ports
	numbers := map[portNumber]bool{}
	for _, e := range byAge {
		for _, p := range e.Service.Spec.Ports {
			number := portNumber{p.Protocol, p.Port}
			if i, ok := names[p.Name]; ok {
				if ports[i].Protocol == p.Protocol && ports[i].Port == p.Port {
					ports[i].Clusters = append(ports[i].Clusters, e.Cluster)
				}
				continue
			}
			if numbers[number] || len(ports) == api.MaxPorts {
				continue
			}
			names[p.Name], numbers[number] = len(ports), true
			ports = append(ports, Port{
				Name: p.Name, ExportedName: p.Name,
				Protocol: p.Protocol, Port: p.Port, AppProtocol: p.AppProtocol,
				Clusters: []string{e.Cluster},
			})
		}
	}
	for i := range ports {
		slices.Sort(ports[i].Clusters)
	}
	if i, ok := names[""]; ok && len(ports) > 1 {
		ports[i].Name = nameFor(ports[i], names)
	}
	return ports
}

// nameFor returns a name that none of the others has.
func nameFor(p Port, taken map[string]int) string {
	base := fmt.Sprintf("%s-%d", strings.ToLower(string(p.Protocol)), p.Port)
	name := base
	for i := 2; ; i++ {
		if _, ok := taken[name]; !ok {
			return name
		}
		name = fmt.Sprintf("%s-%d", base, i)
	}
}

// portSet is a Service's ports as far as clusters can disagree about them: without order, and without target ports, which
// are each cluster's own business.
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

// describePort writes a port as people do: http 80/TCP (h2c).
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
