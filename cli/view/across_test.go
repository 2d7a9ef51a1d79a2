package view

import (
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Rule D97 of docs/spec/data-path.md; what status lists is in testdata/networks.txt.
func TestAcrossNetworks(t *testing.T) {
	for _, tc := range []struct {
		name   string
		from   string
		kind   mcsv1beta1.ServiceImportType
		by     []string
		slices []discoveryv1.EndpointSlice
		change func([]clustersetv1alpha1.MemberCluster)
		want   string
	}{
		{"the same network", "beijing", mcsv1beta1.ClusterSetIP, []string{"tianjin", "beijing"}, nil, nil, ""},
		{
			"a load balancer", "beijing", mcsv1beta1.ClusterSetIP,
			[]string{"shanghai", "tianjin"},
			[]discoveryv1.EndpointSlice{external("web", 80, "192.0.2.10")},
			nil,
			"shanghai is in network edge, and reached at 192.0.2.10, at the service's own ports, as at a load balancer",
		},
		{
			"nodes", "beijing", mcsv1beta1.ClusterSetIP,
			[]string{"shanghai"},
			[]discoveryv1.EndpointSlice{external("web", 31234, "192.0.2.22", "192.0.2.21")},
			nil,
			"shanghai is in network edge, and reached at 192.0.2.21, 192.0.2.22, at other ports, as at nodes: http 31234",
		},
		{
			"no pod is ready", "lyon", mcsv1beta1.ClusterSetIP,
			[]string{"shanghai"},
			[]discoveryv1.EndpointSlice{external("web", 80, "-192.0.2.10")},
			nil,
			"shanghai is in network edge, and reached at 192.0.2.10, at the service's own ports, as at a load balancer; no endpoint behind is ready",
		},
		{
			"another service's", "beijing", mcsv1beta1.ClusterSetIP,
			[]string{"shanghai"},
			[]discoveryv1.EndpointSlice{external("api", 80, "192.0.2.10")},
			nil,
			"NoExternalAddress: shanghai is in network edge, and isn't used: it has no external address, or none that may be used",
		},
		{
			"headless", "beijing", mcsv1beta1.Headless,
			[]string{"shanghai"},
			nil, nil,
			"Headless: shanghai is in network edge, and isn't used: the addresses of a headless service's pods mean nothing in another network",
		},
		{
			"no externalCIDRs", "shanghai", mcsv1beta1.ClusterSetIP,
			[]string{"tianjin", "lyon"},
			nil, nil,
			"NotInExternalCIDRs: lyon is in the network without a name, and isn't used: its MemberCluster states no spec.externalCIDRs\n" +
				"NotInExternalCIDRs: tianjin is in network core, and isn't used: its MemberCluster states no spec.externalCIDRs",
		},
		{"the network is taken back", "lyon", mcsv1beta1.ClusterSetIP, []string{"shanghai"}, nil, func(all []clustersetv1alpha1.MemberCluster) { memberOf(all, "shanghai").Spec.Network = "" }, ""},
	} {
		all := inNetworks()
		if tc.change != nil {
			tc.change(all)
		}
		o := imported("web", tc.kind)
		o.Spec.Ports = []mcsv1beta1.ServicePort{{Name: "http", Port: 80}}
		for _, c := range tc.by {
			o.Status.Clusters = append(o.Status.Clusters, mcsv1beta1.ClusterStatus{Cluster: c})
		}
		var slices []*discoveryv1.EndpointSlice
		for i := range tc.slices {
			slices = append(slices, &tc.slices[i])
		}
		var got []string
		for _, a := range AcrossNetworks(tc.from, all, &o, slices) {
			if (a.Cure == "") != (a.Reason == "") || (a.Cure == "") != (len(a.Addresses) > 0) {
				t.Errorf("%s: %+v", tc.name, a)
			}
			got = append(got, strings.TrimPrefix(a.Reason+": "+a.Message, ": "))
		}
		if text := strings.Join(got, "\n"); text != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", tc.name, text, tc.want)
		}
	}
}

