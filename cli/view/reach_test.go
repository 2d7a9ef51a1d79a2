package view

import (
	"reflect"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// What the agents have measured is shown, and what they can't reach is a problem with its cure. Rules D47, D51 and D52 of
// docs/spec/data-path.md.
func TestReach(t *testing.T) {
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	verdict := func(name string, is metav1.ConditionStatus, reason string) clustersetv1alpha1.ClusterReachability {
		return clustersetv1alpha1.ClusterReachability{
			Name: name, Reachable: is, Reason: reason, Since: *ago(5 * time.Minute), RoundTripMicroseconds: 1234, Beacons: []string{"10.2.0.1:9471"},
		}
	}
	measured := func(age time.Duration, all ...clustersetv1alpha1.ClusterReachability) *clustersetv1alpha1.Reachability {
		return &clustersetv1alpha1.Reachability{ObjectMeta: metav1.ObjectMeta{Name: clustersetv1alpha1.ReachabilityName}, Cluster: "beijing", Stamp: metav1.NewMicroTime(now.Add(-age)), Clusters: all}
	}
	shanghai := func(is metav1.ConditionStatus, reason string) *clustersetv1alpha1.Reachability {
		return measured(0, verdict("shanghai", is, reason))
	}
	says := func(cluster string, age time.Duration, cantReach ...string) map[string]Heartbeat {
		return map[string]Heartbeat{cluster: {Renewed: now.Add(-age), CantReach: cantReach, Measures: true}}
	}
	for _, c := range []struct {
		name     string
		reach    *clustersetv1alpha1.Reachability
		heard    map[string]Heartbeat
		cell     string // of shanghai
		problems string // about, reason and a part of message or cure
	}{
		{"answers", shanghai(yes, "Answers"), nil, "1.2ms", ""},
		{"nothing is measured", shanghai(unknown, "NoBeacon"), nil, "", ""},
		{"one isn't measured", measured(0, verdict("shanghai", unknown, "NoBeacon"), verdict("tianjin", yes, "Answers")), nil, "not measured", ""},
		{"nothing is known", nil, nil, "", ""},
		{"no answer", shanghai(no, "NoAnswer"), nil, "NO, for 5m", "shanghai Unreachable on the way to 10.2.0.1:9471"},
		{"refused", shanghai(no, "Refused"), nil, "NO, for 5m", "shanghai Unreachable what refuses connections to 10.2.0.1:9471"},
		{"another cluster", shanghai(no, "WrongCluster"), nil, "NO, for 5m", "shanghai Unreachable their networks overlap"},
		{"back for a moment", shanghai(no, "Returning"), nil, "NO, for 5m", "shanghai Unreachable it answers again"},
		{"cut off itself", measured(0, verdict("shanghai", yes, "AllUnreachable"), verdict("tianjin", yes, "AllUnreachable")), nil, "1.2ms", "beijing AllUnreachable more likely cut off itself"},
		{"an agent that has stopped", measured(23*time.Minute, verdict("shanghai", no, "NoAnswer")), nil, "", ""}, // its Lease says that
		{"one that wrote in time", measured(210*time.Second, verdict("shanghai", yes, "Answers")), nil, "1.2ms", ""},
		{"others, as they say on the hub", nil, says("shanghai", 0, "tianjin"), "", "shanghai CannotReach can't reach tianjin"},
		{"one that said so an hour ago", nil, says("shanghai", time.Hour, "tianjin"), "", "shanghai Unwatched its last heartbeat"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Facts{Now: now, Local: &LocalFacts{Cluster: "beijing", Reach: c.reach}}
			for _, name := range []string{"beijing", "shanghai", "tianjin"} {
				f.Local.Members = append(f.Local.Members, member(name, "", clustersetv1alpha1.MemberReady, nil))
			}
			f.Hub = &HubFacts{Members: f.Local.Members, Heard: c.heard}
			r := Build(f)
			var got []string
			for _, p := range r.Problems {
				got = append(got, p.Name+" "+p.Reason+" "+p.Message+"; "+p.Cure)
			}
			words := strings.SplitN(c.problems, " ", 3)
			if c.problems == "" && len(got) > 0 || c.problems != "" && (len(got) != 1 || !strings.HasPrefix(got[0], words[0]+" "+words[1]+" ") || !strings.Contains(got[0], words[2])) {
				t.Errorf("problems %q, want %q", got, c.problems)
			}
			text := Screen{}.Render(r)
			if strings.Contains(text, "REACHED IN") != (c.cell != "") || !strings.Contains(text, c.cell) {
				t.Errorf("want %q:\n%s", c.cell, text)
			}
		})
	}
}

// A cluster whose clock is behind is heard all the same: the hub's clock says when it renewed its Lease.
func TestClocksThatDiffer(t *testing.T) {
	lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: api.HeartbeatLease, ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "kubectl-annotate", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "coordination.k8s.io/v1", Time: ago(time.Hour)},
		{Manager: api.FieldManagerExporter, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "coordination.k8s.io/v1", Time: ago(4 * time.Second)},
	}}}
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(now.Add(-10 * time.Minute)))
	if at := renewed(&lease); !at.Equal(now.Add(-4 * time.Second)) {
		t.Errorf("heard at %s", at)
	}
}

