package console

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/cli/explain"
	"github.com/clusterset/clusterset/cli/preview"
)

// access returns how clients use a service. rows say what its names are in each place.
func (s *Server) access(sources []Source, key types.NamespacedName, rows []Row) Access {
	below := key.Name + "." + key.Namespace + ".svc."
	a := Access{Names: []string{below + explain.DefaultZone}}
	if slices.ContainsFunc(rows, func(r Row) bool { return r.Before != nil && r.Before.Global.Result != preview.NXDomain }) {
		a.Names = append(a.Names, below+"global")
	}
	for _, name := range a.Names {
		a.Commands = append(a.Commands, line("dig", "+short", name))
	}
	for i := range sources {
		if from := &sources[i]; from.Local != nil {
			m := Member{Cluster: from.Cluster, Context: from.Context}
			at := slices.IndexFunc(from.Local.Imports, func(o mcsv1beta1.ServiceImport) bool { return o.Namespace == key.Namespace && o.Name == key.Name })
			if at >= 0 {
				m.ClusterSetIPs = from.Local.Imports[at].Spec.IPs
			}
			a.Members = append(a.Members, m)
			a.Commands = append(a.Commands, line(slices.Concat([]string{"clusterset", "explain", key.String()}, s.options.Flags.Members, []string{"--context", from.Context})...))
		}
	}
	if len(a.Members) == 0 {
		a.Commands = append(a.Commands, line("clusterset", "explain", key.String()))
	}
	return a
}