// Pod networks of clusters may overlap if they are in different networks, and not in one. Rule D96 of docs/spec/data-path.md.
func TestOverlaps(t *testing.T) {
	type cluster struct{ name, network, cidrs string }
	for name, c := range map[string]struct {
		clusters []cluster
		want     string
	}{
		"apart":                {[]cluster{{"a", "", "10.1.0.0/16"}, {"b", "", "10.2.0.0/16 fd00:2::/64"}, {"c", "", ""}, {"d", "", "fd00:1::/64"}}, ""},
		"different networks":   {[]cluster{{"a", "core", "10.244.0.0/16"}, {"b", "edge", "10.244.0.0/16"}, {"c", "", "10.244.0.0/16"}}, ""},
		"the same":             {[]cluster{{"b", "edge", "10.244.0.0/16"}, {"a", "edge", "10.244.0.0/16"}}, "a: 10.244.0.0/16 of a and 10.244.0.0/16 of b overlap, and both are in network edge"},
		"no named network":     {[]cluster{{"a", "", "10.0.0.0/8"}, {"b", "", "10.2.0.0/16"}}, "a: 10.0.0.0/8 of a and 10.2.0.0/16 of b overlap, and both are in the network without a name"},
		"one within itself":    {[]cluster{{"a", "", "10.0.0.0/8 10.2.0.0/16"}, {"b", "", "11.2.0.0/16"}}, ""},
		"around two":           {[]cluster{{"c", "", "10.0.0.0/8"}, {"a", "", "10.1.0.0/16 10.3.0.0/16"}, {"b", "", "10.2.0.0/16"}}, "a: 10.0.0.0/8 of c and 10.1.0.0/16 of a overlap, and both are in the network without a name\nb: 10.0.0.0/8 of c and 10.2.0.0/16 of b overlap, and both are in the network without a name"},
		"of IPv6":              {[]cluster{{"a", "x", "fd00::/16"}, {"b", "x", "fd00:1::/32"}, {"c", "x", "10.0.0.0/8"}}, "a: fd00::/16 of a and fd00:1::/32 of b overlap, and both are in network x"},
		"all of one family":    {[]cluster{{"a", "", "0.0.0.0/0"}, {"b", "", "::/0"}}, ""},
		"in and out and in":    {[]cluster{{"a", "", "10.0.0.0/8"}, {"b", "", "10.1.0.0/16"}, {"c", "", "10.1.1.0/24"}, {"d", "", "11.0.0.0/8"}}, "a: 10.0.0.0/8 of a and 10.1.0.0/16 of b overlap, and both are in the network without a name\na: 10.0.0.0/8 of a and 10.1.1.0/24 of c overlap, and both are in the network without a name\nb: 10.1.0.0/16 of b and 10.1.1.0/24 of c overlap, and both are in the network without a name"},
		"what isn't a network": {[]cluster{{"a", "", "x"}, {"b", "", "x"}}, ""},
	} {
		var all []clustersetv1alpha1.MemberCluster
		for _, m := range c.clusters {
			all = append(all, member(m.name, "", clustersetv1alpha1.MemberReady, nil, func(mc *clustersetv1alpha1.MemberCluster) {
				mc.Spec.Network, mc.Spec.CIDRs = m.network, strings.Fields(m.cidrs)
			}))
		}
		var got []string
		for _, p := range overlaps(all) {
			got = append(got, p.Name+": "+strings.TrimSuffix(p.Message, ": the same address can be in either"))
		}
		if text := strings.Join(got, "\n"); text != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, text, c.want)
		}
	}
	left := inNetworks()
	for i := range left {
		left[i].Spec.CIDRs, left[i].Spec.Network = []string{"10.244.0.0/16"}, ""
		left[i].SetLeft(now)
	}
	if p := overlaps(left); p != nil {
		t.Errorf("clusters that have left: %v", p)
	}
}
