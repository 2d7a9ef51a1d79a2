package importer

import (
	"slices"
	"testing"

	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/records"
)

// An invalid MemberCluster still restricts its cluster to its networks.
func TestInvalidMemberClustersStillConfine(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		want       []string
	}{
		{"none", "{}", []string{"10.1.0.7", "10.2.0.1"}},
		{"fine", "{zone: a, cidrs: [10.1.0.0/16]}", []string{"10.1.0.7"}},
		{"an invalid zone", `{zone: " a", cidrs: [10.1.0.0/16]}`, []string{"10.1.0.7"}},
		{"host bits", "{cidrs: [10.1.3.4/16]}", []string{"10.1.0.7"}},
		{"no network", "{cidrs: [10.1.0.0/99]}", nil},
		{"one that is none", "{cidrs: [10.1.0.0/99, 10.2.0.0/16]}", []string{"10.2.0.1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := records.Input(t, desired.DataPathNone, `
apiVersion: clusterset.dev/v1alpha1
kind: MemberCluster
metadata: {name: lyon}
spec: `+c.spec+`
---
apiVersion: clusterset.dev/v1alpha1
kind: ExportedService
metadata: {namespace: clusterset-member-lyon, name: web.shop}
spec: {serviceNamespace: shop, serviceName: web, type: Headless, exportedAt: "2026-01-01T00:00:00Z"}
---
apiVersion: clusterset.dev/v1alpha1
kind: ExportedEndpoints
metadata: {namespace: clusterset-member-lyon, name: web.shop.x-0}
spec: {serviceNamespace: shop, serviceName: web, addressType: IPv4, endpoints: [{addresses: [10.1.0.7]}, {addresses: [10.2.0.1]}]}
`)
			in.Members["lyon"], _ = in.Members["lyon"].Sanitized()
			if z := in.Members["lyon"].Spec.Zone; z != "" && z != "a" {
				t.Errorf("the zone %q is used", z)
			}
			var got []string
			for _, s := range in.Compute().Slices {
				for _, e := range s.Endpoints {
					got = append(got, e.Addresses...)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("imported %v, want %v", got, c.want)
			}
		})
	}
}
