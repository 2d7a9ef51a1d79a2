package preview

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
	if e.Records == nil || e.Records.Service == nil {
		return fmt.Errorf("there is no information about a Service %s in %s", e.Service, e.From)
	}
	r := a.services[key]
	if r.exports(e.From) {
		a.note("%s is exported from %s already", e.Service, e.From)
		return nil
	}
	r = r.without(e.From)
	a.services[key] = records{append(r.services, e.Records.Service), append(r.endpoints, e.Records.Endpoints...)}
	return a.each([]string{e.From}, func(*clustersetv1alpha1.MemberCluster) {})
}

type unexport Export

func (e *unexport) String() string { return "no longer exporting " + e.Service + " from " + e.From }

func (e *unexport) apply(a *after) error {
	key, err := a.exported(e.Service)
	if err == nil && !a.services[key].exports(e.From) {
		err = fmt.Errorf("%s isn't exported from %s", key, e.From)
	}
	if err == nil {
		a.withdraw(key, e.From)
	}
	return err
}

// ExportShare is an export of which so many per cent of the ready endpoints are used as usual.
type ExportShare struct {
	Service string `json:"service"`
	In      string `json:"in"`
	Percent int32  `json:"percent"`
}

func (s *ExportShare) String() string {
	return fmt.Sprintf("giving %s in %s the share %d%%", s.Service, s.In, s.Percent)
}

func (s *ExportShare) apply(a *after) error {
	key, err := a.exported(s.Service)
	switch {
	case err != nil:
		return err
	case !a.services[key].exports(s.In):
		return fmt.Errorf("%s isn't exported from %s", key, s.In)
	case s.Percent < 0 || s.Percent > 100:
		return errors.New("share: want a whole number from 0 to 100 per cent")
	}
	a.restate(key, func(cluster string, spec *clustersetv1alpha1.ExportedServiceSpec) {
		if cluster == s.In {
			spec.Share = &s.Percent
		}
	})
	return nil
}

// restate replaces a service's ExportedServices by copies, which it changes.
func (a *after) restate(key types.NamespacedName, change func(cluster string, spec *clustersetv1alpha1.ExportedServiceSpec)) {
	all := slices.Clone(a.services[key].services)
	for i, s := range all {
		all[i] = s.DeepCopy()
		change(of(s), &all[i].Spec)
	}
	a.services[key] = records{all, a.services[key].endpoints}
}

// withdraw removes a cluster's records of a service.
func (a *after) withdraw(key types.NamespacedName, cluster string) {
	a.services[key] = a.services[key].without(cluster)
	if len(a.services[key].services) == 0 {
		delete(a.services, key)
	}
}

// exported returns a service that is exported.
func (a *after) exported(service string) (types.NamespacedName, error) {
	key, err := ParseService(service)
	if err == nil && len(a.services[key].services) == 0 {
		err = near.Unknown("exported service", key.String(), names(a.Services()))
	}
	return key, err
}

func names(keys []types.NamespacedName) (all []string) {
	for _, key := range keys {
		all = append(all, key.String())
	}
	return all
}

// Policy changes what all exports of a service state. Empty fields are unchanged.
type Policy struct {
	Service string `json:"service"`
	// Prefer, Boundary and MinReady have the syntax of the annotations.
	clustersetv1alpha1.ServicePolicy `json:",inline"`
	// ExportTo are names of clusters and communities. "-" means all clusters that share a community with the exporting one.
	ExportTo []string `json:"exportTo,omitempty"`
}

func (p *Policy) String() string {
	stated, _ := policy.FromExport(&p.ServicePolicy, nil) // validated when it was applied
	words := but([]string{cmp.Or(stated.String(), "-")})
	if len(p.ExportTo) > 0 {
		words = append(words, "export-to "+screen.And(p.ExportTo))
	}
	return "giving " + p.Service + " the policy " + strings.Join(words, ", ")
}

func (p *Policy) apply(a *after) error {
	key, err := a.exported(p.Service)
	if err != nil {
		return err
	}
	stated, errs := policy.FromExport(&p.ServicePolicy, nil)
	if len(errs) > 0 {
		return fmt.Errorf("policy of %s: %w", p.Service, errs.ToAggregate())
	}
	if stated.IsZero() && len(p.ExportTo) == 0 {
		return errors.New("policy: prefer, boundary, minReady and exportTo are missing: want at least one")
	}
	known := communities.Set{}
	for _, m := range a.members {
		known[m.Name] = m.Spec.Communities
	}
	for _, name := range but(p.ExportTo) {
		if !slices.Contains(known.Names(), name) {
			return fmt.Errorf("exportTo: %w", near.Unknown("cluster or community", name, known.Names()))
		}
	}
	a.restate(key, func(_ string, spec *clustersetv1alpha1.ExportedServiceSpec) {
		was, _ := policy.FromExport(spec.Policy, field.NewPath("spec"))
		spec.Policy = policy.Export(stated.Or(was))
		if len(p.ExportTo) > 0 {
			spec.ExportTo = but(p.ExportTo)
		}
	})
	return nil
}
