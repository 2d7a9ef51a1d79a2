package console

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/cli/explain"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/internal/merge"
)

// Service is the answer of /api/service: what each place uses of one service, and what would change.
type Service struct {
	// Item is nil if no cluster exports the service now. ItemAfter is set with changes, unless none exports it after them.
	Item      *Item            `json:"item"`
	ItemAfter *Item            `json:"itemAfter,omitempty"`
	Effects   []preview.Effect `json:"effects"`
	// Changed are the conflicts that the changes begin or end.
	Changed []preview.Conflict `json:"changed,omitempty"`
	// Rows have the places with the same Answers. After is nil if they don't change.
	Rows []preview.Cell `json:"rows"`
	// ClusterSetIPs are those in the members that the console reads, by context.
	ClusterSetIPs map[string][]string `json:"clusterSetIPs,omitempty"`
	// Led is how far answers led there, as counted so far.
	Led   map[string]map[string]float64 `json:"led,omitempty"`
	Notes []string                      `json:"notes,omitempty"`
}

// service answers /api/service.
func (s *Server) service(ctx context.Context, q url.Values) (*Service, error) {
	key, from, is, err := s.about(ctx, q, "from")
	if err != nil {
		return nil, err
	}
	out := &Service{Item: seen(is.set.state, key), Effects: []preview.Effect{}, Rows: []preview.Cell{}, ClusterSetIPs: map[string][]string{}, Led: map[string]map[string]float64{}, Notes: is.notes}
	then := seen(is.after, key)
	if out.Item == nil && then == nil {
		return nil, fmt.Errorf("no cluster exports %s", key)
	}
	if is.changed() {
		out.ItemAfter = then
	}
	o := s.options.Preview
	o.Services, o.From, o.All = []types.NamespacedName{key}, from, true
	result, err := is.set.state.Preview(ctx, is.list, o)
	if err != nil {
		return nil, err
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
	for _, from := range is.sources {
		if from.Local != nil {
			out.ClusterSetIPs[from.Context] = from.clusterSetIPs(key)
		}
		if from.Traffic != nil && from.Traffic.Servers > 0 {
			out.Led[from.Context] = from.Traffic.Services[key.String()]
		}
	}
	return out, nil
}

// seen is a service with the clusters that don't see its exports, nil if no cluster exports it.
func seen(state *preview.State, key types.NamespacedName) *Item {
	e := state.Exported(key)
	if e == nil {
		return nil
	}
	i := item(e)
	for n := range i.Clusters {
		by, from := &i.Clusters[n], map[merge.Sight][]string{}
		for _, viewer := range state.Clusters() {
			why := merge.Sees(viewer, state.Member)(by.Name, by.ExportTo)
			from[why] = append(from[why], viewer)
		}
		for _, why := range []merge.Sight{merge.Apart, merge.Withheld} {
			if len(from[why]) > 0 {
				by.Unseen = append(by.Unseen, Unseen{Why: why.Words("{exporter}", "{viewer}"), From: from[why]})
			}
		}
	}
	return i
}

// clusterSetIPs are those of a service in a member.
func (s *Source) clusterSetIPs(key types.NamespacedName) []string {
	for i := range s.Local.Imports {
		if o := &s.Local.Imports[i]; o.Namespace == key.Namespace && o.Name == key.Name {
			return o.Spec.IPs
		}
	}
	return nil
}

// Endpoints is the answer of /api/endpoints: explanations for one place. They are nil if the name doesn't exist there.
type Endpoints struct {
	Before *explain.Explanation `json:"before"`
	After  *explain.Explanation `json:"after,omitempty"`
}

// endpoints answers /api/endpoints.
func (s *Server) endpoints(ctx context.Context, q url.Values) (out Endpoints, err error) {
	zone := map[string]string{"": explain.DefaultZone, "mcs": explain.DefaultZone, "global": "global"}[q.Get("zone")]
	if zone == "" {
		return out, fmt.Errorf("zone is %q; want mcs or global", q.Get("zone"))
	}
	key, from, is, err := s.about(ctx, q, "place")
	if err != nil {
		return out, err
	}
	name, err := explain.ParseName(key.Name + "." + key.Namespace + ".svc." + zone)
	if err != nil {
		return out, fmt.Errorf("service: %w", err)
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
	facts.Self = q.From.Cluster
	facts.See(state.Records(key), state.Member, q.From.Cluster)
	e, err := explain.Explain(q, *facts)
	switch {
	case errors.As(err, new(*explain.NotFoundError)):
		return nil, nil //nolint:nilnil // that it doesn't exist is the answer
	case err != nil:
		return nil, err
	case e.Tier == "" && slices.ContainsFunc(e.Addresses, preview.IsStandIn):
		e.Addresses = nil
		e.Notes = append(e.Notes, "the address is the ClusterSetIP that the cluster has assigned; the hub has no record of it")
	}
	return e, nil
}
