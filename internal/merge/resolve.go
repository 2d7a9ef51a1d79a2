package merge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/policy"
	"github.com/clusterset/clusterset/internal/topology"
)

// Resolved is one service, merged from all its exports.
type Resolved struct {
	Namespace, Name string

	// Winner is the cluster with the oldest export. Fields that can't be merged have its values.
	Winner string
	// Clusters are the clusters that export the service, sorted.
	Clusters []string

	// The winner's values.
	Type                  mcsv1beta1.ServiceImportType
	SessionAffinity       corev1.ServiceAffinity
	SessionAffinityConfig *corev1.SessionAffinityConfig
	InternalTrafficPolicy *corev1.ServiceInternalTrafficPolicy
	TrafficDistribution   *string
	Labels, Annotations   map[string]string
	// Policy is the winner's policy, with the shares of all exports. If it prefers no tiers, its TrafficDistribution can.
	Policy topology.Policy

	// Ports are the union of all exports' ports, the winner's first.
	Ports []Port
	// IPFamilies are those of the oldest export that states any, in its order. Families that are not the younger exports' lead to some
	// of the backends only, which is a conflict. But if they were left out, a later export could take the addresses from clients that
	// use them, and so all of them from a cluster that has no other family.
	IPFamilies []corev1.IPFamily

	// Conflicts are the fields in which the exports differ, sorted by reason.
	Conflicts []Conflict
}

// Resolve merges the exports of one (namespace, name). The oldest export wins. If several are equally old, which is common
// because timestamps have a resolution of one second, the cluster whose name sorts first wins. No export is older than its cluster's
// membership. The order of exports doesn't matter. Without exports the result is the zero Resolved, whose Clusters are empty.
//
// The result shares maps and pointers with the exports.
func Resolve(exports []Export) Resolved {
	if len(exports) == 0 {
		return Resolved{}
	}
	exports = byAge(exports)
	winner := exports[0]
	spec := winner.Spec
	r := Resolved{
		Namespace: spec.ServiceNamespace,
		Name:      spec.ServiceName,
		Winner:    winner.Cluster,

		Type:                  spec.Type,
		SessionAffinity:       spec.SessionAffinity,
		SessionAffinityConfig: spec.SessionAffinityConfig,
		InternalTrafficPolicy: spec.InternalTrafficPolicy,
		TrafficDistribution:   spec.TrafficDistribution,
		Labels:                nonEmpty(spec.ExportedLabels),
		Annotations:           nonEmpty(spec.ExportedAnnotations),

		Ports: unitePorts(exports),
	}
	for _, e := range exports {
		if len(r.IPFamilies) == 0 { // a Headless Service of an API server older than the field has none
			r.IPFamilies = slices.Clone(e.Spec.IPFamilies)
		}
		r.Clusters = append(r.Clusters, e.Cluster)
	}
	slices.Sort(r.Clusters)
	stated, _ := policy.FromExport(spec.Policy, nil) // door.CompactService has removed invalid values
	r.Policy = policy.WithTrafficDistribution(stated, spec.TrafficDistribution)
	r.Policy.Shares = map[string]int{}
	for _, e := range exports {
		if share := e.Spec.Share; share != nil && *share < 100 {
			r.Policy.Shares[e.Cluster] = int(*share)
		}
	}
	r.Conflicts = conflicts(exports)
	return r
}

// byAge returns one export of each cluster, the winner's first.
func byAge(exports []Export) []Export {
	sorted := slices.SortedFunc(slices.Values(exports), func(a, b Export) int {
		return cmp.Or(exportedAt(a).Compare(exportedAt(b)), cmp.Compare(a.Cluster, b.Cluster))
	})
	seen := make(map[string]bool, len(sorted))
	return slices.DeleteFunc(sorted, func(e Export) bool {
		again := seen[e.Cluster]
		seen[e.Cluster] = true
		return again
	})
}

// exportedAt returns the time in the record, but no earlier than its cluster joined: otherwise a member could win any service by
// claiming 1970, and change its type or remove its addresses. It is truncated to seconds, like times in JSON: an exporter that merges
// its own new record, which still has fractions, must get the same result as all others.
func exportedAt(e Export) time.Time {
	at := e.Spec.ExportedAt.Time
	if e.Joined.After(at) {
		at = e.Joined
	}
	return at.Truncate(time.Second)
}

func nonEmpty(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}

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
