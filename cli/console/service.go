package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/cli/explain"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/view"
)

// Service is the answer of /api/service: what each place uses of one service, and what would change.
type Service struct {
	// Item is nil if no cluster exports the service now. ItemAfter is set with changes, unless none exports it after them.
	Item      *Item `json:"item"`
	ItemAfter *Item `json:"itemAfter,omitempty"`
	// Names are those that clients use, and Members have its addresses.
	Names   []string `json:"names"`
	Members []Member `json:"members,omitempty"`
	// Columns are the clusters that export it now, and ColumnsAfter those after the changes, nil if there are no changes.
	Columns      []Column         `json:"columns"`
	ColumnsAfter []Column         `json:"columnsAfter"`
	Effects      []preview.Effect `json:"effects"`
	// Rows have the places with the same Answers. After is nil if they don't change.
	Rows []preview.Cell `json:"rows"`
	// Conflicts exist now. Changed are those that the changes begin or end.
	Conflicts []preview.Conflict `json:"conflicts"`
	Changed   []preview.Conflict `json:"changed,omitempty"`
	Notes     []string           `json:"notes,omitempty"`
}

// Column is a cluster that exports the service. Its state is that of the Map.
type Column struct {
	Exporter
	ExportedAt time.Time `json:"exportedAt"`
	ClusterIPs []string  `json:"clusterIPs,omitempty"`
	// ExportTo are the clusters and communities that its export is for. Empty: all.
	ExportTo []string `json:"exportTo,omitempty"`
	// Unseen are the clusters that don't see its export.
	Unseen []Unseen `json:"unseen,omitempty"`
}

// Unseen has the clusters that don't see an export for one reason.
type Unseen struct {
	// Why is the sentence that `clusterset explain` has, with {exporter} and {viewer} for the names of the two clusters.
	Why string `json:"why"`
	// From are the clusters that don't see it, sorted.
	From []string `json:"from"`
}

// service answers /api/service.
func (s *Server) service(ctx context.Context, q query) (*Service, error) {
	key, from, is, err := s.about(ctx, q, "from")
	if err != nil {
		return nil, err
	}
	was, then := is.set.state.Exported(key), is.after.Exported(key)
	if was == nil && then == nil {
		return nil, problem{http.StatusNotFound, fmt.Errorf("no cluster exports %s", key)}
	}
	o := s.options.Preview
	o.Services, o.From, o.All = []types.NamespacedName{key}, from, true
	result, err := is.set.state.Preview(ctx, is.list, o)
	if err != nil {
		return nil, badRequest("%w", err)
	}
	out := &Service{
		Item: item(was), Columns: columnsOf(is.set.state, was), Rows: []preview.Cell{}, Effects: []preview.Effect{},
		Conflicts: []preview.Conflict{}, Notes: is.notes,
	}
	if is.changed() {
		out.ItemAfter, out.ColumnsAfter = item(then), columnsOf(is.after, then)
	}
	if was != nil {
		for i := range was.Conflicts {
			out.Conflicts = append(out.Conflicts, preview.ConflictOf(&was.Conflicts[i]))
		}
	}
	for i := range result.Services { // one, or none that has clients
		svc := &result.Services[i]
		out.Effects, out.Rows, out.Changed = append(out.Effects, svc.Effects...), append(out.Rows, svc.Cells...), svc.Conflicts
	}
	for i := range out.Rows {
		if row := &out.Rows[i]; len(row.Effects.All()) == 0 {
			row.After = nil
		}
	}
	out.access(key, is.sources)
	return out, nil
}

// columnsOf returns the clusters that export a service, by name.
func columnsOf(state *preview.State, e *preview.Exported) (all []Column) {
	i := item(e)
	if all = []Column{}; i == nil {
		return all
	}
	unseen := state.Unseen(types.NamespacedName{Namespace: e.Namespace, Name: e.Name})
	for n, by := range e.By {
		c := Column{Exporter: i.Clusters[n], ExportedAt: by.ExportedAt, ClusterIPs: by.ClusterIPs, ExportTo: by.ExportTo}
		for _, u := range unseen[by.Cluster] {
			c.Unseen = append(c.Unseen, Unseen{Why: u.Why.Words("{exporter}", "{viewer}"), From: u.From})
		}
		all = append(all, c)
	}
	return all
}

