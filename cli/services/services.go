// Package services lists the services of a set: who exports and who imports each, how many endpoints are ready, and what is wrong. It is
// `clusterset services`. It is pure.
package services

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/policy"
	"github.com/clusterset/clusterset/internal/topology"
)

// Service is a service of the set. Fields are only ever added.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Type is ClusterSetIP or Headless, empty if it isn't known.
	Type       string     `json:"type,omitempty"`
	ExportedBy []Exporter `json:"exportedBy"`
	// Readiness is nil if it isn't known for every exporter.
	*preview.Readiness
	// ImportedBy are the clusters that import it: that may, by communities and export-to, and don't say that they lack its namespace. Only the hub
	// knows them.
	ImportedBy []string `json:"importedBy,omitempty"`
	// Everyone is set if all clusters do.
	Everyone bool     `json:"everyone,omitempty"`
	IPs      []string `json:"clusterSetIPs,omitempty"`
	Ports    []string `json:"ports,omitempty"`
	// Problems are those of `clusterset status`.
	Problems []view.Problem `json:"problems,omitempty"`
}

// Exporter is a cluster that exports a service.
type Exporter struct {
	Cluster string `json:"cluster"`
	// Ready is the number of its ready endpoints, as far as it is known.
	Ready *int `json:"ready,omitempty"`
	// Share is the per cent of them that is used as usual, if its export states less than all.
	Share *int `json:"share,omitempty"`
}

