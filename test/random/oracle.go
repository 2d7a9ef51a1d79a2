package random

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/rank"
)

// The oracle computes what every name must answer in a random run. It follows docs/spec/answers.md and
// docs/spec/control-plane.md. Comments in these files cite their rules. The oracle uses nothing of internal/merge,
// internal/index or similar packages. It reads only what users made in the members, never what was sent between them, so it
// also notices a record that got lost on the way.
//
// It can't compute the ClusterSetIP, because the API server chooses it (D27 of docs/spec/data-path.md). It reads it from the
// derived Service, for the families that it computes itself.

// World is everything that the users of all clusters have made.
type World struct {
	Clusters []*View
}

// View is everything that the users of one cluster have made.
type View struct {
	fleettest.Spec
	Drained bool // or Suspect
	Expired bool
	In      []string // the communities in its MemberCluster
	// Network is the network in its MemberCluster, and External are spec.externalCIDRs.
	Network  string
	External []string
	// Unreachable are the clusters that it can't reach.
	Unreachable map[string]bool
	namespaces  map[string]bool
	services    map[types.NamespacedName]*corev1.Service
	exports     map[types.NamespacedName]*mcsv1beta1.ServiceExport
	slices      map[types.NamespacedName][]discoveryv1.EndpointSlice
	// open are the namespaces in which Services may be extended, and extending the slices that extend them.
	open      map[string]bool
	extending map[types.NamespacedName][]discoveryv1.EndpointSlice
	// derived are the Services with ClusterSetIPs, by the service that they represent.
	derived map[types.NamespacedName]*corev1.Service
}

func newView(spec fleettest.Spec) *View {
	return &View{
		Spec: spec, Unreachable: map[string]bool{}, namespaces: map[string]bool{}, open: map[string]bool{},
		services: map[types.NamespacedName]*corev1.Service{}, derived: map[types.NamespacedName]*corev1.Service{},
		exports: map[types.NamespacedName]*mcsv1beta1.ServiceExport{},
		slices:  map[types.NamespacedName][]discoveryv1.EndpointSlice{}, extending: map[types.NamespacedName][]discoveryv1.EndpointSlice{},
	}
}

