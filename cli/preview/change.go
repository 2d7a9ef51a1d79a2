package preview

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/near"
	"github.com/clusterset/clusterset/internal/policy"
)

// Change is one change, as a file of changes states it. Exactly one field is set.
type Change struct {
	// Down are clusters that fail together, long enough for the hub to mark them as it would.
	Down []string `json:"down,omitempty"`
	// Unreachable is a path that breaks between clusters that the hub goes on hearing.
	Unreachable *Unreachable `json:"unreachable,omitempty"`
	// Drain and Undrain are clusters whose MemberCluster gets or loses spec.drain.
	Drain   []string `json:"drain,omitempty"`
	Undrain []string `json:"undrain,omitempty"`
	// Leave are clusters that leave the set.
	Leave    []string `json:"leave,omitempty"`
	Export   *Export  `json:"export,omitempty"`
	Unexport *Export  `json:"unexport,omitempty"`
	Place    *Move    `json:"place,omitempty"`
	Policy   *Policy  `json:"policy,omitempty"`
	// Communities and ExportTo change who sees which exports.
	Communities *Communities `json:"communities,omitempty"`
	ExportTo    *ExportTo    `json:"exportTo,omitempty"`
	// Network changes the network of a cluster.
	Network *Network `json:"network,omitempty"`
}

// Kinds lists the kinds of changes, for error messages.
const Kinds = "down, unreachable, drain, undrain, leave, export, unexport, place, policy, communities, exportTo and network"

// Unreachable are clusters that other clusters can't reach.
type Unreachable struct {
	Clusters []string `json:"clusters"`
	// From are the clusters that can't reach them. Empty: all others.
	From []string `json:"from,omitempty"`
}

// Export is a cluster's export of a service.
type Export struct {
	// Service is the service's namespace/name.
	Service string `json:"service"`
	// From is the name of the cluster.
	From string `json:"from"`
	// Context is the kubeconfig context from which the Service is read. Empty: as --kubeconfig and --context say.
	Context string `json:"context,omitempty"`
	// Records are the records that the cluster's exporter would write for the Service. They are nil for an unexport.
	Records *Records `json:"-"`
}

// Records are one cluster's records of one service on the hub.
type Records struct {
	Service   *clustersetv1alpha1.ExportedService
	Endpoints []*clustersetv1alpha1.ExportedEndpoints
}

// Move changes the zones or the region in a cluster's MemberCluster. Empty fields are unchanged; "-" means unknown.
type Move struct {
	Cluster string   `json:"cluster"`
	Zones   []string `json:"zones,omitempty"`
	Region  string   `json:"region,omitempty"`
}

// Policy changes the policy in the exports of a service, from all clusters or from one. Empty fields are unchanged.
type Policy struct {
	Service string `json:"service"`
	// From is the name of the cluster. Empty: all clusters that export the service.
	From string `json:"from,omitempty"`
	// Prefer, Boundary and MinReady have the syntax of the annotations.
	clustersetv1alpha1.ServicePolicy `json:",inline"`
}

// after is a State to which changes are being applied.
type after struct {
	*State
	// touched are the services whose answers may change in any place. moved are the clusters in which all answers may change.
	touched map[types.NamespacedName]bool
	moved   map[string]bool
	notes   []string
}

// apply returns the State after the changes, applied in order.
func (s *State) apply(changes []Change) (*after, error) {
	a := &after{State: s.copy(), touched: map[types.NamespacedName]bool{}, moved: map[string]bool{}}
	for i := range changes {
		if err := a.change(&changes[i]); err != nil {
			if len(changes) > 1 {
				err = fmt.Errorf("change %d: %w", i+1, err)
			}
			return nil, err
		}
	}
	a.known()
	return a, nil
}

// Apply returns the State after the changes, applied in order, and notes about them.
func (s *State) Apply(changes ...Change) (*State, []string, error) {
	a, err := s.apply(changes)
	if err != nil {
		return nil, nil, err
	}
	return a.State, a.notes, nil
}