// Of lists the services of a cluster and of the hub, as far as they were read. slices are those that the cluster has imported.
func Of(facts view.Facts, imported []discoveryv1.EndpointSlice, report view.Report) []Service {
	local := facts.Local
	all := map[types.NamespacedName]*Service{}
	at := func(namespace, name string) *Service {
		key := types.NamespacedName{Namespace: namespace, Name: name}
		if all[key] == nil {
			all[key] = &Service{Namespace: namespace, Name: name, ExportedBy: []Exporter{}}
		}
		return all[key]
	}
	if local != nil {
		ready, phases := view.Ready(imported), map[string]clustersetv1alpha1.MemberClusterPhase{}
		for i := range local.Members {
			phases[local.Members[i].Name] = local.Members[i].Status.Phase
		}
		for i := range local.Imports {
			imp := &local.Imports[i]
			s := at(imp.Namespace, imp.Name)
			s.Type, s.IPs, s.Readiness = string(imp.Spec.Type), imp.Spec.IPs, &preview.Readiness{}
			stated, _ := policy.FromAnnotations(imp.Annotations, nil)
			for _, c := range imp.Status.Clusters {
				n := ready[client.ObjectKeyFromObject(imp)][c.Cluster]
				s.ExportedBy = append(s.ExportedBy, Exporter{c.Cluster, &n, shareOf(stated, c.Cluster)})
				s.Add(n, phases[c.Cluster])
			}
			for _, p := range imp.Spec.Ports {
				s.Ports = append(s.Ports, port(p.Name, p.Port, string(p.Protocol)))
			}
		}
		for i := range local.Exports {
			e := &local.Exports[i]
			if s := at(e.Namespace, e.Name); local.Cluster != "" && !slices.ContainsFunc(s.ExportedBy, func(e Exporter) bool { return e.Cluster == local.Cluster }) {
				s.ExportedBy, s.Readiness = append(s.ExportedBy, Exporter{Cluster: local.Cluster}), nil
			}
		}
	}
	if facts.Hub != nil {
		for key, e := range facts.Hub.Services {
			at(key.Namespace, key.Name).onHub(e, &facts)
		}
	}
	for _, p := range slices.Concat(report.All(), report.Services.Conflicts, report.Services.LastResort) {
		if s := all[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]; s != nil && p.Namespace != "" {
			s.Problems = append(s.Problems, p)
		}
	}
	list := make([]Service, 0, len(all))
	for _, s := range all {
		slices.SortFunc(s.ExportedBy, func(a, b Exporter) int { return cmp.Compare(a.Cluster, b.Cluster) })
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// onHub takes over what the hub's records say, which is newer than what the cluster has imported.
func (s *Service) onHub(e *preview.Exported, facts *view.Facts) {
	s.Type, s.ExportedBy, s.Readiness, s.Ports = string(e.Type), nil, &e.Readiness, nil
	state := facts.Hub.State
	clusters := state.Clusters()
	for _, by := range e.By {
		s.ExportedBy = append(s.ExportedBy, Exporter{by.Cluster, &by.Ready, shareOf(e.Policy, by.Cluster)})
	}
	for _, c := range clusters {
		visible := merge.Visible(c, state.Member)
		sees := func(by preview.Exporter) bool { return visible(by.Cluster, by.Spec.ExportTo) }
		if lacks, _ := facts.Hub.Lacks(state.Member(c), s.Namespace, facts.Now); !lacks && slices.ContainsFunc(e.By, sees) {
			s.ImportedBy = append(s.ImportedBy, c)
		}
	}
	s.Everyone = len(s.ImportedBy) == len(clusters)
	for _, p := range e.Ports {
		s.Ports = append(s.Ports, port(p.Name, p.Port, string(p.Protocol)))
	}
}

func shareOf(p topology.Policy, cluster string) *int {
	if percent, below := p.Shares[cluster]; below {
		return &percent
	}
	return nil
}

func port(name string, number int32, protocol string) string {
	return strings.TrimSpace(fmt.Sprintf("%s %d/%s", name, number, cmp.Or(protocol, "TCP")))
}

// Render lists the services for a person.
func Render(list []Service, style screen.Style) string {
	w := &screen.Writer{Colours: style.Colours}
	head := []string{"NAMESPACE", "NAME", "EXPORTED BY", "READY", "IMPORTED BY", "PROBLEMS"}
	if style.Wide {
		head = slices.Insert(head, 2, "TYPE", "CLUSTERSETIP", "PORTS")
	}
	var rows [][]screen.Cell
	for i := range list {
		s := &list[i]
		row := screen.T(s.Namespace, s.Name)
		if style.Wide {
			row = append(row, screen.T(screen.Or(s.Type), screen.Or(strings.Join(s.IPs, ",")), screen.Or(strings.Join(s.Ports, ", ")))...)
		}
		by := make([]string, len(s.ExportedBy))
		for j, e := range s.ExportedBy {
			by[j] = e.Cluster
			if style.Wide && e.Ready != nil {
				by[j] += " (" + strconv.Itoa(*e.Ready) + ")"
			}
			if e.Share != nil {
				by[j] += fmt.Sprintf(" %d%%", *e.Share)
			}
		}
		importers := screen.Or(style.Several(s.ImportedBy, 3))
		if s.Everyone {
			importers = "all"
		}
		rows = append(rows, append(row, screen.Cell{Text: screen.Or(style.Several(by, 3))}, s.readyCell(), screen.Cell{Text: importers}, s.problems(style.Wide)))
	}
	w.Table(head, rows)
	return w.String()
}

func (s *Service) readyCell() screen.Cell {
	switch {
	case s.Readiness == nil:
		return screen.Cell{Text: "-"}
	case s.Ready > 0:
		return screen.Cell{Text: strconv.Itoa(s.Ready)}
	case s.Silent > 0:
		return screen.Cell{Text: fmt.Sprintf("0 (%d silent)", s.Silent), Colour: screen.Warn}
	default:
		return screen.Cell{Text: "0", Colour: screen.Bad}
	}
}

func (s *Service) problems(wide bool) screen.Cell {
	var words []string
	for _, p := range s.Problems {
		if wide && p.Message != "" {
			words = append(words, p.Reason+": "+p.Message)
		} else if !slices.Contains(words, p.Reason) {
			words = append(words, p.Reason)
		}
	}
	return screen.Cell{Text: screen.Or(strings.Join(words, ", ")), Colour: map[bool]screen.Colour{true: screen.Warn}[len(words) > 0]}
}