// Member is what a member that the console reads has of a service.
type Member struct {
	Cluster       string   `json:"cluster"`
	Context       string   `json:"context"`
	ClusterSetIPs []string `json:"clusterSetIPs,omitempty"`
	// Extended says that its own Service leads to other clusters while it has no ready endpoint.
	Extended bool `json:"extended,omitempty"`
}

// access adds how clients use the service. The rows say what its names are in each place.
func (s *Service) access(key types.NamespacedName, sources []*Source) {
	below := key.Name + "." + key.Namespace + ".svc."
	s.Names = []string{below + explain.DefaultZone}
	if slices.ContainsFunc(s.Rows, func(r preview.Cell) bool { return r.Before != nil && r.Before.Global.Result != preview.NXDomain }) {
		s.Names = append(s.Names, below+"global")
	}
	for _, from := range sources {
		if from.Local == nil {
			continue
		}
		m := Member{Cluster: from.Cluster, Context: from.Context}
		for i := range from.Local.Imports {
			if o := &from.Local.Imports[i]; o.Namespace == key.Namespace && o.Name == key.Name {
				m.ClusterSetIPs = o.Spec.IPs
			}
		}
		m.Extended = slices.ContainsFunc(from.Local.Asking, func(a view.Asking) bool {
			return a.Is && a.Service.Namespace == key.Namespace && a.Service.Name == key.Name
		})
		s.Members = append(s.Members, m)
	}
	if slices.ContainsFunc(s.Members, func(m Member) bool { return m.Extended }) {
		s.Names = append(s.Names, below+explain.OwnZone)
	}
}

// Endpoints is the answer of /api/endpoints: explanations for one place. They are nil if the name doesn't exist there.
type Endpoints struct {
	Before *explain.Explanation `json:"before"`
	After  *explain.Explanation `json:"after,omitempty"`
}

// endpoints answers /api/endpoints.
func (s *Server) endpoints(ctx context.Context, q query) (out Endpoints, err error) {
	zone := map[string]string{"": explain.DefaultZone, "mcs": explain.DefaultZone, "global": "global"}[q.Get("zone")]
	if zone == "" {
		return out, badRequest("zone is %q; want mcs or global", q.Get("zone"))
	}
	key, from, is, err := s.about(ctx, q, "place")
	if err != nil {
		return out, err
	}
	name, err := explain.ParseName(key.Name + "." + key.Namespace + ".svc." + zone)
	if err != nil {
		return out, badRequest("service: %w", err)
	}
	ask := explain.Query{Name: name, From: from, Policy: s.options.Preview.Policy}
	out.Before, err = s.predicted(ask, is.set.state, key)
	if err == nil && is.changed() {
		out.After, err = s.predicted(ask, is.after, key)
	}
	return out, err
}

// predicted explains what would be answered for the objects that the importer there writes. It returns nil if the name doesn't exist there, or
// the cluster isn't in the set.
func (s *Server) predicted(q explain.Query, state *preview.State, key types.NamespacedName) (*explain.Explanation, error) {
	if state.Member(q.From.Cluster) == nil {
		return nil, nil //nolint:nilnil // there is no answer
	}
	facts := explain.FromObjects(state.Objects(key, q.From.Cluster, s.options.Preview))
	facts.Self, facts.Now = q.From.Cluster, time.Now()
	facts.See(state.Records(key), state.Member, q.From.Cluster)
	e, err := explain.Explain(q, *facts)
	switch {
	case errors.As(err, new(*explain.NotFoundError)):
		return nil, nil //nolint:nilnil // that it doesn't exist is the answer
	case err != nil:
		return nil, badRequest("%w", err)
	case e.Tier == "" && slices.ContainsFunc(e.Addresses, preview.IsStandIn):
		e.Addresses = nil
		e.Notes = append(e.Notes, "the address is the ClusterSetIP that the cluster has assigned; the hub has no record of it")
	}
	return e, nil
}
