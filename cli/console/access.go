package console

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/cli/explain"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/view"
)

// asking returns the Service of a member that asks to be extended to other clusters, or nil.
func asking(local *view.LocalFacts, key types.NamespacedName) *view.Asking {
	at := slices.IndexFunc(local.Asking, func(a view.Asking) bool { return a.Service.Namespace == key.Namespace && a.Service.Name == key.Name })
	if at < 0 {
		return nil
	}
	return &local.Asking[at]
}

// extended adds to the services in whose clusters they are extended.
func (s *shown) extended(items []*Item) []*Item {
	for n, i := range items {
		var by []string
		for _, from := range s.sources {
			if from.Local != nil {
				if a := asking(from.Local, types.NamespacedName{Namespace: i.Namespace, Name: i.Name}); a != nil && a.Is {
					by = append(by, from.Cluster)
				}
			}
		}
		if by != nil {
			with := *i
			with.Extended = by
			items[n] = &with
		}
	}
	return items
}

// access returns how clients use a service. rows say what its names are in each place.
func (s *Server) access(sources []*Source, key types.NamespacedName, rows []Row) Access {
	below := key.Name + "." + key.Namespace + ".svc."
	a := Access{Names: []string{below + explain.DefaultZone}}
	if slices.ContainsFunc(rows, func(r Row) bool { return r.Before != nil && r.Before.Global.Result != preview.NXDomain }) {
		a.Names = append(a.Names, below+"global")
	}
	for _, name := range a.Names {
		a.Commands = append(a.Commands, line("dig", "+short", name))
	}
	for _, from := range sources {
		if from.Local == nil {
			continue
		}
		m := Member{Cluster: from.Cluster, Context: from.Context}
		at := slices.IndexFunc(from.Local.Imports, func(o mcsv1beta1.ServiceImport) bool { return o.Namespace == key.Namespace && o.Name == key.Name })
		if at >= 0 {
			m.ClusterSetIPs = from.Local.Imports[at].Spec.IPs
		}
		if asks := asking(from.Local, key); asks != nil {
			m.Asks, m.Extended, m.Refused = true, asks.Is, asks.Refused()
		}
		if m.Extended && !slices.Contains(a.Names, below+explain.OwnZone) {
			a.Names = append(a.Names, below+explain.OwnZone)
		}
		a.Members = append(a.Members, m)
		a.Commands = append(a.Commands, line(slices.Concat([]string{"clusterset", "explain", key.String()}, s.options.Flags.Members, []string{"--context", from.Context})...))
	}
	if len(a.Members) == 0 {
		a.Commands = append(a.Commands, line("clusterset", "explain", key.String()))
	}
	return a
}
