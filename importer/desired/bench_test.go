package desired_test

import (
	"fmt"
	"testing"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/test/records"
)

// BenchmarkCompute computes a service of ten endpoints in each of some clusters, for a cluster with nodes in three zones.
func BenchmarkCompute(b *testing.B) {
	for _, clusters := range []int{3, 30, 250} {
		b.Run(fmt.Sprint(clusters), func(b *testing.B) {
			in := records.Service{Input: desired.Input{DataPath: desired.DataPathPods, Members: map[string]*clustersetv1alpha1.MemberCluster{}}}
			in.Key.Namespace, in.Key.Name = "shop", "web"
			for _, zone := range []string{"z0", "z1", "z2"} {
				in.Nodes = append(in.Nodes, topology.Location{Zone: zone, Region: "r"})
			}
			for c := range clusters {
				name := fmt.Sprintf("cluster-%03d", c)
				m := &clustersetv1alpha1.MemberCluster{}
				m.Name, m.Spec.Zones, m.Spec.Region, m.Status.Phase = name, []string{fmt.Sprint("z", c%5)}, "r", clustersetv1alpha1.MemberReady
				in.Members[name] = m
				for _, o := range records.Decode(b, records.Exported(name, "shop", "web", fmt.Sprintf("10.200.0.%d", c+1), "10.0.0.1")) {
					switch o := o.(type) {
					case *clustersetv1alpha1.ExportedService:
						in.Services = append(in.Services, o)
					case *clustersetv1alpha1.ExportedEndpoints:
						o.Spec.Endpoints = nil
						for e := range 10 {
							o.Spec.Endpoints = append(o.Spec.Endpoints, clustersetv1alpha1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.0.%d", c, e+1)}})
						}
						in.Endpoints = append(in.Endpoints, o)
					}
				}
			}
			compact := in.Compact()
			b.ReportAllocs()
			for b.Loop() {
				desired.Compute(compact)
			}
		})
	}
}
