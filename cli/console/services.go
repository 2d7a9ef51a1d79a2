package console

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// usualPage and maxPage are the numbers of services in an answer.
const usualPage, maxPage = 100, 500

// orders are the orders of /api/services. Equal services are ordered by name.
var orders = map[string]func(a, b *Item) int{
	"":          byName,
	"name":      func(a, b *Item) int { return cmp.Compare(a.Name, b.Name) },
	"namespace": byName,
	"clusters":  func(a, b *Item) int { return cmp.Compare(len(a.Clusters), len(b.Clusters)) },
	"ready":     func(a, b *Item) int { return cmp.Compare(a.Ready, b.Ready) },
}

func byName(a, b *Item) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// services answers /api/services.
func (s *Server) services(_ context.Context, q query) (any, error) {
	offset, err := q.number("offset", 0, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	limit, err := q.number("limit", usualPage, maxPage)
	if err != nil {
		return nil, err
	}
	order := orders[q.Get("sort")]
	if order == nil {
		return nil, badRequest("sort is %q; want name, namespace, clusters or ready", q.Get("sort"))
	}
	is := s.current()
	found, meant := []*Item{}, is.search(q.Get("q"))
	for _, key := range is.set.keys { // by namespace and name
		if i := is.set.items[key]; meant(key) && q.wants(i) {
			found = append(found, i)
		}
	}
	if q.Get("sort") != "" || q.Get("desc") != "" {
		slices.SortStableFunc(found, func(a, b *Item) int {
			if q.Get("desc") != "" {
				return order(b, a)
			}
			return order(a, b)
		})
	}
	page := found[min(offset, len(found)):]
	return &Services{Total: len(is.set.items), Matched: len(found), Offset: offset, Items: is.extended(page[:min(limit, len(page))])}, nil
}

// wants reports whether the filters of the query let a service pass.
func (q query) wants(i *Item) bool {
	cluster := q.Get("cluster")
	return (q.Get("namespace") == "" || q.Get("namespace") == i.Namespace) &&
		(q.Get("type") == "" || q.Get("type") == i.Type) &&
		(q.Get("conflicts") == "" || i.Conflicts > 0) &&
		(q.Get("policy") == "" || i.Policy != "") &&
		(q.Get("empty") == "" || i.Ready == 0) &&
		(cluster == "" || slices.ContainsFunc(i.Clusters, func(e Exporter) bool { return e.Name == cluster }))
}