func (a *after) change(c *Change) error {
	var steps []func() error
	add := func(stated bool, step func() error) {
		if stated {
			steps = append(steps, step)
		}
	}
	add(len(c.Down) > 0, func() error { return a.fall(c.Down) })
	add(c.Unreachable != nil, func() error { return a.cut(c.Unreachable) })
	add(len(c.Drain) > 0, func() error { return a.drain(c.Drain, true) })
	add(len(c.Undrain) > 0, func() error { return a.drain(c.Undrain, false) })
	add(len(c.Leave) > 0, func() error { return a.leave(c.Leave) })
	add(c.Export != nil, func() error { return a.export(c.Export) })
	add(c.Unexport != nil, func() error { return a.unexport(c.Unexport) })
	add(c.Place != nil, func() error { return a.move(c.Place) })
	add(c.Policy != nil, func() error { return a.state(c.Policy) })
	add(c.Communities != nil, func() error { return a.community(c.Communities) })
	add(c.ExportTo != nil, func() error { return a.exportTo(c.ExportTo) })
	add(c.Network != nil, func() error { return a.network(c.Network) })
	if len(steps) != 1 {
		return fmt.Errorf("it has %d of %s; want one", len(steps), Kinds)
	}
	return steps[0]()
}

// member replaces a cluster's MemberCluster in the State by a copy, and returns the copy to be changed.
func (a *after) member(name string) (*clustersetv1alpha1.MemberCluster, error) {
	m := a.members[name]
	if m == nil {
		return nil, near.Unknown("cluster", name, a.Clusters())
	}
	m = m.DeepCopy()
	a.members[name] = m
	return m, nil
}

// touch marks the services that a cluster exports as touched.
func (a *after) touch(cluster string) {
	for key, r := range a.services {
		if r.exports(cluster) {
			a.touched[key] = true
		}
	}
}

// service returns a service and its records.
func (a *after) service(text string) (types.NamespacedName, *records, error) {
	key, err := ParseService(text)
	if err != nil {
		return key, nil, err
	}
	a.touched[key] = true
	return key, a.services[key], nil
}