// The hub process is known by the Lease that it renews, in whatever namespace it runs now; not to who may not read that.
func TestTheHubProcessIsKnownByItsLease(t *testing.T) {
	lease := func(namespace, name string, age time.Duration) client.Object {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(now.Add(-age)))
		return l
	}
	of := lease(api.MemberNamespace("beijing"), api.HeartbeatLease, time.Second)
	for name, c := range map[string]struct {
		leases  []client.Object
		refused error
		want    time.Time
	}{
		"never run": {[]client.Object{of}, nil, time.Time{}},
		"moved":     {[]client.Object{of, lease("a", api.HubLeaderLease, time.Hour), lease("b", api.HubLeaderLease, time.Minute), lease("c", api.HubLeaderLease, 2*time.Hour)}, nil, now.Add(-time.Minute)},
		"refused":   {nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "", nil), time.Time{}},
	} {
		f, err := Fetch(t.Context(), nil, cluster(map[string]error{"Lease": c.refused}, c.leases...))
		if err != nil || f.Hub.Err != nil || !f.Hub.Process.Equal(c.want) {
			t.Errorf("%s: %s, %v, %v; want %s", name, f.Hub.Process, err, f.Hub.Err, c.want)
		}
	}
}

// Anyone who writes a report can't put other words into what people read.
func TestAReportNamesOnlyClusters(t *testing.T) {
	lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: api.HeartbeatLease}}
	report := clustersetv1alpha1.MemberReport{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: clustersetv1alpha1.MemberReportName}}
	report.Spec = clustersetv1alpha1.MemberReportSpec{
		Unreachable: []string{"lyon", "all is well. Run curl example.org", "name.context", "\u202enoyl", "", "a.b.c"},
		Unmeasured:  []string{"UPPER", "tianjin"}, CantFollow: "nothing; run this",
	}
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(now))
	heard, err := Heartbeats(t.Context(), cluster(nil, &lease, &report))
	if err != nil {
		t.Fatal(err)
	}
	want := Heartbeat{Renewed: now, CantReach: []string{"lyon", "name.context"}, Unmeasured: []string{"tianjin"}, Measures: true}
	if got := heard["beijing"]; !got.Renewed.Equal(now) {
		t.Errorf("renewed at %s", got.Renewed)
	} else if got.Renewed = now; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Rule D97 of docs/spec/data-path.md; what status lists is in testdata/networks.txt.
func TestAcrossNetworks(t *testing.T) {
	const vip, headless = mcsv1beta1.ClusterSetIP, mcsv1beta1.Headless
	for name, tc := range map[string]struct {
		from, by string // the cluster, and those that export the service
		kind     mcsv1beta1.ServiceImportType
		slices   []discoveryv1.EndpointSlice
		want     string
	}{
		"the same network":  {"beijing", "tianjin beijing", vip, nil, ""},
		"a load balancer":   {"beijing", "shanghai tianjin", vip, []discoveryv1.EndpointSlice{external("web", 80, "192.0.2.10")}, "shanghai is in network edge, and reached at 192.0.2.10, port http 80"},
		"nodes":             {"beijing", "shanghai", vip, []discoveryv1.EndpointSlice{external("web", 31234, "192.0.2.22", "192.0.2.21")}, "shanghai is in network edge, and reached at 192.0.2.21, 192.0.2.22, port http 31234"},
		"another service's": {"beijing", "shanghai", vip, []discoveryv1.EndpointSlice{external("api", 80, "192.0.2.10")}, "NoExternalAddress: shanghai is in network edge, and isn't used: it has no external address, or none that may be used"},
		"headless":          {"beijing", "shanghai", headless, nil, "Headless: shanghai is in network edge, and isn't used: the addresses of a headless service's pods mean nothing in another network"},
		"no externalCIDRs": {"shanghai", "tianjin lyon", vip, nil, "NotInExternalCIDRs: lyon is in the network without a name, and isn't used: its MemberCluster states no spec.externalCIDRs\n" +
			"NotInExternalCIDRs: tianjin is in network core, and isn't used: its MemberCluster states no spec.externalCIDRs"},
		"the network is taken back": {"lyon", "shanghai", vip, nil, ""},
	} {
		all := inNetworks()
		if name == "the network is taken back" {
			all[1].Spec.Network = ""
		}
		o := imported("web", tc.kind)
		o.Spec.Ports = []mcsv1beta1.ServicePort{{Name: "http", Port: 80}}
		for c := range strings.FieldsSeq(tc.by) {
			o.Status.Clusters = append(o.Status.Clusters, mcsv1beta1.ClusterStatus{Cluster: c})
		}
		var slices []*discoveryv1.EndpointSlice
		for i := range tc.slices {
			slices = append(slices, &tc.slices[i])
		}
		var got []string
		for _, a := range AcrossNetworks(tc.from, all, &o, slices) {
			if (a.Cure == "") != (a.Reason == "") || (a.Cure == "") != (len(a.Addresses) > 0) {
				t.Errorf("%s: %+v", name, a)
			}
			got = append(got, strings.TrimPrefix(a.Reason+": "+a.Message, ": "))
		}
		if text := strings.Join(got, "\n"); text != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, text, tc.want)
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
		"around two":           {[]cluster{{"c", "", "10.0.0.0/8"}, {"a", "", "10.1.0.0/16 10.3.0.0/16"}, {"b", "", "10.2.0.0/16"}}, "a: 10.1.0.0/16 of a and 10.0.0.0/8 of c overlap, and both are in the network without a name\nb: 10.2.0.0/16 of b and 10.0.0.0/8 of c overlap, and both are in the network without a name"},
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
