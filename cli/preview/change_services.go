package preview

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/internal/near"
	"github.com/clusterset/clusterset/internal/policy"
)

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

func (e *Export) String() string { return "exporting " + e.Service + " from " + e.From }

func (e *Export) apply(a *after) error {
	key, err := ParseService(e.Service)
	if err != nil {
		return err
	}
	if _, err := a.member(e.From); err != nil {
		return err
	}
	if e.Records == nil || e.Records.Service == nil {
		return fmt.Errorf("there is no information about a Service %s in %s", e.Service, e.From)
	}
	r := a.services[key]
	if r == nil {
		r = &records{}
	}
	if r.exports(e.From) {
		a.note("%s is exported from %s already", e.Service, e.From)
		return nil
	}
	r = r.without(e.From)
	r.services = append(r.services, e.Records.Service)
	r.endpoints = append(r.endpoints, e.Records.Endpoints...)
	a.services[key] = r
	return nil
}

type unexport Export

func (e *unexport) String() string { return "no longer exporting " + e.Service + " from " + e.From }

func (e *unexport) apply(a *after) error {
	key, _, err := a.exporting(e.Service, e.From)
	if err == nil {
		a.withdraw(key, e.From)
	}
	return err
}

// withdraw removes a cluster's records of a service.
func (a *after) withdraw(key types.NamespacedName, cluster string) {
	if !a.services[key].exports(cluster) {
		return
	}
	if a.services[key] = a.services[key].without(cluster); len(a.services[key].services) == 0 {
		delete(a.services, key)
	}
}

// exporting returns a service that the cluster exports. If cluster is empty, any exporting cluster will do.
func (a *after) exporting(service, cluster string) (types.NamespacedName, *records, error) {
	key, err := ParseService(service)
	r := a.services[key]
	switch {
	case err != nil:
	case r == nil:
		err = near.Unknown("exported service", key.String(), names(a.Services()))
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

func names(keys []types.NamespacedName) (all []string) {
	for _, key := range keys {
		all = append(all, key.String())
	}
	return all
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

// exportsOf names a service as one cluster exports it, or as all do.
func exportsOf(service, from string) string {
	if from == "" {
		return service
	}
	return service + " of " + from
}

// Policy changes the policy in the exports of a service, from all clusters or from one. Empty fields are unchanged.
type Policy struct {
	Service string `json:"service"`
	// From is the name of the cluster. Empty: all clusters that export the service.
	From string `json:"from,omitempty"`
	// Prefer, Boundary and MinReady have the syntax of the annotations.
	clustersetv1alpha1.ServicePolicy `json:",inline"`
}

func (p *Policy) String() string {
	stated, _ := policy.FromExport(&p.ServicePolicy, nil) // validated when it was applied
	return "giving " + exportsOf(p.Service, p.From) + " the policy " + stated.String()
}

func (p *Policy) apply(a *after) error {
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

// ExportTo changes the clusters and communities that a service is exported to, by all clusters that export it or by one.
type ExportTo struct {
	Service string `json:"service"`
	// From is the name of the cluster. Empty: all clusters that export the service.
	From string `json:"from,omitempty"`
	// To are names of clusters and communities. "-" alone means all clusters that share a community with the exporting one.
	To []string `json:"to"`
}

func (e *ExportTo) toAll() bool { return slices.Equal(e.To, []string{"-"}) }

func (e *ExportTo) String() string {
	if e.toAll() {
		return "exporting " + exportsOf(e.Service, e.From) + " to all clusters"
	}
	return "limiting the export of " + exportsOf(e.Service, e.From) + " to " + screen.And(e.To)
}

func (e *ExportTo) apply(a *after) error {
	to := e.To
	switch {
	case len(to) == 0:
		return errors.New("exportTo: to is missing: want clusters or communities, or - for all")
	case len(to) > clustersetv1alpha1.MaxExportTo:
		return fmt.Errorf("exportTo: there are %d names; want %d at most", len(to), clustersetv1alpha1.MaxExportTo)
	case e.toAll():
		to = nil
	}
	known := communities.Set{}
	for _, m := range a.members {
		known[m.Name] = m.Spec.Communities
	}
	for _, name := range to {
		if err := api.CheckLabel(name); err != nil {
			return fmt.Errorf("exportTo: %q %w", name, err)
		}
		if !slices.Contains(known.Names(), name) {
			return fmt.Errorf("exportTo: %w", near.Unknown("cluster or community", name, known.Names()))
		}
	}
	return a.exports(e.Service, e.From, func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.ExportTo = to })
}