// ParseService parses namespace/name.
func ParseService(text string) (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("%q isn't a service: want NAMESPACE/NAME", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

func (a *after) drain(clusters []string, drain bool) error {
	for _, name := range clusters {
		m, err := a.member(name)
		if err != nil {
			return err
		}
		if m.Spec.Drain == drain {
			a.notes = append(a.notes, name+map[bool]string{true: " is drained already", false: " isn't drained"}[drain])
		}
		m.Spec.Drain = drain
		a.touch(name)
	}
	return nil
}

// cut breaks the way to clusters.
func (a *after) cut(u *Unreachable) error {
	if len(u.Clusters) == 0 {
		return errors.New("unreachable: clusters is missing: want names of clusters")
	}
	for _, name := range slices.Concat(u.Clusters, u.From) {
		if _, err := a.member(name); err != nil {
			return err
		}
	}
	from := u.From
	if len(from) == 0 {
		from = a.Clusters()
	}
	for _, name := range u.Clusters {
		for _, cluster := range from {
			if cluster != name && !slices.Contains(a.unreachable[cluster], name) {
				a.unreachable[cluster] = slices.Sorted(slices.Values(append(slices.Clone(a.unreachable[cluster]), name)))
			}
		}
		a.touch(name)
	}
	return nil
}

func (a *after) leave(clusters []string) error {
	for _, name := range clusters {
		if _, err := a.member(name); err != nil {
			return err
		}
		a.touch(name)
		for key := range a.touched {
			a.withdraw(key, name)
		}
		delete(a.members, name)
	}
	return nil
}

// withdraw removes a cluster's records of a service.
func (a *after) withdraw(key types.NamespacedName, cluster string) {
	if r := a.services[key]; r != nil {
		if r = r.without(cluster); len(r.services) > 0 {
			a.services[key] = r
		} else {
			delete(a.services, key)
		}
	}
}

func (a *after) export(e *Export) error {
	key, r, err := a.service(e.Service)
	if err != nil {
		return err
	}
	if _, err := a.member(e.From); err != nil {
		return err
	}
	if e.Records == nil || e.Records.Service == nil {
		return fmt.Errorf("there is no information about a Service %s in %s", e.Service, e.From)
	}
	if r == nil {
		r = &records{}
	}
	if r.exports(e.From) {
		a.notes = append(a.notes, fmt.Sprintf("%s is exported from %s already", e.Service, e.From))
		return nil
	}
	r = r.without(e.From)
	r.services = append(r.services, e.Records.Service)
	r.endpoints = append(r.endpoints, e.Records.Endpoints...)
	a.services[key] = r
	return nil
}

func (a *after) unexport(e *Export) error {
	key, _, err := a.exporting(e.Service, e.From)
	if err != nil {
		return err
	}
	a.withdraw(key, e.From)
	return nil
}

// exported are the names of the services that are exported, sorted.
func (s *State) exported() (all []string) {
	for _, key := range s.Services() {
		all = append(all, key.String())
	}
	return all
}

// exporting returns a service that the cluster exports. If cluster is empty, any exporting cluster will do.
func (a *after) exporting(service, cluster string) (types.NamespacedName, *records, error) {
	key, r, err := a.service(service)
	switch {
	case err != nil:
	case r == nil:
		err = near.Unknown("exported service", key.String(), a.exported())
	case cluster != "" && !r.exports(cluster):
		var by []string
		for _, s := range r.services {
			by = append(by, of(s))
		}
		slices.Sort(by)
		err = fmt.Errorf("%s isn't exported from %s, but from %s", key, cluster, strings.Join(by, ", "))
	}
	return key, r, err
}

func (a *after) move(m *Move) error {
	to, err := a.member(m.Cluster)
	if err != nil {
		return err
	}
	if len(m.Zones) == 0 && m.Region == "" {
		return errors.New("place: zones and region are missing: want one or both")
	}
	if len(m.Zones) > 0 {
		zones := slices.DeleteFunc(slices.Clone(m.Zones), func(zone string) bool { return zone == "-" })
		to.Spec.Zone, to.Spec.Zones = "", zones
		if len(zones) == 1 {
			to.Spec.Zone, to.Spec.Zones = zones[0], nil
		}
	}
	if m.Region != "" {
		to.Spec.Region = strings.TrimPrefix(m.Region, "-")
		if m.Region != "-" {
			to.Spec.Region = m.Region
		}
	}
	return a.put("place", to)
}

// put checks a changed MemberCluster. The answers that lead to the cluster may change, and all in it.
func (a *after) put(what string, m *clustersetv1alpha1.MemberCluster) error {
	if errs := m.Validate(); len(errs) > 0 {
		return fmt.Errorf("%s of %s: %w", what, m.Name, errs.ToAggregate())
	}
	a.touch(m.Name)
	a.moved[m.Name] = true
	return nil
}

// state changes the policy that exports state.
func (a *after) state(p *Policy) error {
	stated, errs := policy.FromExport(&p.ServicePolicy, nil)
	if len(errs) > 0 {
		return fmt.Errorf("policy of %s: %w", p.Service, errs.ToAggregate())
	}
	if stated.IsZero() {
		return errors.New("policy: prefer, boundary and minReady are missing: want at least one")
	}
	return a.exports(p.Service, p.From, func(spec *clustersetv1alpha1.ExportedServiceSpec) {
		was, _ := policy.FromExport(spec.Policy, field.NewPath("spec"))
		spec.Policy = policy.Export(stated.Or(was))
	})
}

// exports changes the exports of a service from one cluster, or from all if cluster is empty.
func (a *after) exports(service, cluster string, change func(*clustersetv1alpha1.ExportedServiceSpec)) error {
	key, r, err := a.exporting(service, cluster)
	if err != nil {
		return err
	}
	r = &records{slices.Clone(r.services), r.endpoints}
	for i, s := range r.services {
		if cluster == "" || of(s) == cluster {
			s = s.DeepCopy()
			change(&s.Spec)
			r.services[i] = s
		}
	}
	a.services[key] = r
	return nil
}
