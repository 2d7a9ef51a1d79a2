package console

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/cli/explain"
	"github.com/clusterset/clusterset/cli/preview"
)

// endpoints answers /api/endpoints.
func (s *Server) endpoints(ctx context.Context, q query) (any, error) {
	key, err := preview.ParseService(q.Get("service"))
	if err != nil {
		return nil, badRequest("service: %w", err)
	}
	zone := map[string]string{"": explain.DefaultZone, "mcs": explain.DefaultZone, "global": "global"}[q.Get("zone")]
	if zone == "" {
		return nil, badRequest("zone is %q; want mcs or global", q.Get("zone"))
	}
	name, err := explain.ParseName(key.Name + "." + key.Namespace + ".svc." + zone)
	if err != nil {
		return nil, badRequest("service: %w", err)
	}
	from, err := q.place("place")
	if err != nil {
		return nil, err
	}
	a, err := s.asked(ctx, q)
	if err != nil {
		return nil, err
	}
	ask := explain.Query{Name: name, From: from, Policy: s.options.Preview.Policy}
	var out Endpoints
	if out.Before, err = s.predicted(ask, a.set.state, key); err != nil {
		return nil, err
	}
	if a.after != a.set.state {
		out.After, err = s.predicted(ask, a.after, key)
	}
	return &out, err
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
	facts.Now = time.Now()
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