// Observe reads the world's current state.
func (r *Run) Observe() (*World, error) {
	w := &World{}
	for _, m := range r.Members {
		c := newView(m.Spec)
		for _, other := range r.Members {
			c.Unreachable[other.Spec.Name] = r.Paths.IsCut(m.Spec.Name, other.Spec.Name)
		}
		w.Clusters = append(w.Clusters, c)
		var mc clustersetv1alpha1.MemberCluster
		if err := r.Hub.Get("", m.Spec.Name, &mc); err != nil {
			return nil, err
		}
		c.Drained, c.In, c.Network, c.External = mc.Spec.Drain, mc.Spec.Communities, mc.Spec.Network, mc.Spec.ExternalCIDRs
		for _, ns := range r.Script.Namespaces {
			if err := c.read(m, ns); err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}

func (c *View) read(m *fleettest.Member, ns string) error {
	var found corev1.NamespaceList
	if err := m.List(&found, client.MatchingLabels{corev1.LabelMetadataName: ns}); err != nil {
		return err
	}
	c.namespaces[ns] = len(found.Items) == 1
	c.open[ns] = c.namespaces[ns] && found.Items[0].Labels["clusterset.dev/extend"] == "allowed"
	var services corev1.ServiceList
	var exports mcsv1beta1.ServiceExportList
	var endpoints discoveryv1.EndpointSliceList
	for _, list := range []client.ObjectList{&services, &exports, &endpoints} {
		if err := m.List(list, client.InNamespace(ns)); err != nil {
			return err
		}
	}
	for i := range services.Items {
		s := &services.Items[i]
		if of := s.Labels["multicluster.kubernetes.io/service-name"]; of != "" {
			c.derived[types.NamespacedName{Namespace: ns, Name: of}] = s
		} else {
			c.services[client.ObjectKeyFromObject(s)] = s
		}
	}
	for i := range exports.Items {
		c.exports[client.ObjectKeyFromObject(&exports.Items[i])] = &exports.Items[i]
	}
	for _, s := range endpoints.Items {
		if of := s.Labels[extendsLabel]; of != "" {
			key := types.NamespacedName{Namespace: ns, Name: of}
			c.extending[key] = append(c.extending[key], s)
		} else if s.Labels["multicluster.kubernetes.io/service-name"] == "" {
			key := types.NamespacedName{Namespace: ns, Name: s.Labels["kubernetes.io/service-name"]}
			c.slices[key] = append(c.slices[key], s)
		}
	}
	return nil
}

// marksHonoured returns an error if a marked Service has no ServiceExport, or if a ServiceExport is left over from a removed
// mark (C1).
func (w *World) marksHonoured() error {
	const mark = "fabedge.io/global-service"
	for _, c := range w.Clusters {
		for key, s := range c.services {
			if (s.Labels[mark] == "true" || s.Annotations[mark] == "true") && c.exports[key] == nil {
				return fmt.Errorf("%s: Service %s is marked, but there is no ServiceExport", c.Name, key)
			}
		}
		for key, e := range c.exports {
			if e.Labels[userLabel] != "" {
				continue // a user created it
			}
			owner, s := metav1.GetControllerOf(e), c.services[key]
			switch {
			case owner == nil:
				return fmt.Errorf("%s: ServiceExport %s is nobody's", c.Name, key)
			case s == nil || owner.UID != s.UID:
				return fmt.Errorf("%s: ServiceExport %s belongs to a Service that is gone", c.Name, key)
			case s.Labels[mark] != "true" && s.Annotations[mark] != "true":
				return fmt.Errorf("%s: ServiceExport %s is left over from a mark", c.Name, key)
			}
		}
	}
	return nil
}

// Part is one cluster's part of a service.
type Part struct {
	*View
	service *corev1.Service
	since   metav1.Time
	slices  []discoveryv1.EndpointSlice
	to      []string // the clusters and communities that the export is for, if only is set
	only    bool
	share   int // the per cent of its endpoints that is used as usual
}

// Parts returns the exporting clusters of a service (C1, C2), the winner first (C10).
func (w *World) Parts(key types.NamespacedName) []Part {
	var all []Part
	for _, c := range w.Clusters {
		s, e := c.services[key], c.exports[key]
		if s != nil && e != nil && s.Spec.Type != corev1.ServiceTypeExternalName {
			to, only := exportedTo(s, e)
			all = append(all, Part{c, s, e.CreationTimestamp, c.slices[key], to, only, shareOf(s, e)})
		}
	}
	slices.SortFunc(all, func(a, b Part) int {
		return cmp.Or(a.since.Compare(b.since.Time), strings.Compare(a.Name, b.Name))
	})
	return all
}

// shareOf returns the share that an export states, or all (C62).
func shareOf(s *corev1.Service, e *mcsv1beta1.ServiceExport) int {
	text, stated := e.Annotations["clusterset.dev/share"]
	if !stated {
		text, stated = s.Annotations["clusterset.dev/share"]
	}
	if percent, err := strconv.Atoi(text); stated && err == nil {
		return percent
	}
	return 100
}

// spare returns the addresses of the part's ready endpoints beyond its share (A80).
func (p Part) spare() map[netip.Addr]bool {
	var ready []netip.Addr
	for _, b := range p.backends(nil) {
		if b.ready {
			ready = append(ready, netip.MustParseAddr(b.address))
		}
	}
	return rank.Spare(p.share, ready)
}

// Addresses returns the addresses of the part's endpoints, ready or not, sorted.
func (p Part) Addresses() (all []string) {
	for _, b := range p.backends(nil) {
		all = append(all, b.address)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Renew makes some of a cluster's ServiceExports look as if they were created now.
func (w *World) Renew(cluster string, which func(*mcsv1beta1.ServiceExport) bool) {
	for _, c := range w.Clusters {
		for _, e := range c.exports {
			if c.Name == cluster && which(e) {
				e.CreationTimestamp = metav1.Now()
			}
		}
	}
}

// Keys returns every exported service.
func (w *World) Keys() []types.NamespacedName {
	var all []types.NamespacedName
	for _, c := range w.Clusters {
		for key := range c.exports {
			if len(w.Parts(key)) > 0 && !slices.Contains(all, key) {
				all = append(all, key)
			}
		}
	}
	return all
}

func (p Part) headless() bool { return p.service.Spec.ClusterIP == "None" }

// has reports whether the cluster's own Service has this port with the same number.
func (p Part) has(port mergedPort) bool {
	return slices.ContainsFunc(p.service.Spec.Ports, port.is)
}

// mergedPort is a port of the service that all parts add up to.
type mergedPort struct {
	name     string // in DNS
	original string // in the clusters that have it
	protocol corev1.Protocol
	number   int32
}

func (m mergedPort) is(q corev1.ServicePort) bool {
	return m.original == q.Name && m.protocol == q.Protocol && m.number == q.Port
}

// label returns the first labels of the port's name in DNS, such as "_http._tcp".
func (m mergedPort) label() string { return "_" + m.name + "._" + strings.ToLower(string(m.protocol)) }

// mergedPorts returns the ports by C13, with their names by C14. No test names a port like a generated name of another number.
func mergedPorts(parts []Part) []mergedPort {
	var all []mergedPort
	for _, p := range parts {
		for _, q := range p.service.Spec.Ports {
			name := q.Name
			if name == "" {
				name = fmt.Sprintf("%s-%d", strings.ToLower(string(q.Protocol)), q.Port)
			}
			if !slices.ContainsFunc(all, func(m mergedPort) bool {
				return m.name == name || m.protocol == q.Protocol && m.number == q.Port
			}) {
				all = append(all, mergedPort{name, q.Name, q.Protocol, q.Port})
			}
		}
	}
	return all
}
